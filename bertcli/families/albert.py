"""ALBERT (Lan et al. 2020), whose layers share their weights."""

from typing import TYPE_CHECKING, Any

from bertcli.families.family import Family

if TYPE_CHECKING:
    from torch import Tensor, nn


def _pool(base: "nn.Module", first: "Tensor") -> Any:
    """The pooler is a linear layer, with the activation in another module. [N, 1, H] to [N, H]."""
    return base.pooler_activation(base.pooler(first[:, 0]))  # type: ignore[operator]


ALBERT = Family(
    "ALBERT",
    ("albert",),
    is_packed=True,
    pool=_pool,
    predict_tokens=lambda model, hidden: model.predictions(hidden),
    vocabularies=("sentencepiece",),
    tokenizer_class="AlbertTokenizer",
    special_tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
)
