"""Tokens drawn from the logits of a generator, and the text with them in the places of masks (ELECTRA)."""

import torch
from torch import Tensor

from bertcli.models.cross_entropy import parts_of

# T tokens of the batch, M masked tokens, V vocabulary

NEVER = 1000.0  # what is taken off the logit of a token that is never sampled
TINY = 1e-9  # keeps the logarithms of Gumbel noise finite


def sample(logits: Tensor, draws: Tensor, temperature: float = 1.0, never: Tensor | None = None) -> Tensor:
    """Tokens, [M], by the softmax of logits, [M, V], and draws of [0, 1).

    With draws for each entry of the vocabulary, [M, V], by Gumbel noise, as pretrain_helpers.py does. With one draw a token,
    [M], it is the first token whose cumulative share passes it: the same distribution by fewer random numbers.
    """
    if draws.dim() == 2:
        noise = -torch.log(-torch.log(draws + TINY) + TINY)
        return (_tempered(logits, temperature, never) + noise).softmax(1).argmax(1)
    tokens = torch.empty(len(logits), dtype=torch.long, device=logits.device)
    for rows in parts_of(logits):
        sums = _tempered(logits[rows], temperature, None if never is None else never[rows]).softmax(1).cumsum(1)
        tokens[rows] = torch.searchsorted(sums, draws[rows, None].to(sums.dtype) * sums[:, -1:], right=True)[:, 0]
    return tokens.clamp(max=logits.shape[1] - 1)


def _tempered(logits: Tensor, temperature: float, never: Tensor | None) -> Tensor:
    tempered = logits.float() / temperature
    if never is not None:
        tempered = tempered.scatter_add(1, never[:, None], torch.full_like(tempered[:, :1], -NEVER))
    return tempered


def put_samples(ids: Tensor, positions: Tensor, samples: Tensor) -> Tensor:
    """Token ids, [T], with samples, [M], at positions, [M]; at one that repeats, the mean of its samples, rounded down.

    So does `scatter_update` of the original: two different samples become a third token.
    """
    counts = torch.zeros_like(ids).index_add(0, positions, torch.ones_like(positions))
    return torch.where(counts > 0, torch.zeros_like(ids).index_add(0, positions, samples) // counts.clamp(min=1), ids)
