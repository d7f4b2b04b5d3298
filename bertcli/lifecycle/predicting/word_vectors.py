"""The vectors of one word in several texts, layer by layer."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from bertcli import say
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.text_features import encode_texts
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.models.encoder import encode_layers, longest_input
from bertcli.models.loading import load_with_tokenizer

# L layers and the embeddings before them, N texts, H hidden


def compare(source: str, texts: list[str], word: str) -> dict[str, Any]:
    """The cosines of a word's vectors in each pair of texts, layer by layer; layer 0 is the embeddings.

    Raises UserError if a text does not contain the word.
    """
    model, tokenizer = load_with_tokenizer(source)
    vectors = word_vectors(model.eval(), tokenizer, texts, word)  # [L + 1, N, H]
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    cosines = unit @ unit.swapaxes(1, 2)  # [L + 1, N, N]
    pairs = list(combinations(range(len(texts)), 2))
    rounded = [[round(float(found[pair]), 6) for pair in pairs] for found in cosines]
    layers = [{"layer": layer, "cosines": found} for layer, found in enumerate(rounded)]
    return {"word": word, "texts": texts, "pairs": [[texts[i], texts[j]] for i, j in pairs], "layers": layers}


def word_vectors(model: PreTrainedModel, tokenizer: WordPiece, texts: list[str], word: str) -> NDArray[np.float32]:
    """The hidden states of a word in each text, [L + 1, N, H]: the mean of its pieces, where it has several.

    Raises UserError if a text does not contain the word.
    """
    longest = longest_input(model)
    found = []
    for text in texts:
        layout = tokenizer.layout
        places = [len(layout.before) + place for place in _pieces(text, word, tokenizer)]
        if places[-1] >= longest - len(layout.after):
            raise UserError(f"`{word}` is beyond the {longest} tokens that the model reads.", "Give a shorter text.")
        features = encode_texts(TextExamples([text], origin="the texts"), tokenizer, longest, None)
        with torch.no_grad():
            states = torch.stack(encode_layers(model, features.pack(np.array([0]), 0)))  # [L + 1, T, H]
        found.append(states[:, places].mean(1).numpy())
    return np.stack(found, axis=1)


def _pieces(text: str, word: str, tokenizer: WordPiece) -> list[int]:
    """The pieces of the first occurrence of a word in a text; its case does not matter."""
    (encoding,) = tokenizer.encode([text])
    spans = [found.span() for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)]
    if not spans:
        what = f"The text `{text}` does not contain the word `{word}`."
        raise UserError(what, "Give texts that contain it, spelled as in --word.")
    if len(spans) > 1:
        say(f"`{word}` occurs {len(spans)} times in `{text}`: the first is compared")
    start, end = spans[0]
    pieces = [number for number, (first, last) in enumerate(encoding.offsets) if first < end and start < last]
    if not pieces or all(encoding.ids[piece] == tokenizer.special("unk") for piece in pieces):
        raise UserError(f"The vocabulary does not have `{word}`.", "Give another --word, or --model.")
    return pieces
