"""Options of `bert baseline`."""

from dataclasses import dataclass, fields

from bertcli.config.options import MAX_SEED, option
from bertcli.config.training import OwnDataConfig

MAJORITY, BAG_OF_WORDS, STATIC_VECTORS = "majority", "bag-of-words", "static-vectors"
LSTMS = (LSTM, BILSTM) = ("lstm", "bilstm")
LEFT_TO_RIGHT = "left-to-right"
METHODS = (MAJORITY, BAG_OF_WORDS, STATIC_VECTORS, *LSTMS, LEFT_TO_RIGHT)
TRAINED = (*LSTMS, LEFT_TO_RIGHT)  # in epochs
METHOD = "What is fitted: {choices}."
VECTORS = (RANDOM, STATIC) = ("random", "static")
VECTORS_TEXT = "static-vectors, --vectors static: text files to train word vectors on; default: the training examples."
FROM = "left-to-right: the run to fine-tune; default: the latest run pre-trained with that objective."


@dataclass(kw_only=True)
class BaselineConfig(OwnDataConfig):
    """Options of `bert baseline`."""

    method: str = option(BAG_OF_WORDS, METHOD, choices=METHODS)
    data_dir: str | None = option(None, "Folder of the official files; default: $BERT_DATA, else the Hub.")
    out: str | None = option(None, "Run folder; default: a new one under runs/.")
    seed: int = option(0, "Random seed of the dev set cut off, and of new weights.", minimum=0, maximum=MAX_SEED)
    limit: int | None = option(None, "Train on this many examples, drawn by the seed.", minimum=1)
    from_: str | None = option(None, FROM, of=(LEFT_TO_RIGHT,))
    vectors: str = option(RANDOM, "lstm, bilstm: the word vectors to start from: {choices}.", choices=VECTORS, of=LSTMS)
    vectors_text: list[str] = option([], VECTORS_TEXT, nargs="+", of=(STATIC_VECTORS, *LSTMS))
    epochs: int | None = option(None, "LSTMs, left-to-right: epochs; default: by the examples.", minimum=1, of=TRAINED)
    batch_size: int = option(32, "LSTMs, left-to-right: examples per step.", minimum=1, of=TRAINED)
    learning_rate: float = option(1e-3, "LSTMs, left-to-right: learning rate of Adam.", minimum=0, of=TRAINED)
    dropout: float = option(0.5, "lstm, bilstm: dropout probability.", minimum=0, maximum=0.9, of=LSTMS)

    @property
    def unused(self) -> set[str]:
        """The options that its method does not have."""
        names = {each.name for each in fields(self) if each.metadata["of"] and self.method not in each.metadata["of"]}
        return names | ({"vectors_text"} if self.method in LSTMS and self.vectors == RANDOM else set())
