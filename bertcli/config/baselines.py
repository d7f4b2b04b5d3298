"""Options of `bert baseline`."""

from dataclasses import dataclass

from bertcli.config.options import option
from bertcli.config.training import OwnDataConfig

METHODS = (MAJORITY, BAG_OF_WORDS) = ("majority", "bag-of-words")
METHOD = "What is fitted: {choices}."


@dataclass(kw_only=True)
class BaselineConfig(OwnDataConfig):
    """Options of `bert baseline`."""

    method: str = option(BAG_OF_WORDS, METHOD, choices=METHODS)
    data_dir: str | None = option(None, "Folder of the official files; default: $BERT_DATA, else the Hub.")
    out: str | None = option(None, "Run folder; default: a new one under runs/.")
    seed: int = option(0, "Random seed: of the dev set cut off own data, and of new weights.", minimum=0)
    limit: int | None = option(None, "Train on this many examples, drawn by the seed.", minimum=1)
