"""The model sizes of the paper and of the miniatures, as data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSize:
    """Layers, hidden units and attention heads; the intermediate layer is four times the hidden one."""

    layers: int
    hidden: int
    heads: int
    source: str

    def parameters(self, vocab_size: int = 30522, positions: int = 512) -> int:
        """Weights of the encoder with its pooler, without heads."""
        h = self.hidden
        embeddings = (vocab_size + positions + 2) * h + 2 * h
        layer = 4 * (h * h + h) + (8 * h * h + 5 * h) + 4 * h
        return embeddings + self.layers * layer + h * h + h


MINIATURES = "Turc et al. 2019"
PAPER = "Devlin et al. 2019, section 3"

SIZES: dict[str, ModelSize] = {
    "tiny": ModelSize(2, 128, 2, MINIATURES),
    "mini": ModelSize(4, 256, 4, MINIATURES),
    "small": ModelSize(4, 512, 8, MINIATURES),
    "medium": ModelSize(8, 512, 8, MINIATURES),
    "base": ModelSize(12, 768, 12, PAPER),
    "large": ModelSize(24, 1024, 16, PAPER),
}
