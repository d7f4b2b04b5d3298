"""The weights of a model in shards, one for each process: FSDP, through Accelerate."""

import copy
import os
from typing import Any, cast

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin, fsdp2_prepare_model, parse_flag_from_env
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor

from bertcli.models.model_with_loss import ModelWithLoss
from bertcli.models.working_copy import WorkingCopy, sum_embeddings_in_float32


def is_sharded() -> bool:
    """Whether the weights are to be sharded, as `accelerate launch --use_fsdp` asks by this variable."""
    return parse_flag_from_env("ACCELERATE_USE_FSDP") and int(os.environ.get("WORLD_SIZE", 1)) > 1


class Shards(WorkingCopy):
    """A sharded copy of a model, which computes in `dtype`; a process updates its shards, in float32.

    The model itself stays whole, for evaluation and checkpoints, and gets the weights when these are due.
    """

    def __init__(self, model: ModelWithLoss, dtype: torch.dtype, accelerator: Accelerator) -> None:
        super().__init__(model, torch.float32)
        self.model, self.accelerator, self.updated = model, accelerator, self
        layers = getattr(getattr(model.model.base_model, "encoder", None), "layer", [])
        accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            mixed_precision_policy=MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32),
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=[*{type(layer).__name__ for layer in layers}],
            reshard_after_forward=False,
            cpu_ram_efficient_loading=False,
        )
        self.module: Any = fsdp2_prepare_model(accelerator, copy.deepcopy(model))
        if dtype != torch.float32:
            sum_embeddings_in_float32(self.module)
        shards: dict[str, Any] = dict(self.module.named_parameters())
        self._own = {name: nn.Parameter(each.to_local(), each.requires_grad) for name, each in shards.items()}
        self._shards: dict[nn.Parameter, Any] = {self._own[name]: each for name, each in shards.items()}

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """The shards of this process, which share memory with those of the module."""
        return [*self._own.items()]

    def exchange(self, is_last: bool) -> None:
        """Gather weights with the first pass of a step and sum gradients with the last: processes differ in the passes between."""
        self.module.set_requires_gradient_sync(is_last)
        self.module.set_reshard_after_backward(is_last)

    @torch.no_grad()
    def give_gradients(self, is_last: bool) -> None:
        """Move the gradients of a step to the shards."""
        for own, shard in self._shards.items() if is_last else ():
            gradient, shard.grad = shard.grad, None
            own.grad = None if gradient is None else gradient.to_local()

    def norm(self, of_shards: Tensor) -> Tensor:
        """The norms of whole tensors from those of their shards."""
        return cast(Tensor, self.accelerator.reduce(of_shards.square()).sqrt())

    @torch.no_grad()
    def gather(self) -> None:
        """Give the model all weights."""
        for whole, shard in zip(self.model.parameters(), self._shards.values(), strict=True):
            whole.copy_(shard.full_tensor())

    def refresh(self) -> None:
        """The shards are what is updated."""

    @torch.no_grad()
    def take(self) -> None:
        """Take the weights of the model."""
        for whole, own in zip(self.model.parameters(), self._shards, strict=True):
            own.copy_(self.part(own, whole))

    def whole(self, own: nn.Parameter, values: Tensor) -> Tensor:
        """The whole of something that has a value for each weight."""
        if not values.dim():
            return values
        shard = self._shards[own]
        of_all = DTensor.from_local(
            values, shard.device_mesh, shard.placements, run_check=False, shape=shard.shape, stride=shard.stride()
        )
        return of_all.full_tensor()

    def part(self, own: nn.Parameter, values: Tensor) -> Tensor:
        """What this process holds of it."""
        if not values.dim():
            return values
        shard = self._shards[own]
        given = values.detach().to(own.device)
        part: Any = distribute_tensor(given, shard.device_mesh, shard.placements, src_data_rank=None)
        return cast(Tensor, part.to_local())
