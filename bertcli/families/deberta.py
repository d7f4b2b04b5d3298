"""DeBERTa (He et al. 2021), whose attention tells content and relative positions apart, and its versions 2 and 3."""

from typing import TYPE_CHECKING, Any

from bertcli.families.family import Family

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


def _predict_tokens(model: "PreTrainedModel", hidden: "Tensor") -> Any:
    """The logits of the head that the original has too, or of the one that older folders have."""
    if model.config.legacy:
        return model.cls(hidden)
    return model.lm_predictions(hidden, model.get_input_embeddings())


DEBERTA = Family(
    "DeBERTa", ("deberta", "deberta-v2"), is_packed=True, predict_tokens=_predict_tokens
)
