"""Where each head of each layer attends in one text, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli import say
from bertcli.data.atomic import write_text
from bertcli.data.packing.text_features import encode_texts
from bertcli.errors import UserError
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.kinds.types import Prediction
from bertcli.models.encoder import NO_END, attention_weights, longest_input
from bertcli.models.loading import load_with_tokenizer
from bertcli.reports.text_pages import attention_page

MOST_TOKENS = 128  # which a page shows

# L layers, A heads, T tokens


def attention(source: str, row: dict[str, Any]) -> tuple[list[str], NDArray[np.float32]]:
    """The tokens of a text or a pair, and the attention of each to each other, [L, A, T, T]; a row sums to 1.

    Raises UserError if the text is too long, or the model has no such weights.
    """
    model, tokenizer = load_with_tokenizer(source)
    features = encode_texts(CLASSIFICATION.input_examples([row], tokenizer), tokenizer, NO_END, None)
    longest = min(MOST_TOKENS, longest_input(model))
    if (count := int(features.lengths[0])) > longest:
        raise UserError(f"The text has {count:,} tokens; a page shows {longest}.", "Give a shorter text.")
    batch = features.pack(np.array([0]), 0)
    with torch.no_grad():
        weights = attention_weights(model.eval(), batch)
    return [tokenizer.tokens[id_] for id_ in batch.input_ids.tolist()], weights.numpy()


def write_attention(source: str, row: dict[str, Any], path: Path, name: str) -> Prediction:
    """Write the page of a text or a pair, under the name of the model; return what it shows."""
    tokens, weights = attention(source, row)
    write_text(path, attention_page(tokens, weights, name))
    say(f"wrote {path}")
    layers, heads = weights.shape[:2]
    return {"page": str(path), "layers": layers, "heads": heads, "tokens": tokens}
