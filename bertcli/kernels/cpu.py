"""What a CPU does by compiled loops, each function named like its plain twin, and which tensors suit them."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from bertcli import say
from bertcli.data.packing.sequences import SHORT, Group, Sequences
from bertcli.errors import first_line

# T tokens of the batch, A heads, D size per head; of a group: t tokens, P parts, n sequences, S the longest
# M masked tokens, V vocabulary

PRECISIONS = (torch.float32, torch.bfloat16)
MANY = 512  # tokens
WORTH_LOADING = 1 << 27  # elements of passes without a gradient, from which on loading the kernels pays
# Tokens of the longest sequence up to which products that stay in the cache are faster than units for bfloat16, where
# sequences are in several groups. Units multiply one group at once: half as many there, a quarter with matrix units.
FUSED = 128

COMPILED = "bertcli.kernels.loops.compiled"  # which imports numba

_passed = 0  # elements, while the kernels are not loaded


def are_many(tokens: int) -> bool:
    """Whether kernels are faster in a pass over so many tokens; with a gradient, always."""
    return torch.is_grad_enabled() or tokens >= MANY


def fits(*tensors: Tensor) -> bool:
    """Whether the kernels take the tensors: on a CPU, all of one precision, and not to be cast by autocast."""
    dtype = tensors[0].dtype
    suits = dtype in PRECISIONS and all(each.device.type == "cpu" and each.dtype == dtype for each in tensors)
    return suits and not torch.is_autocast_enabled("cpu") and has_compiler()


def fits_many(states: Tensor, *others: Tensor) -> bool:
    """Whether kernels take them, and the tokens of states, [..., H], are not too few."""
    return are_many(states.shape[:-1].numel()) and _are_worth_loading(states.numel()) and fits(states, *others)


def fits_tiles(states: Tensor) -> bool:
    """Whether the matrix units take the heads of states, [T, P, A, D], and the tokens are not too few."""
    return states.dtype == torch.bfloat16 and states.shape[-1] % 32 == 0 and has_tiles() and fits_many(states[:, 0, 0])


def _are_worth_loading(elements: int) -> bool:
    """Whether the kernels are loaded, or passes so far have been long enough that loading them pays."""
    global _passed
    if torch.is_grad_enabled() or COMPILED in sys.modules:
        return True
    _passed += elements
    return _passed >= WORTH_LOADING


@cache
def has_compiler() -> bool:
    """Whether numba is there; loads what compiles the kernels."""
    try:
        import_module(COMPILED)
    except (ImportError, OSError) as error:  # OSError: a library of it is broken
        say(f"training and prediction are faster with numba: pip install 'bertcli[fast]' ({first_line(error)})")
        return False
    return True


@cache
def has_tiles() -> bool:
    """Whether there are matrix units, which Linux gives a process that asks."""
    return torch.cpu._is_amx_tile_supported() and torch.cpu._init_amx()


@cache
def loops(of: str) -> Any:
    """A module of `loops/`, imported when it is first needed."""
    return import_module(f"bertcli.kernels.loops.{of}")


def rows(states: Tensor) -> Tensor:
    """[..., H] to [T, H], as kernels take it; what is contiguous is not copied."""
    return states.reshape(-1, states.shape[-1])


def drop(values: Tensor, mask: Any) -> Any:
    """Dropout by a mask, which is drawn again in the backward pass."""
    return drop_by(_masked, values, mask) if fits(values) else NotImplemented


def drop_by(masked: Callable[[Tensor, Any], Tensor], values: Tensor, mask: Any) -> Any:
    """Dropout by a device's function of values and a mask, there and back."""
    return _Drop.apply(values, mask, masked)  # type: ignore[no-untyped-call]


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Any, masked: Callable[[Tensor, Any], Tensor]) -> Tensor:
        ctx.mask, ctx.masked = mask, masked
        return masked(values, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.masked(gradient, ctx.mask), None, None


def _masked(values: Tensor, mask: Any) -> Tensor:
    masked = torch.empty_like(values, memory_format=torch.contiguous_format)
    loops("elementwise").drop(rows(values), rows(masked), mask)
    return masked


def attention(sequences: Sequences, mask: Any, scaling: float, *states: Tensor) -> Any:
    """Attention where torch's own is slower: wherever the loops are loaded."""
    if not (mask[1] or torch.is_grad_enabled()) and fits_tiles(states[0]):
        context = _new_rows(states[0][:, 0], sequences)
        together = torch.cat(states, 1) if len(states) > 1 else states[0].contiguous()
        ends = sequences.boundaries[: len(sequences.lengths) + 1]
        loops("inference").attention(together, ends, scaling, context, sequences.is_causal)
        return context
    if fuses(states[0], sequences):
        return _FusedAttention.apply(sequences, mask, scaling, *states)  # type: ignore[no-untyped-call]
    if fits_many(states[0][:, 0, 0]):
        return _Attention.apply(sequences, mask, scaling, *states)  # type: ignore[no-untyped-call]
    return NotImplemented


def fuses(states: Tensor, sequences: Sequences) -> bool:
    """Whether attention is fastest in float32 in the cache; long sequences of many tokens are faster by units for bfloat16."""
    if not (_are_worth_loading(states[:, 0, 0].numel()) and fits(states)):
        return False
    if states.dtype == torch.float32 or not are_many(len(states)):
        return True
    share = 1 if len(sequences.groups) > 1 else 4 if has_tiles() else 2
    return sequences.lengths[0] <= FUSED // share


class _FusedAttention(torch.autograd.Function):
    """Products, softmax and dropout of a head of a sequence at once; the backward pass reads the weights."""

    @staticmethod
    def forward(ctx: Any, sequences: Sequences, mask: Any, scaling: float, *states: Tensor) -> Tensor:
        fused, lanes = loops("fused_attention"), loops("elements").LANES
        states = tuple(each.contiguous() for each in states)
        context = _new_rows(states[0][:, 0], sequences)
        stored = sum(length * -(-length // lanes) * lanes for length in sequences.lengths)
        weights = context.new_empty(stored * context.shape[1] * any(ctx.needs_input_grad))
        given = (*_by_part(states), sequences.lengths_on_cpu, scaling, mask)
        fused.forward(*given, sequences.is_causal, weights, context)
        ctx.save_for_backward(weights, *states)
        ctx.sequences, ctx.mask, ctx.scaling = sequences, mask, scaling
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (weights, *states), sequences = ctx.saved_tensors, ctx.sequences
        given = [_new_rows(each, sequences) for each in states]
        known = (*_by_part(states), sequences.lengths_on_cpu, ctx.scaling, ctx.mask, weights)
        loops("fused_attention").backward(gradient.contiguous(), *known, *_by_part(given)[:3])
        return None, None, None, *given


def _by_part(states: Sequence[Tensor]) -> tuple[Any, ...]:
    """The arrays that query, key and value are in, and their places there."""
    return (*states, (0, 0, 0)) if len(states) == 3 else (*states, *states, *states, (0, 1, 2))


class _Attention(torch.autograd.Function):
    """Products of sequences of similar length are one; softmax and dropout between them pass once."""

    @staticmethod
    def forward(ctx: Any, sequences: Sequences, mask: Any, scaling: float, *states: Tensor) -> Tensor:
        context, saved = _new_rows(states[0][:, :1], sequences), []
        for group, rows in sequences.groups_with_rows():
            dtype = torch.float32 if group.shape[1] <= SHORT else context.dtype
            q, k, v = chain.from_iterable(_by_heads(each[rows], group, dtype) for each in states)  # [n, A, S, D]
            weights = _product(q, k.transpose(-1, -2), group)  # [n, A, S, S]
            read = _softmax(weights, group.lengths, (*mask[:3], mask[3][rows]), scaling, group.is_causal)
            loops("attention").by_tokens(_product(read, v, group)[None], group.lengths, context[rows])
            saved += [q, k, v, weights]
        ctx.save_for_backward(*saved)
        ctx.sequences, ctx.mask, ctx.scaling, ctx.parts = sequences, mask, scaling, len(states)
        return context[:, 0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient, saved = gradient[:, None].contiguous(), iter(ctx.saved_tensors)
        given = [_new_rows(gradient.expand(-1, 3 // ctx.parts, -1, -1), ctx.sequences) for _ in range(ctx.parts)]
        for group, rows in ctx.sequences.groups_with_rows():
            q, k, v, weights = (next(saved) for _ in range(4))
            (of_context,) = _by_heads(gradient[rows], group, v.dtype)
            of_scores = _product(of_context, v.transpose(-1, -2), group)
            mask = (*ctx.mask[:3], ctx.mask[3][rows])
            read = _softmax_backward(of_scores, weights, group.lengths, mask, ctx.scaling, group.is_causal)
            of_states = q.new_empty(3, *q.shape)
            _product(of_scores, k, group, of_states[0])
            _product(of_scores.transpose(-1, -2), q, group, of_states[1])
            _product(read.transpose(-1, -2), of_context, group, of_states[2])
            for whole, parts in zip(given, of_states.chunk(ctx.parts), strict=True):
                loops("attention").by_tokens(parts, group.lengths, whole[rows])
        return None, None, None, *given


def weights_of(scores: Tensor, lengths: Tensor, mask: Any) -> Any:
    """The softmax of scores, in their memory, and the same after dropout."""
    return (scores, _softmax(scores, lengths, mask)) if fits_many(scores) else NotImplemented


def gradient_of_scores(gradient: Tensor, weights: Tensor, lengths: Tensor, mask: Any) -> Any:
    """The gradient of the scores, in the memory of that of the weights after dropout, and these weights again."""
    is_fit = fits_many(gradient, weights)
    return (gradient, _softmax_backward(gradient, weights, lengths, mask)) if is_fit else NotImplemented


def _softmax(scores: Tensor, lengths: Tensor, mask: Any, scaling: float = 1.0, is_causal: bool = False) -> Tensor:
    """Turn scores, [n, A, S, S], into weights; return what dropout leaves of these."""
    read = torch.empty_like(scores) if mask[1] else scores
    loops("attention").softmax(scores.flatten(0, 1), lengths, read.flatten(0, 1), scaling, mask, is_causal)
    return read


def _softmax_backward(
    gradient: Tensor, weights: Tensor, lengths: Tensor, mask: Any, scaling: float = 1.0, is_causal: bool = False
) -> Tensor:
    """Turn the gradient of what dropout left of the weights into that of the scores; return what it left, drawn again."""
    read = torch.empty_like(weights) if mask[1] else weights
    gradients, shares, again = (each.flatten(0, 1) for each in (gradient, weights, read))
    loops("attention").softmax_backward(gradients, shares, lengths, again, scaling, mask, is_causal)
    return read


def shares_of_keys(
    by_content: Tensor, by_distance: Tensor, by_type: Tensor, asking: Any, is_backwards: Tensor | None, mask: Any
) -> Any:
    """The shares of keys, after dropout, of scores with parts by distance and by type: softmax and dropout pass once."""
    if not fits_many(by_content[..., 0], by_distance, by_type):
        return NotImplemented
    turned = is_backwards if is_backwards is not None else by_content.new_zeros(by_content.shape[1], dtype=torch.long)
    names = mask[3].flatten() if mask[1] else torch.zeros(asking.places.numel(), dtype=torch.int32)
    of_keys = (asking.places, turned, asking.hidden, asking.differs)
    return _Shares.apply(of_keys, (*mask[:3], names), by_content, by_distance, by_type)  # type: ignore[no-untyped-call]


class _Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, of_keys: Any, mask: Any, by_content: Tensor, by_distance: Tensor, by_type: Tensor) -> Tensor:
        ctx.of_keys, ctx.mask, ctx.distances = of_keys, mask, by_distance.shape[3]
        shares = torch.empty_like(by_content)
        read = torch.empty_like(shares) if mask[1] else shares
        loops("distances").softmax(by_content, by_distance, by_type, *of_keys, shares, read, mask)
        ctx.save_for_backward(shares)
        return read

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (shares,), (places, turned, _, differs) = ctx.saved_tensors, ctx.of_keys
        given = [shares.new_empty(*shares.shape[:3], *size) for size in (shares.shape[3:], (ctx.distances,), ())]
        loops("distances").softmax_backward(gradient.contiguous(), shares, places, turned, differs, ctx.mask, *given)
        return None, None, *given


def _by_heads(rows: Tensor, group: Group, dtype: torch.dtype) -> Tensor:
    """[t, P, A, D] to [P, n, A, S, D], as products read them, padded with zeros."""
    (count, longest), (parts, heads, size) = group.shape, rows.shape[1:]
    states = rows.new_empty(parts, count, heads, longest, size, dtype=dtype)
    loops("attention").by_heads(rows, group.lengths, states)
    return states


def _new_rows(like: Tensor, sequences: Sequences) -> Tensor:
    """[T, ...], zeros for idle tokens, without values yet for the others."""
    rows = torch.empty_like(like, memory_format=torch.contiguous_format)
    rows[len(rows) - sequences.idle :] = 0
    return rows


def _product(left: Tensor, right: Tensor, group: Group, product: Tensor | None = None) -> Tensor:
    """The products of n times A matrices."""
    if product is None:
        product = left.new_empty(*left.shape[:-1], right.shape[-1])
    whole = (left.flatten(0, 1), right.flatten(0, 1), product.flatten(0, 1))
    counts = [count * left.shape[1] for count in group.cuts]
    parts = zip(*(each.split_with_sizes(counts) for each in whole), strict=True) if counts[1:] else (whole,)
    for a, b, out in parts:
        torch.bmm(a, b, out=out)
    return product


def log_sums(logits: Tensor) -> Any:
    """Logarithms of the sums of exponentials: [M, V] to [M]."""
    if not fits(logits):
        return NotImplemented
    sums = torch.empty(len(logits))
    loops("attention").log_sums(logits, sums)
    return sums


def cross_entropy_gradient(logits: Tensor, labels: Tensor, sums: Tensor, factor: Tensor) -> Any:
    """The gradient of the logits, [M, V]."""
    if not fits(logits):
        return NotImplemented
    given = torch.empty_like(logits)
    loops("attention").cross_entropy_backward(logits, labels, sums, float(factor), given)
    return given
