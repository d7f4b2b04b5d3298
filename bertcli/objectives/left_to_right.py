"""Left-to-right language modelling: predict each token from those before it ("LTR & No NSP", BERT section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bertcli.objectives.masked_lm import MASKED_LM, RUNS, verdict_on
from bertcli.objectives.objective import Objective

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.packing.batches import PackedBatch
    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.objectives.objective import Targets


def next_tokens(read: UnpackedRows) -> Targets:
    """The token after each one but the last of its row, in the order of the tokens; no token is masked."""
    import numpy as np

    read.input_ids[:] = read.unmasked_ids()
    is_first = np.zeros(len(read.input_ids), dtype=bool)
    is_first[np.cumsum(read.lengths) - read.lengths] = True
    return {"next_token_ids": read.input_ids[~is_first]}


def all_but_one(batch: PackedBatch, place: int) -> Tensor:
    """The tokens but the first of each sequence, or for `place` -1 the last, [T - N], found on the CPU."""
    import torch

    from bertcli.data.packing.batches import send

    tokens = torch.split(torch.arange(sum(batch.lengths)), list(batch.lengths))
    return send(torch.cat([part[1:] if place == 0 else part[:-1] for part in tokens]), batch.input_ids.device)


def _in_words(metrics: Mapping[str, float]) -> str:
    found, guess = metrics["next_token_accuracy"], metrics["most_frequent_token_accuracy"]
    return f"It predicts {found:.1f} of 100 next tokens (always guessing the most frequent one: {guess:.1f})"


NEXT_TOKEN = replace(
    MASKED_LM,
    name="next_token",
    labels="next_token_ids",
    targets=next_tokens,
    rows=lambda batch: all_but_one(batch, -1),
    head=lambda model, hidden: model.cls.predictions(hidden),  # [T - N, V]
    in_words=_in_words,
    verdict=partial(verdict_on, "Next-token", "before each"),
)


def _is_causal(model: PreTrainedModel) -> bool:
    """Whether a model has BERT's head for tokens, and its tokens see only those before them."""
    from bertcli.models.packed import is_causal

    return is_causal(model) and hasattr(getattr(model, "cls", None), "predictions")


CAUSAL: Any = {"model_class": "AutoModelForCausalLM", "labels": {"is_decoder": True}, "fills_masks": False}
LEFT_TO_RIGHT = Objective("left-to-right", (NEXT_TOKEN,), RUNS, fits=_is_causal, trains_every_weight=True, **CAUSAL)
