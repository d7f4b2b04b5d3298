"""A model that turns texts into normalized vectors: the means of their last hidden states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli import number_of, say
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.text_features import encode_texts
from bertcli.data.text.coverage import Unknown, count_unknown
from bertcli.data.text.tokenization import WordPiece
from bertcli.lifecycle.pretrained import longest_sentence
from bertcli.models.encoder import longest_input
from bertcli.models.heads import mean_states
from bertcli.models.loading import load_with_tokenizer
from bertcli.models.model_with_loss import ModelWithLoss, run_model
from bertcli.training.device import inference_device, inference_tokens, keep_freed_memory, resolve_precision

# N texts, D hidden

Vectors = NDArray[np.float32]
TEXTS_AT_ONCE = 4096  # sorted by length
LONGEST = 512  # tokens of a text, where a model of relative positions has no limit


@dataclass(frozen=True)
class TextEncoder:
    """An encoder with its tokenizer and device."""

    model: ModelWithLoss
    tokenizer: WordPiece
    longest: int
    device: torch.device
    dtype: str

    def encode(self, texts: list[str], advance: Callable[[int], object] = lambda count: None) -> Vectors:
        """The vectors of texts, [N, D], each of length 1; `advance` is told how many are done."""
        found = np.empty((len(texts), 0), np.float32)
        cut, unknown = 0, Unknown()
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            chunk = TextExamples(texts[start : start + TEXTS_AT_ONCE], origin="the texts")
            features = encode_texts(chunk, self.tokenizer, self.longest, None)
            cut += features.truncated
            unknown += count_unknown(features.input_ids.values, self.tokenizer)
            states = np.stack(run_model(self.model, features, self.device, inference_tokens(), self.dtype)["states"])
            found = found if start else np.empty((len(texts), states.shape[1]), np.float32)
            found[start : start + len(chunk)] = states / np.linalg.norm(states, axis=1, keepdims=True)
            advance(len(chunk))
        if cut:
            say(f"{number_of(cut, 'text')} longer than {self.longest} tokens, cut")
        if words := str(unknown):
            say(words)
        return found


def load_text_encoder(source: str, precision: str) -> TextEncoder:
    """Load the encoder of any model. Raises UserError if it cannot be opened."""
    keep_freed_memory()
    (model, tokenizer), device = load_with_tokenizer(source), inference_device()
    dtype = resolve_precision(precision)
    encoder = ModelWithLoss(model, mean_states).to_predict(device, dtype)
    longest = min(longest_input(model), longest_sentence(source) or LONGEST)
    return TextEncoder(encoder, tokenizer, longest, device, dtype)
