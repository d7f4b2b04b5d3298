"""The steps of a pre-training that is given floating-point operations: how many of them a step takes, counted on its data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bertcli import say
from bertcli.config.distillation import DistillConfig
from bertcli.config.training import PretrainConfig
from bertcli.errors import UserError, flag_of
from bertcli.training.run_folder import RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bertcli.lifecycle.pretraining.run import Request

ROWS = 16  # that are counted; a step has more of the same lengths


def check_flops(config: PretrainConfig | DistillConfig, run: RunFolder) -> None:
    """Raise UserError if --flops is beside an option that it decides or cannot go with."""
    is_new = not (config.resume or run.starts_over)
    for name in ("steps", "phases", "keep_steps") if config.flops and is_new else ():
        if name in config.given and getattr(config, name):
            flag = flag_of(name)
            raise UserError(f"--flops decides the number of steps, so {flag} cannot be given.", f"Leave {flag} out.")


def with_steps(request: Request, model: PreTrainedModel) -> Request:
    """The request with as many steps as --flops pays for. Raises UserError if it pays for none."""
    from bertcli.data.packing.batches import longest_first
    from bertcli.training.throughput import count_flops

    config = request.config
    if not config.flops or request.resumed:
        return request
    with_loss, (phase,) = request.objective.with_loss(model), request.phases
    examples = request.objective.packable(phase.examples)
    rows = longest_first(np.arange(min(ROWS, len(phase.examples))), examples.lengths)
    of_step = count_flops(with_loss, examples.pack(rows, key=0)) / len(rows) * config.batch_size
    steps = int(config.flops / of_step)
    if not steps:
        hint = f"Give more: --flops {10 * of_step:.0e}"
        raise UserError(f"One takes {of_step:.1e} floating-point operations, more than --flops {config.flops:g}.", hint)
    say(f"{config.flops:.3g} floating-point operations: {steps:,} steps, each of {of_step:.2e}")
    resolved = {**request.resolved, "flops": config.flops}
    paid = replace(config, steps=steps, flops=None)
    paid.given = config.given
    options = request.options and request.options.build(request.options, {"steps": steps, "flops": None})
    phases = (replace(phase, steps=range(steps)),)
    return replace(request, config=paid, options=options, phases=phases, resolved=resolved)
