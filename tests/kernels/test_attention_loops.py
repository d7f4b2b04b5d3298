"""The loops of attention give what torch gives, forward and backward, in either precision."""

import pytest
import torch

from bertcli.kernels.cpu import loops
from bertcli.models.dropout import next_mask, of_heads
from bertcli.models.own import disentangled
from tests.kernels.exact import PRECISIONS, assert_same, exactly, factors, random


def test_what_is_next_to_nothing_is_not_so_small_that_a_cpu_takes_a_hundred_times_as_long() -> None:
    scores = torch.full((1, 512, 512), -1e4)
    scores[:, :, 0] = 0
    loops("attention").softmax(scores, torch.tensor([512]), scores, 1.0, next_mask(0.0, 512), False)
    assert scores.min() >= torch.finfo(torch.float32).tiny


@PRECISIONS
@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("is_causal", [False, True])
def test_softmax_up_to_each_sequences_length(dtype: torch.dtype, rate: float, is_causal: bool) -> None:
    heads, size, lengths = 2, 37, torch.tensor([37, 20, 1])
    scores = random(3 * heads, size, size, dtype=dtype)
    (exact,) = exactly(scores)
    there = (torch.arange(size) < lengths[:, None]).repeat_interleave(heads, 0)  # [M, S]
    seen = there[:, None] & torch.ones(size, size).tril(0 if is_causal else size).bool()
    shares = torch.softmax((exact * 0.25).masked_fill(~seen, -torch.inf), -1) * there[:, :, None]
    mask = next_mask(rate, int(lengths.sum()))
    tokens = (there[::heads].flatten().cumsum(0) - 1).clamp(min=0).view(3, size).numpy()  # [3, S], of its own sequence
    wanted = shares * factors(of_heads(mask, tokens, heads), 3 * heads * size, size).view_as(shares)
    weights, read, again = scores.detach().clone(), torch.empty_like(scores), torch.empty_like(scores)
    loops("attention").softmax(weights, lengths, read if rate else weights, 0.25, mask, is_causal)
    assert_same([weights, read if rate else weights], [shares, wanted], dtype)
    towards = random(3 * heads, size, size, dtype=dtype).detach()
    wanted.backward(towards.double())
    loops("attention").softmax_backward(towards, weights, lengths, again, 0.25, mask, is_causal)
    assert_same([towards], [exact.grad], dtype)
    assert rate == 0 or torch.equal(again, read)


@PRECISIONS
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_weights_of_scores_are_those_of_the_plain_functions(dtype: torch.dtype, rate: float) -> None:
    lengths = torch.tensor([37, 20, 1])
    mask = next_mask(rate, int(lengths.sum()))
    scores = random(3, 2, 37, 37, dtype=dtype).detach()
    there = (torch.arange(37) < lengths[:, None]).double()[:, None, :, None]  # of padding, nothing is read
    exact = scores.double()
    wanted = disentangled.weights_of.__wrapped__(exact, lengths, mask)
    found = disentangled.weights_of(scores.clone(), lengths, mask)
    assert_same(list(found), [each * there for each in wanted], dtype)
    towards = scores.double().sin().to(dtype).double() * there
    wanted = disentangled.gradient_of_scores.__wrapped__(towards, wanted[0], lengths, mask)
    found = disentangled.gradient_of_scores(towards.to(dtype), found[0], lengths, mask)
    assert_same(list(found), [each * there for each in wanted], dtype)
