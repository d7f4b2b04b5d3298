"""Replaced-token detection of DeBERTa 3 (He et al. 2023), and its three ways to share the embeddings of tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bertcli.objectives.masked_lm import MASKED_LM
from bertcli.objectives.masked_ngrams import IGNORED, draw_masks, rows_of_stream, targets_of
from bertcli.objectives.replaced_tokens import REPLACED_TOKENS, Detection, with_draws

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.packing.batches import PackedBatch

# T tokens of the batch, H hidden


def _detect(model: PreTrainedModel, states: Tensor) -> Tensor:
    """Logits of being an original and of being replaced, [T, 2]; the first are 0."""
    from torch.nn.functional import pad

    return pad(model.mask_predictions(states)[:, None], (1, 0))


def _disentangle(model: PreTrainedModel, generator: PreTrainedModel) -> None:
    from bertcli.models.own.replaced_tokens import disentangle_embeddings

    disentangle_embeddings(model, generator, is_new=not model.name_or_path)


def _share(model: PreTrainedModel, generator: PreTrainedModel) -> None:
    model.set_input_embeddings(generator.get_input_embeddings())


def _share_nothing(model: PreTrainedModel, generator: PreTrainedModel) -> None:
    """Leave each model its own embeddings."""


@dataclass(frozen=True)
class DebertaDetection(Detection):
    """The model reads each token with the state of the first one beside it.

    Both losses are one sum (`--decoupled_training False` of the original, whose default updates the generator first).
    """

    def auto_class(self) -> Any:
        """The class of the model, which transformers does not have."""
        from bertcli.models.own.replaced_tokens import DebertaV2ForPreTraining

        return DebertaV2ForPreTraining

    def states(self, model: PreTrainedModel, batch: PackedBatch) -> Tensor:
        """The hidden states with that of the first token of the sequence added, [T, H]."""
        from bertcli.models.own.replaced_tokens import with_first

        return with_first(super().states(model, batch), batch)


DRAWN_MASKS = replace(MASKED_LM, targets=lambda read: with_draws(read, targets_of(read)))
# The model adds weights of its own to the generator's embeddings, which learn nothing from its loss.
RTD_GDES = DebertaDetection(
    "rtd-gdes",
    (DRAWN_MASKS, replace(REPLACED_TOKENS, head=_detect)),
    rows_of_stream,
    draw_masks=draw_masks,
    fits=lambda model: hasattr(model, "mask_predictions"),
    share=_disentangle,
    ignored=IGNORED,
)
RTD_ES = replace(RTD_GDES, name="rtd-es", share=_share)  # one table learns from both losses, as in ELECTRA
RTD_NONE = replace(RTD_GDES, name="rtd-none", share=_share_nothing)
