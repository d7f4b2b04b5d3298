"""A bfloat16 copy of a model that does its work, while the model itself keeps the weights in float32."""

import copy
from typing import Any

import torch
from torch import Tensor, nn


class WorkingCopy:
    """The copy runs forward and backward; the model gets its gradients, is updated and saved.

    Cast once a step, not once an operation as autocast does. In float32 the copy is the model.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.module = model
        # Each weight, its copy, and room for its gradient, kept from step to step: new memory costs more than the sums.
        self._weights: list[tuple[nn.Parameter, nn.Parameter, Tensor]] = []
        if dtype != torch.float32:
            self.module = cast_weights(copy.deepcopy(model), dtype)
            _sum_embeddings_in_float32(self.module)
            pairs = zip(model.parameters(), self.module.parameters(), strict=True)
            self._weights = [(own, working, torch.empty_like(own)) for own, working in pairs]

    @torch.no_grad()
    def give_gradients(self) -> None:
        """Add the copy's gradients to the model's, in float32, and forget them."""
        given = [(own, working, room) for own, working, room in self._weights if working.grad is not None]
        new = [(room, working.grad) for own, working, room in given if own.grad is None]
        more = [(own.grad, working.grad) for own, working, _ in given if own.grad is not None]
        for combine, pairs in ((torch._foreach_copy_, new), (torch._foreach_add_, more)):
            if pairs:
                sums, gradients = zip(*pairs, strict=True)
                combine(sums, gradients)
        for own, working, room in given:
            own.grad, working.grad = room if own.grad is None else own.grad, None

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the model's weights."""
        if self._weights:
            own, working, _ = zip(*self._weights, strict=True)
            torch._foreach_copy_(working, own)


def cast_weights(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Cast the weights alone: buffers, such as the frequencies of rotary positions, keep their precision."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)
    for module in model.modules():
        if type(module).__name__ == "FNetBasicFourierTransform":  # which torch has in float32 only
            module.register_forward_pre_hook(lambda _, states: tuple(state.float() for state in states))
            module.register_forward_hook(lambda _, __, outputs: tuple(output.to(dtype) for output in outputs))
    return model


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows = len(weight)
        return weight[ids]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (ids,) = ctx.saved_tensors
        given, rows = gradient.flatten(0, -2).float(), ids.flatten()
        if gradient.device.type != "cpu":  # which would have to wait to hear how many rows there are
            return given.new_zeros(ctx.rows, given.shape[1]).index_add_(0, rows, given).to(gradient.dtype), None
        rows, places = rows.unique(return_inverse=True)
        sums = given.new_zeros(len(rows), given.shape[1]).index_add_(0, places, given)
        return gradient.new_zeros(ctx.rows, given.shape[1]).index_copy_(0, rows, sums.to(gradient.dtype)), None


class _Embedding(nn.Embedding):
    """A frequent token's row is the sum of thousands of gradients, which eight bits of mantissa cannot hold."""

    def forward(self, input: Tensor) -> Tensor:
        rows: Tensor = _Lookup.apply(self.weight, input)  # type: ignore[no-untyped-call]
        return rows


def _sum_embeddings_in_float32(model: nn.Module) -> None:
    for module in model.modules():
        if type(module) is nn.Embedding:
            module.__class__ = _Embedding
