"""Initial token embeddings from cooccurrences: which tokens are near which in the data."""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import svds
from torch import nn

WINDOW = 5  # tokens to each side; one at distance d counts 1 / d
SMOOTHING = 0.75  # exponent of the contexts' frequencies
DEVIATION = 0.04  # of the embeddings; twice that of weights drawn at random

IdsAndLengths = tuple[
    NDArray[np.int64], NDArray[np.int64]
]  # token ids of rows end to end, [T]; length of each row, [N]


def count_neighbours(chunks: Iterable[IdsAndLengths], vocab_size: int) -> csr_array:
    """How often each two tokens are near each other in a row, weighted by distance, [V, V], symmetric."""
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
    """Embed tokens, [V, H], by the singular vectors of their positive pointwise mutual information (Levy et al. 2015).

    Vectors are multiplied by the square root of their singular values. A token without neighbours has a row of zeros.
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
def start_from_neighbours(embedding: nn.Embedding, chunks: Iterable[IdsAndLengths], seed: int) -> int:
    """Set the rows of the tokens that have neighbours in the data; return their number.

    Raises ValueError if the vocabulary is not larger than the hidden size.
    """
    vocab_size, hidden = embedding.weight.shape
    if vocab_size <= hidden:
        raise ValueError(f"{vocab_size} tokens have no {hidden} singular vectors")
    counts = count_neighbours(chunks, vocab_size)
    seen = np.asarray(counts.sum(axis=1)).ravel() > 0
    vectors = factorize(counts, hidden, seed)[seen]
    embedding.weight[torch.from_numpy(seen)] = torch.from_numpy(vectors * (DEVIATION / vectors.std()))
    return int(seen.sum())
