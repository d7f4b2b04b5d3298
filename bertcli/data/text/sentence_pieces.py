"""Sentence pieces as ALBERT's code reads them (its tokenization.py and create_pretraining_data.py)."""

import json
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

SPACE = "▁"  # begins a piece that follows a space
# The original takes these, and English letters, for the inside of a word.
MARKS = set(string.punctuation) - set("'<=>")
LETTERS = set(string.ascii_letters)


def normalize(text: str, cased: bool, keeps_marks: bool = False) -> str:
    """The text with single spaces, decomposed by NFKD and without combining characters unless `keeps_marks`.

    It is in lower case unless `cased`.
    """
    kept = " ".join(text.split())
    if not keeps_marks:
        kept = "".join(each for each in unicodedata.normalize("NFKD", kept) if not unicodedata.combining(each))
    return kept if cased else kept.lower()


def begins_word(piece: str) -> bool:
    """Whether a piece begins a word, for masks of whole words: also one of digits, or of letters that are not English."""
    is_inside = all(each in MARKS or each.lower() in LETTERS for each in piece)
    return piece.startswith((SPACE, "<")) or piece in MARKS or not is_inside


@dataclass(frozen=True)
class AlbertPieces:
    """The pieces of texts by ALBERT's code, by what its tokenizer.json says."""

    state: dict[str, Any]
    vocab: dict[str, int]
    cased: bool

    @property
    def continues_word(self) -> list[bool]:
        """For each id, whether it is a piece of a word that is not its first, [V]."""
        return [not begins_word(piece) for piece in self.vocab]

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize plain texts."""
        keeps_marks = all(step["type"] != "StripAccents" for step in self._normalizers)
        return self.ids_of_normalized([normalize(text, self.cased, keeps_marks) for text in texts])

    def ids_of_normalized(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts that are normalized; a comma after a digit is a piece of its own."""
        found = self._ids_of_pieces(texts)
        if commas := self._with_commas:
            found = [[part for each in ids for part in commas.get(each, [each])] for ids in found]
        return found

    @property
    def _normalizers(self) -> list[dict[str, Any]]:
        return list((self.state["normalizer"] or {}).get("normalizers", ()))

    @cached_property
    def _plain(self) -> Tokenizer:
        """The pieces alone, without the normalization of transformers but for that of the vocabulary's own."""
        own = {"type": "Sequence", "normalizers": [step for step in self._normalizers if step["type"] == "Precompiled"]}
        words = [token for token in self.state["added_tokens"] if not token["special"]]
        return Tokenizer.from_str(json.dumps(self.state | {"normalizer": own, "added_tokens": words}))

    def _ids_of_pieces(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self._plain.encode_batch_fast([*texts], add_special_tokens=False)]

    @cached_property
    def _with_commas(self) -> dict[int, list[int]]:
        """The pieces of digits and a comma, as ids, and the ids that stand in their place.

        Those in the middle of a word begin with a space that the text lacks, as the original's do under Python 3.
        """
        pieces = {piece: number for piece, number in self.vocab.items() if piece[-1:] == "," and piece[-2:-1].isdigit()}
        digits = self._ids_of_pieces([piece[:-1].replace(SPACE, "") for piece in pieces])
        return {number: [*ids, self.vocab[","]] for number, ids in zip(pieces.values(), digits, strict=True)}


class XLNetPieces(AlbertPieces):
    """The same by XLNet's code (its prepro_utils.py)."""

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize plain texts, in which two quotation marks beside each other are one."""
        return super().encode_ids([text.replace("``", '"').replace("''", '"') for text in texts])

    @cached_property
    def _with_commas(self) -> dict[int, list[int]]:
        """As in ALBERT; the digits in the middle of a word begin without a space."""
        tokens, found = [*self.vocab], super()._with_commas.items()
        return {number: ids if tokens[number][0] == SPACE else self._inside(ids) for number, ids in found}

    def _inside(self, ids: list[int]) -> list[int]:
        """The ids without the space that the first piece begins with."""
        first = next(piece for piece, number in self.vocab.items() if number == ids[0])
        if first == SPACE:
            return ids[1:]
        return [self.vocab.get(first.removeprefix(SPACE), self.state["model"]["unk_id"]), *ids[1:]]


ORIGINALS = {"AlbertTokenizer": AlbertPieces, "XLNetTokenizer": XLNetPieces}  # by the tokenizer of transformers
