"""Options of `bert baseline`."""

from dataclasses import dataclass

from bertcli.config.options import option
from bertcli.config.training import OwnDataConfig

METHODS = ("majority", "bag-of-words", "static-vectors", "lstm", "bilstm")
METHOD = "What is fitted: {choices}."
VECTORS = ("random", "static")
VECTORS_TEXT = "static-vectors, --vectors static: text files to train word vectors on; default: the training examples."


@dataclass(kw_only=True)
class BaselineConfig(OwnDataConfig):
    """Options of `bert baseline`."""

    method: str = option("bag-of-words", METHOD, choices=METHODS)
    data_dir: str | None = option(None, "Folder of the official files; default: $BERT_DATA, else the Hub.")
    out: str | None = option(None, "Run folder; default: a new one under runs/.")
    seed: int = option(0, "Random seed: of the dev set cut off own data, and of new weights.", minimum=0)
    limit: int | None = option(None, "Train on this many examples, drawn by the seed.", minimum=1)
    vectors: str = option("random", "lstm, bilstm: the word vectors to start from: {choices}.", choices=VECTORS)
    vectors_text: list[str] = option([], VECTORS_TEXT)
    epochs: int | None = option(None, "lstm, bilstm: number of epochs; default: 5, more for few examples.", minimum=1)
    batch_size: int = option(32, "lstm, bilstm: examples per step.", minimum=1)
    learning_rate: float = option(1e-3, "lstm, bilstm: learning rate of Adam.", minimum=0)
    dropout: float = option(0.5, "lstm, bilstm: dropout probability.", minimum=0, maximum=0.9)
