"""The family of a pre-training: that of its data, with the defaults of the family for the width of its model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bertcli import say
from bertcli.config.training import PretrainConfig
from bertcli.data.json_files import read_json
from bertcli.data.pretraining.destination import Destination
from bertcli.errors import UserError
from bertcli.families import get_family
from bertcli.families.bert import BERT
from bertcli.lifecycle.workspace import latest_pretraining_data, resolve_model
from bertcli.training.run_folder import MEND


def with_family(config: PretrainConfig) -> PretrainConfig:
    """The options with the family of the data, and its defaults in the place of those that were not given.

    Raises UserError if --family is another, or there is no model to start from.
    """
    config, sized = _with_size_of_start(config)
    try:
        folder = config.data.split(",")[0] if config.data else latest_pretraining_data(held_out=config.eval_data)
        manifest = Destination(folder).manifest()
    except UserError:  # raised again, and to the point, where the data are opened
        return config
    made_for = manifest.get("family", BERT.key if manifest else config.family)
    if config.family not in (None, made_for):
        what = f"`{folder}` was made for {get_family(made_for).name}, not for {get_family(config.family).name}."
        fits = config.objective is None or config.objective in get_family(made_for).objectives
        hint = f"{'Leave --family out, or make' if fits else 'Make'} other data: {how_to_make(str(config.family))}"
        raise UserError(what, hint)
    family = get_family(made_for)
    key = None if family is BERT else family.key
    sized = replace(sized, family=key)
    made = {name: each(sized) if callable(each) else each for name, each in family.training_defaults.items()}
    config = config.with_defaults(made)
    config.family = key  # also where a recipe has none
    return config


def how_to_make(family: str) -> str:
    """What to type for a vocabulary and data of another family, in folders of their own."""
    vocabulary = f"bert build-vocab TEXT --family {family} --out vocab-{family}"
    data = f"bert make-pretraining-data TEXT --family {family} --tokenizer vocab-{family} --out data-{family}"
    return f"{vocabulary} && {data}"


def name_of_run(config: PretrainConfig) -> str:
    """What a new run is called: by the size of its new weights, or by the model that it starts from."""
    if not starts_from_model(config):
        return f"pretrain-{config.size_name}"
    source = Path(str(config.from_))
    name = (source.absolute().parent if source.name == "model" else source).name
    return name if name.startswith("pretrain-") else f"pretrain-{name}"


def starts_from_model(config: PretrainConfig) -> bool:
    """Whether the weights are not new."""
    return config.from_ not in (None, "scratch")


def _with_size_of_start(config: PretrainConfig) -> tuple[PretrainConfig, PretrainConfig]:
    """The options without a size where a model is given to start from, and the same with its width."""
    if config.resume or not starts_from_model(config):
        return config, config
    if "size" in config.given:
        say(f"--size {config.size} has no effect: the model to start from has its own size")
    saved = read_json(Path(resolve_model(str(config.from_)), "config.json"), MEND)
    sized = replace(config, hidden_size=saved.get("hidden_size"), heads=saved.get("num_attention_heads"))
    return config.build(config, {"size": None}), sized
