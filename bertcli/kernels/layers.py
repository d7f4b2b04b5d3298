"""The layers of BERT with fewer passes over their arrays, on a CPU and on a GPU; transformers' own are the plain twins."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from bertcli.data.packing.sequences import Sequences
from bertcli.kernels import gpu, products
from bertcli.kernels.cpu import are_many, fits_many, fuses
from bertcli.kernels.products import PrepackedLinear, normed_product, product, trains_faster

# T tokens, N sequences, S the longest, A heads, D size per head, H what a layer is wide, outputs of a Linear

VOCABULARY_STEP = 64
ALONE = 64  # tokens: torch attends within one sequence up to this length as fast as our loops can be called


def fuse_layers(model: nn.Module, attend: Callable[..., Tensor]) -> None:
    """Give the layers of a packed model these forward passes."""
    module: Any
    for module in list(model.modules()):
        if type(module) is nn.Linear:
            module.__class__ = Linear
        for part in PARTS:
            names = set(part.__annotations__)
            is_such = all(hasattr(module, name) for name in names) and names.issuperset(dict(module.named_children()))
            if type(module).__name__.endswith(part.__name__) and is_such and not isinstance(module, part):
                module.__class__ = type(part.__name__, (part, type(module)), {"attend": staticmethod(attend)})


def prepack_layers(model: nn.Module) -> None:
    """Put prepacked layers in the place of every nn.Linear; query, key and value become one product."""
    for parent in model.modules():
        if isinstance(parent, SelfAttention) and parent.prepacked is None:
            weight, bias = parent.joined()
            parent.prepacked = (products.reordered(weight), bias.detach())
            del parent.query, parent.key, parent.value
        for name, child in parent.named_children():
            if type(child) in (nn.Linear, Linear):
                setattr(parent, name, PrepackedLinear(cast(nn.Linear, child)))
    for layer in model.modules():
        if isinstance(layer, Layer):
            layer.look_up()


class Linear(nn.Linear):
    """nn.Linear by the product with which training is faster."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., K] to [..., L]."""
        return product(input, self.weight, self.bias) if trains_faster(input, self.weight) else super().forward(input)


class SelfAttention(nn.Module):
    """Query, key and value as one product."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    dropout: nn.Dropout
    attention_head_size: int
    scaling: float
    attend = cast(Callable[..., Tensor], None)  # of packed batches, set by fuse_layers
    prepacked = cast("tuple[Tensor, Tensor] | None", None)  # weight and bias of all three, where they only predict

    def forward(
        self, hidden_states: Tensor, *args: Any, one_each: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, None]:
        """[1, T, H] to the context, [1, T, H], or [1, N, H] of one token of each sequence; and no weights."""
        if one_each is not None:
            return self._of_one_each(hidden_states[0], one_each, kwargs["sequences"])[None], None
        if not self.joins(hidden_states):
            return cast(tuple[Tensor, None], super().forward(hidden_states, *args, **kwargs))
        return self.attend_in(hidden_states, self.dropout, kwargs["sequences"]), None

    def joins(self, hidden_states: Tensor) -> bool:
        """Whether query, key and value of these states, [1, T, H], are one product."""
        return self.prepacked is not None or gpu.is_on_gpu(hidden_states) or fits_many(hidden_states, self.query.weight)

    def attend_in(self, hidden_states: Tensor, dropout: nn.Dropout, sequences: Sequences) -> Tensor:
        """[1, T, H] to the context, [1, T, H]."""
        states = product(hidden_states, *self.joined()).view(hidden_states.shape[1], 3, -1, self.attention_head_size)
        is_one = len(sequences.lengths) == 1 and self.prepacked is not None and not are_many(len(states))
        if is_one and (len(states) <= ALONE or not fuses(states, sequences)):
            query, key, value = states[None].permute(2, 0, 3, 1, 4)  # [1, A, T, D] each
            key, value = (each[:, :, : sequences.lengths[0]] for each in (key, value))  # not the idle tokens after them
            order: Any = {"scale": self.scaling, "is_causal": sequences.is_causal}
            return scaled_dot_product_attention(query, key, value, **order).transpose(1, 2).flatten(2)
        return self.attend(sequences, dropout.p if self.training else 0.0, self.scaling, states).flatten(1)[None]

    def keeps_no_scores(self) -> bool:
        """Whether it is trained by flash attention, on a GPU, which keeps no scores for the backward pass."""
        return gpu.drops_weights(self.query.weight, self.attention_head_size)

    def may_attend_alone(self, tokens: Tensor) -> bool:
        """Whether one token of each sequence may attend alone, where nothing else is read: on a CPU, without training, of many tokens, [T]."""
        return tokens.device.type == "cpu" and not (self.training or torch.is_grad_enabled()) and are_many(len(tokens))

    def joined(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of query, key and value, [3H, H] and [3H]."""
        if self.prepacked is not None:
            return self.prepacked
        parts = (self.query, self.key, self.value)
        return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])

    def _of_one_each(self, hidden_states: Tensor, one_each: Tensor, sequences: Sequences) -> Tensor:
        """[T, H] to the context of one token of each sequence, [N, H], which sees all of it, without keys, values or dropout.

        A query times a key, W h + b, is (query times W) times h, plus a constant that softmax cancels; a mean of values is the
        value of the mean of hidden states.
        """
        weight, bias = self.joined()
        weight = weight.to_dense() if weight.is_mkldnn else weight
        of_query, of_key, of_value = weight.float().view(3, -1, self.attention_head_size, weight.shape[1])  # [A, D, H]
        query_bias, _, value_bias = bias.float().view(3, -1, self.attention_head_size)
        query = torch.einsum("nh,adh->nad", hidden_states[one_each].float(), of_query) + query_bias
        towards = torch.einsum("nad,adh->nah", query, of_key)[:, None]  # [N, 1, A, H]
        counts = [group.shape[0] for group in sequences.groups]
        means = []
        for wanted, (group, tokens) in zip(torch.split(towards, counts), sequences.groups_with_rows(), strict=True):
            states = group.padded(hidden_states[tokens, None].float())  # [n, 1, S, H]
            means.append(scaled_dot_product_attention(wanted, states, states, group.mask, scale=self.scaling)[:, 0])
        context: Tensor = torch.einsum("nah,adh->nad", torch.cat(means), of_value) + value_bias
        return context.flatten(1).to(hidden_states.dtype)


class Layer(nn.Module):
    """A layer that only predicts without the calls of its modules, which of few tokens take as long as the products."""

    attention: Any
    intermediate: Any
    output: Any
    reads = cast("tuple[Any, ...]", ())  # where it only predicts: to look it up in each pass takes as long again

    def look_up(self) -> None:
        """Look up what it reads, if it is a usual one: LayerNorm follows each part, and a GELU is between two products."""
        own, after, first, last = self.attention.self, self.attention.output, self.intermediate, self.output
        gelu = products.GELUS.get(type(first.intermediate_act_fn))
        is_usual = isinstance(own, SelfAttention) and isinstance(after, Output) and isinstance(last, Output)
        if gelu is not None and is_usual:
            self.reads = own, after.dense, after.LayerNorm, first.dense, gelu, last.dense, last.LayerNorm

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """[1, T, H] to [1, T, H]."""
        if not self.reads or self.reads[0]._forward_pre_hooks:
            return cast(Tensor, super().forward(hidden_states, *args, **kwargs))
        own, dense, norm, first, gelu, last, last_norm = self.reads
        context = own.attend_in(hidden_states, own.dropout, kwargs["sequences"])
        attended: Any = normed_product(context, hidden_states, dense, norm, _no_mask)
        middle = products.gelu_product(attended, first.weight, first.bias, gelu)
        return cast(Tensor, normed_product(middle, attended, last, last_norm, _no_mask))


class Intermediate(nn.Module):
    """A layer's first product, and its GELU."""

    dense: nn.Linear
    intermediate_act_fn: nn.Module

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[..., H] of the layer to [..., H] of its middle."""
        found = products.activated_product(hidden_states, self.dense, self.intermediate_act_fn)
        return cast(Tensor, super().forward(hidden_states)) if found is None else found


class Output(nn.Module):
    """A product with dropout, added to what went into the layer, and LayerNorm of the sum."""

    dense: nn.Linear
    dropout: Any  # of models/dropout.py
    LayerNorm: nn.LayerNorm

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """[..., H] of the middle and of the input to [..., H]."""
        found = normed_product(hidden_states, input_tensor, self.dense, self.LayerNorm, self.dropout.next_mask)
        return cast(Tensor, super().forward(hidden_states, input_tensor)) if found is None else found


class AlbertAttention(SelfAttention):
    """ALBERT's attention, which includes what BERT has in a module of its own: the product, dropout and LayerNorm after it."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention_dropout: nn.Dropout
    attention_head_size: int
    scaling: float
    dense: nn.Linear
    output_dropout: Any  # of models/dropout.py
    LayerNorm: nn.LayerNorm

    chooses_rows = True

    def forward(
        self,
        hidden_states: Tensor,
        *args: Any,
        one_each: Tensor | None = None,
        choose: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        """[1, T, H] to [1, T, H], or to the rows that are chosen of the context and of the input, and no weights."""
        if one_each is not None:
            context = self._of_one_each(hidden_states[0], one_each, kwargs["sequences"])[None]
        elif self.joins(hidden_states):
            context = self.attend_in(hidden_states, self.attention_dropout, kwargs["sequences"])
        else:
            whole, _ = super(SelfAttention, self).forward(hidden_states, *args, **kwargs)
            return choose(whole, whole)[0] if choose else whole, None
        if choose:
            context, hidden_states = choose(context, hidden_states)
        after = self.dense, self.LayerNorm, self.output_dropout.next_mask
        found = normed_product(context, hidden_states, *after)
        if found is None:
            found = self.LayerNorm(hidden_states + self.output_dropout(self.dense(context)))
        return found, None


class AlbertLayer(nn.Module):
    """ALBERT's layer: after its attention, what BERT has in two modules, without dropout, as in transformers."""

    attention: nn.Module
    ffn: nn.Linear
    activation: nn.Module
    ffn_output: nn.Linear
    full_layer_layer_norm: nn.LayerNorm
    dropout: nn.Dropout  # which transformers does not call

    def forward(self, hidden_states: Tensor, attention_mask: None = None, **kwargs: Any) -> Tensor:
        """[1, T, H] to [1, T, H]."""
        attended: Tensor = self.attention(hidden_states, attention_mask, **kwargs)[0]
        middle = products.activated_product(attended, self.ffn, self.activation)
        if middle is None:
            middle = self.activation(self.ffn(attended))
        found = normed_product(middle, attended, self.ffn_output, self.full_layer_layer_norm, _no_mask)
        return self.full_layer_layer_norm(self.ffn_output(middle) + attended) if found is None else found


class FeedForward(nn.Module):
    """XLNet's part after the attention, with dropout after the GELU too."""

    layer_1: nn.Linear
    activation_function: nn.Module
    layer_2: nn.Linear
    dropout: Any  # of models/dropout.py
    layer_norm: nn.LayerNorm

    def forward(self, inp: Tensor) -> Tensor:
        """[..., H] to [..., H]."""
        middle = products.activated_product(inp, self.layer_1, self.activation_function)
        if middle is None:
            return cast(Tensor, super().forward(inp))
        middle = self.dropout(middle)
        found = normed_product(middle, inp, self.layer_2, self.layer_norm, self.dropout.next_mask)
        return self.layer_norm(self.dropout(self.layer_2(middle)) + inp) if found is None else found


class LMPredictionHead(nn.Module):
    """The product with the vocabulary, on a GPU with one that its matrix units take whole."""

    transform: nn.Module
    decoder: nn.Linear

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[..., H] to logits, [..., V]."""
        if not gpu.is_on_gpu(hidden_states):
            return cast(Tensor, super().forward(hidden_states))
        weight, bias = self.decoder.weight, self.decoder.bias
        missing = -len(weight) % VOCABULARY_STEP
        logits = linear(self.transform(hidden_states), pad(weight, (0, 0, 0, missing)), pad(bias, (0, missing)))
        return logits[..., : len(weight)]


# The families' classes end so.
PARTS = (SelfAttention, Layer, Intermediate, Output, AlbertAttention, AlbertLayer, FeedForward, LMPredictionHead)


def _no_mask(count: int) -> Any:
    """A mask that drops nothing of so many rows."""
    return np.uint64(0), 0, np.float32(1), torch.arange(count, dtype=torch.int32)
