"""Token embeddings: initialized from co-occurrence counts of the data, and rows for new tokens, or of those of a teacher."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import svds
from torch import Tensor, nn
from transformers import PreTrainedModel

WINDOW = 5  # tokens to each side; one at distance d counts 1 / d
SMOOTHING = 0.75  # exponent of the contexts' frequencies
DEVIATION = 0.04  # standard deviation of the embeddings; twice that of weights drawn at random

# V vocabulary, H hidden

Rows = tuple[NDArray[np.int64], NDArray[np.int64]]  # ids end to end, and the length of each row


def count_neighbours(chunks: Iterable[Rows], vocab_size: int) -> csr_array:
    """How often each token stands near each other one in the same row, [V, V], symmetric."""
    counts = csr_array((vocab_size, vocab_size), dtype=np.float32)
    for ids, lengths in chunks:
        row = np.repeat(np.arange(len(lengths)), lengths)
        for distance in range(1, WINDOW + 1):
            inside = row[distance:] == row[:-distance]
            pairs, times = np.unique((ids[:-distance] * vocab_size + ids[distance:])[inside], return_counts=True)
            near = coo_array((np.float32(times / distance), np.divmod(pairs, vocab_size)), counts.shape)
            counts = counts + near.tocsr()
    return counts + counts.T


def factorize(counts: csr_array, hidden: int, seed: int) -> NDArray[np.float32]:
    """Embed tokens, [V, H], by singular vectors of positive pointwise mutual information (Levy et al., 2015).

    Each is weighted by the root of its singular value; a token without neighbours has a row of zeros.
    """
    pairs = counts.tocoo()
    seen = np.asarray(counts.sum(axis=1)).ravel()
    contexts = seen**SMOOTHING
    first, second = pairs.coords
    information = np.log(pairs.data * (contexts.sum() / (seen[first] * contexts[second])))
    positive = csr_array((np.maximum(information, 0), pairs.coords), counts.shape)
    vectors, values, _ = svds(positive, k=hidden, random_state=seed)
    return np.asarray(vectors * np.sqrt(values), dtype=np.float32)


@torch.no_grad()
def start_from_neighbours(embedding: nn.Embedding, chunks: Iterable[Rows], seed: int) -> int:
    """Set the rows of the tokens that have neighbours in the data, and return their number.

    Raises ValueError if the vocabulary is not larger than the embedding is wide.
    """
    vocab_size, hidden = embedding.weight.shape
    if vocab_size <= hidden:
        raise ValueError(f"{vocab_size} tokens have no {hidden} singular vectors")
    counts = count_neighbours(chunks, vocab_size)
    seen = np.asarray(counts.sum(axis=1)).ravel() > 0
    vectors = factorize(counts, hidden, seed)[seen]
    embedding.weight[torch.from_numpy(seen)] = torch.from_numpy(vectors * (DEVIATION / vectors.std()))
    return int(seen.sum())


@torch.no_grad()
def add_rows(model: PreTrainedModel, pieces: dict[int, list[int]], vocab_size: int) -> None:
    """Set each id's row of the word embedding and masked-LM decoder to the mean of its pieces', growing the tables."""
    model.resize_token_embeddings(max(vocab_size, model.config.vocab_size), mean_resizing=False)
    decoder = model.get_output_embeddings()
    if decoder is not None and not model.config.tie_word_embeddings:
        # Resizing ties the bias to cls.predictions.bias, and of two tied tensors only one is saved.
        decoder.bias = nn.Parameter(decoder.bias.clone())
    for table in (model.get_input_embeddings().weight, *(decoder.parameters() if decoder is not None else ())):
        for row, ids in pieces.items():
            table[row] = table[ids].mean(0)


@torch.no_grad()
def start_embeddings(student: PreTrainedModel, teacher: PreTrainedModel, ids: Tensor) -> None:
    """Start the token embeddings from those of the teacher's tokens `ids`, [V]: copied, or of another width projected.

    To fewer dimensions they are projected onto their principal components.
    """
    own: Any = student.get_input_embeddings().weight
    rows = teacher.get_input_embeddings().weight[ids].float()
    if rows.shape[1] > own.shape[1]:
        rows = rows - rows.mean(0)
        _, _, components = torch.linalg.svd(rows, full_matrices=False)
        rows = rows @ components[: own.shape[1]].T
        rows *= own.std() / rows.std()
    own[: len(ids), : rows.shape[1]] = rows


@torch.no_grad()
def start_bias(model: PreTrainedModel, counts: NDArray[np.int64]) -> None:
    """Start the bias of a new masked-LM head, one of zeros, at the logarithms of the frequencies of `counts`, [V]."""
    bias: Any = getattr(model.get_output_embeddings(), "bias", None)
    if bias is not None and not bias.any():
        bias[: len(counts)] = torch.from_numpy(np.log((counts + 1) / (counts.sum() + len(counts)))).to(bias.dtype)


@torch.no_grad()
def cut_embeddings(model: PreTrainedModel, ids: Tensor) -> PreTrainedModel:
    """Keep the rows of the tokens `ids`, [V], in the embeddings and the decoder of a model."""
    rows = {name: value[ids] for name, value in _of_tokens(model).items()}
    model.resize_token_embeddings(len(ids), mean_resizing=False)
    for name, value in _of_tokens(model).items():
        value.copy_(rows[name])
    model.get_input_embeddings().padding_idx = None  # as any model here: models/loading.py
    return model


def _of_tokens(model: PreTrainedModel) -> dict[str, Tensor]:
    """The weights that have a row a token."""
    decoder = model.get_output_embeddings()
    found = {"embedding": model.get_input_embeddings().weight}
    return found if decoder is None else {**found, "decoder": decoder.weight, "bias": decoder.bias}
