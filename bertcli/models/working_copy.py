"""A bfloat16 copy of a model that runs forward and backward, while the model itself keeps its weights in float32."""

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn


class WorkingCopy:
    """The copy is cast once a step, not once an operation as autocast does. In float32 it is the model."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.module = model
        self.updated: Any = model  # has the parameters of the optimizer
        self.deferred: dict[nn.Parameter, Any] = {}  # updates that rows of an embedding have not made yet
        self._copies: dict[nn.Parameter, nn.Parameter] = {}
        if dtype != torch.float32:
            self.module = cast_weights(copy.deepcopy(model), dtype)
            sum_embeddings_in_float32(self.module)
            self._copies = dict(zip(model.parameters(), self.module.parameters(), strict=True))
        for own in self._copies:
            own.grad_dtype = None  # that of its copy, or float32

    def exchange(self, is_last: bool) -> None:
        """Say whether the next pass is the last of a step; training/processes/shards.py exchanges gradients then."""

    @torch.no_grad()
    def give_gradients(self, is_last: bool) -> None:
        """Move the copy's gradients to the model, in float32, or on a CPU, of a step with one pass, in bfloat16."""
        self._give_rows(is_last)
        copied: list[tuple[Tensor, Tensor]] = []
        added: list[tuple[Tensor, Tensor]] = []
        for own, working in self._copies.items():
            gradient, working.grad = working.grad, None
            if gradient is None:
                continue
            if own.grad is not None:
                added.append((own.grad, gradient))
            elif is_last and gradient.device.type == "cpu":
                own.grad = gradient
            else:
                own.grad = torch.empty_like(own)
                copied.append((own.grad, gradient))
        for combine, pairs in ((torch._foreach_copy_, copied), (torch._foreach_add_, added)):
            if pairs:
                sums, gradients = zip(*pairs, strict=True)
                combine(sums, gradients)

    def _give_rows(self, is_last: bool) -> None:
        """Move the sparse gradients of embeddings alike; at the end, those of a row are summed in the order of the passes."""
        for own in self.deferred:
            working = self._copies.get(own)
            if working is not None and working.grad is not None:
                gradient, working.grad = working.grad, None
                if not is_last or own.grad is not None:
                    gradient = gradient.float() if own.grad is None else own.grad + gradient.float()
                own.grad = gradient
            if is_last and own.grad is not None:
                own.grad = own.grad.coalesce()

    def of(self, own: nn.Parameter) -> Tensor:
        """The copy of a weight of the model; an empty one where the copy is the model."""
        return self._copies.get(own, own.new_empty(0, dtype=torch.bfloat16))

    def embeddings(self) -> dict[nn.Parameter, nn.Module]:
        """The embeddings whose weight nothing else has, such as a tied decoder, by the weight that is updated."""
        modules: list[Any] = [*self.module.modules()]
        uses = Counter(weight for module in modules for weight in module.parameters(recurse=False))
        owns = {working: own for own, working in self._copies.items()}
        plain = [each for each in modules if type(each) in (nn.Embedding, _Embedding) and each.padding_idx is None]
        return {owns.get(each.weight, each.weight): each for each in plain if uses[each.weight] == 1}

    def defer(self, own: nn.Parameter, rows: Any) -> None:
        """Call `rows` to update the rows of an embedding just before they are read; its gradients become sparse."""
        embedding: Any = self.embeddings()[own]
        embedding.__class__ = _Embedding
        self.deferred[own] = embedding.deferred = rows

    def norm(self, of_shards: Tensor) -> Tensor:
        """The norms of whole tensors from those that this process has."""
        return of_shards

    def gather(self) -> None:
        """Give the model the weights, where they are elsewhere, and make the updates that are deferred."""
        for rows in self.deferred.values():
            rows.read()

    def take(self) -> None:
        """Take the weights of the model."""
        self.refresh()

    def whole(self, own: nn.Parameter, values: Tensor) -> Tensor:
        """The whole of something that has a value for each weight."""
        return values

    def part(self, own: nn.Parameter, values: Tensor) -> Tensor:
        """What this process holds of it."""
        return values

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the model's weights."""
        if self._copies:
            torch._foreach_copy_(list(self._copies.values()), list(self._copies))


def cast_weights(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Cast the weights alone: buffers, such as the frequencies of rotary positions, keep their precision."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)
    return model


def sum_embeddings_in_float32(model: nn.Module) -> None:
    """Have the gradients of embeddings in bfloat16 summed in float32."""
    for module in model.modules():
        if type(module) is nn.Embedding:
            module.__class__ = _Embedding


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, is_sparse: bool) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows, ctx.is_sparse = len(weight), is_sparse
        return weight[ids]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (ids,) = ctx.saved_tensors
        given, rows = gradient.flatten(0, -2).float(), ids.flatten()
        if gradient.device.type != "cpu":  # unique() would wait for the GPU, index_add would sum in any order
            whole = torch.ops.aten.embedding_dense_backward(given, rows, ctx.rows, -1, False)
            return whole.to(gradient.dtype), None, None
        rows, places = rows.unique(return_inverse=True)
        sums = given.new_zeros(len(rows), given.shape[1]).index_add_(0, places, given)
        sums, shape = sums.to(gradient.dtype), (ctx.rows, given.shape[1])
        if ctx.is_sparse:
            return torch.sparse_coo_tensor(rows[None], sums, shape, check_invariants=False), None, None
        return gradient.new_zeros(shape).index_copy_(0, rows, sums), None, None


class _Embedding(nn.Embedding):
    """A frequent token's row is the sum of thousands of gradients, which eight bits of mantissa cannot hold."""

    deferred: Any = None  # where rows without a gradient are updated when they are read (kernels/updates.py)

    def forward(self, input: Tensor) -> Tensor:
        if self.deferred:
            self.deferred.read(input)
        rows: Tensor = _Lookup.apply(self.weight, input, self.deferred is not None)  # type: ignore[no-untyped-call]
        return rows
