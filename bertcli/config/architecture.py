"""The architecture of a model with new weights: a named size, of which options replace parts."""

import os
from dataclasses import dataclass
from typing import Any

from bertcli.config.options import Config, option
from bertcli.errors import UserError, flag_of
from bertcli.families import DISTILLED, get_family, pretrainable, sizes
from bertcli.families.family import LARGEST, ModelSize

BYTES_OF_WEIGHT = 4  # in float32
FAMILY_OF_WEIGHTS = "Family of new weights: {choices}; default: the data's, else bert."
PARTS = ("layers", "hidden_size", "heads", "intermediate_size")


def _part(name: str, text: str) -> Any:
    return option(None, text, minimum=1, maximum=LARGEST[name])


@dataclass(kw_only=True)
class ArchitectureConfig(Config):
    """Options of the commands that make a model with new weights."""

    family: str | None = option(None, FAMILY_OF_WEIGHTS, choices=pretrainable, elsewhere=DISTILLED)
    size: str | None = option(None, "Model size for --from scratch: {choices}.", choices=sizes)
    layers: int | None = _part("num_hidden_layers", "Number of layers of new weights; default: that of --size.")
    hidden_size: int | None = _part("hidden_size", "Hidden size; default: the size's.")
    heads: int | None = _part("num_attention_heads", "Attention heads of new weights; default: that of --size.")
    intermediate_size: int | None = _part("intermediate_size", "Intermediate size; default: 4 × the hidden size.")

    @property
    def given_parts(self) -> dict[str, int]:
        """The parts of the size that are replaced, by their options."""
        return {name: value for name in PARTS if (value := getattr(self, name)) is not None}

    @property
    def model_size(self) -> ModelSize:
        """The size, with the parts that are given in place of its own.

        Raises UserError if the hidden size does not suit the heads or the family, or this machine cannot hold the weights.
        """
        family = get_family(self.family)
        named = family.get_size(str(self.size))
        hidden, heads = self.hidden_size or named.hidden, self.heads or named.heads
        size = ModelSize(self.layers or named.layers, hidden, heads, given_intermediate=self.intermediate_size)
        if hidden % heads:
            divisors = (each for each in range(1, hidden + 1) if hidden % each == 0)
            nearest = min(divisors, key=lambda each: abs(each - heads))
            what = f"A hidden size of {hidden} cannot be divided among {heads} heads."
            raise UserError(what, f"Give a number of heads that divides it, such as --heads {nearest}")
        if family.has_even_hidden_size and hidden % 2:
            raise UserError(f"The hidden size of {family.name} must be even.", f"Give --hidden-size {2 * hidden}")
        needed, memory = BYTES_OF_WEIGHT * size.parameters(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if needed > memory:
            what = f"A model of {size} takes {needed / 1e9:,.0f} GB, and this machine has {memory / 1e9:,.0f} GB of memory."
            raise UserError(what, "Give fewer --layers or a smaller --hidden-size.")
        return size

    @property
    def size_name(self) -> str:
        """The name of the size, or where parts of it are replaced, its layers, hidden size and heads."""
        size, own = self.model_size, self.given_parts
        named = f"{size.layers}-{size.hidden}-{size.heads}" if own else str(self.size)
        return f"{self.family}-{named}" if self.family else named


def check_new_weights(config: ArchitectureConfig, start: str) -> None:
    """Raise UserError if a part of the size does not fit the others, or is given for a model to start from."""
    if start == "scratch":
        _ = config.model_size
    elif config.given_parts:
        flags = " ".join(f"{flag_of(name)} {value}" for name, value in config.given_parts.items())
        hint = f"Leave it out, or give both: --from scratch --size base {flags}"
        raise UserError(f"{flags.split()[0]} is for new weights only.", hint)
