"""BERT (Devlin et al. 2019) and its miniatures (Turc et al. 2019)."""

from typing import Any

from bertcli.families.family import Family, ModelSize

LINES = ("full-sentences", "doc-sentences", "sentence-pairs", "lines")  # of RoBERTa's and DistilBERT's papers
PAPER, TURC = "Devlin et al. 2019, section 3", "Turc et al. 2019"

SHAPES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "medium": (8, 512, 8)}
MINIATURES = {name: ModelSize(*shape, TURC) for name, shape in SHAPES.items()}
SIZES = {**MINIATURES, "base": ModelSize(12, 768, 12, PAPER), "large": ModelSize(24, 1024, 16, PAPER)}


def _settings(size: ModelSize) -> dict[str, Any]:
    """The settings of modeling.py: GELU by tanh, LayerNorm with an epsilon of 1e-12."""
    return {**size.settings, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-12}


BERT = Family(
    "BERT",
    ("bert",),
    is_packed=True,
    is_original=True,
    sizes=SIZES,
    settings=_settings,
    objectives=("mlm+nsp", "mlm+sop", "mlm", "left-to-right", "two-directions", *LINES, "sentence-pairs+nsp"),
)
