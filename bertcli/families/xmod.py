"""X-MOD (Pfeiffer et al. 2022): RoBERTa with adapters for each language."""

from typing import TYPE_CHECKING

from bertcli import say
from bertcli.families.family import Family, starts_after_padding

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def _choose_language(model: "PreTrainedModel", source: str) -> None:
    """Take the adapters of the first language, if config.json names no default one."""
    languages = model.config.languages
    if languages and not model.config.default_language:
        model.set_default_language(languages[0])
        say(f"language: {languages[0]}, the first of {source}, whose config.json has no `default_language`")


XMOD = Family("X-MOD", ("xmod",), first_position=starts_after_padding, prepare=_choose_language)
