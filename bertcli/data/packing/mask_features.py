"""Texts with `[MASK]` as model inputs, and where their masks stand."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.ragged import Ragged, TokenRows
from bertcli.data.text.tokenization import WordPiece

MASK = "[MASK]"  # as a person writes it, whatever the model's own mask is called


@dataclass(frozen=True)
class MaskFeatures(TokenRows):
    """Texts as `[CLS] pieces [SEP]`, with masks among the pieces."""

    input_ids: Ragged
    places: Ragged  # where in a text its masks stand
    truncated: int = 0  # nothing is cut

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen texts; `rows` of the batch names the text of each mask."""
        ids, lengths = self.input_ids.take(rows)
        places, masks = self.places.take(rows)
        positions = torch.from_numpy(places + np.repeat(np.cumsum(lengths) - lengths, masks))
        packed = pack(ids, np.zeros_like(ids), lengths, np.repeat(rows, masks))
        return replace(packed, labels={"masked_lm_positions": positions})


def encode_masks(text: str, tokenizer: WordPiece) -> tuple[list[int], list[int]]:
    """The token ids of a text, and the places of its masks among them."""
    first, *others = tokenizer.encode_ids(text.split(MASK))
    ids, places = [tokenizer.special("cls"), *first], []
    for part in others:
        places.append(len(ids))
        ids += [tokenizer.special("mask"), *part]
    return [*ids, tokenizer.special("sep")], places


def encode_masked_texts(texts: list[str], tokenizer: WordPiece) -> MaskFeatures:
    """Encode texts whose masks were checked."""
    encoded = [encode_masks(text, tokenizer) for text in texts]
    ids, places = map(Ragged.from_lists, zip(*encoded, strict=True))
    return MaskFeatures(ids, places)
