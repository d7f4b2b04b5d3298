"""How vocabularies are learnt from text, one file an algorithm."""

from collections import Counter
from collections.abc import Callable, Iterable

from bertcli.config.data import BuildVocabConfig
from bertcli.data.text.tokenization import WordPiece
from bertcli.families.family import Family
from bertcli.lifecycle.vocabularies import byte_bpe, sentencepiece, wordpiece

# Lines, the counts of their characters, the options, the family and the name of the vocabulary -> it, and the size of its alphabet
Learn = Callable[[Iterable[str], Counter[str], BuildVocabConfig, Family, str], tuple[WordPiece, int]]
LEARN: dict[str, Learn] = {"wordpiece": wordpiece.learn, "byte-bpe": byte_bpe.learn}
LEARN["sentencepiece"] = sentencepiece.learn
