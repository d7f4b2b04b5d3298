"""Two encoders run apart and joined: one predicts each next token, the other each previous one, as ELMo does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bertcli.families.two_directions import TWO_DIRECTIONS as FAMILY
from bertcli.objectives.left_to_right import NEXT_TOKEN, all_but_one
from bertcli.objectives.masked_lm import RUNS
from bertcli.objectives.objective import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.objectives.objective import Targets


def _previous_tokens(read: UnpackedRows) -> Targets:
    """The token before each one but the first of its row; no token is masked."""
    import numpy as np

    read.input_ids[:] = read.unmasked_ids()
    return {"previous_token_ids": np.delete(read.input_ids, np.cumsum(read.lengths) - 1)}


def _fits(model: PreTrainedModel) -> bool:
    from bertcli.models.packed import is_joined

    return is_joined(model)


PREVIOUS_TOKEN = replace(
    NEXT_TOKEN,
    name="previous_token",
    labels="previous_token_ids",
    targets=_previous_tokens,
    rows=lambda batch: all_but_one(batch, 0),
    head=lambda model, hidden: model.predictions(1, hidden),
    in_words=lambda metrics: "",
    verdict=lambda metrics: "",
)
TWO_DIRECTIONS = Objective(
    "two-directions",
    (replace(NEXT_TOKEN, head=lambda model, hidden: model.predictions(0, hidden)), PREVIOUS_TOKEN),
    RUNS,
    family=FAMILY,
    model_class="AutoModelForCausalLM",
    labels={"is_decoder": True},
    fits=_fits,
    fills_masks=False,
)
