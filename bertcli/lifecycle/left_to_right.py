"""The causal transformer: the fine-tuning of a run that was pre-trained from left to right."""

from __future__ import annotations

from pathlib import Path

from bertcli import say
from bertcli.config.baselines import LEFT_TO_RIGHT, BaselineConfig
from bertcli.errors import UserError
from bertcli.lifecycle.workspace import find_runs, resolve_model, saved_config
from bertcli.training.result import TrainingResult

SAME = ("text", "text_pair", "label", "kind", "data_dir", "seed", "dry_run")  # options of both commands
GIVEN = ("limit", "epochs", "batch_size", "learning_rate")  # for which fine-tuning has defaults of its own


def finetune_left_to_right(config: BaselineConfig, out: Path) -> TrainingResult:
    """Fine-tune the run of `--from`, or the latest such one. Raises UserError if there is none."""
    from bertcli.lifecycle.finetune import finetune

    options = {name: getattr(config, name) for name in SAME}
    options |= {name: getattr(config, name) for name in GIVEN if name in config.given}
    return finetune(config.task, from_=_start(config), out=str(out), baseline=False, **options)


def _start(config: BaselineConfig) -> str:
    hint = f"Make one: bert pretrain --objective {LEFT_TO_RIGHT}"
    if config.from_:
        if saved_config(resolve_model(config.from_)).get("objective") != LEFT_TO_RIGHT:
            raise UserError(f"`{config.from_}` was not pre-trained from left to right.", hint)
        return config.from_
    runs = find_runs("pretrain", finished=True, objective=LEFT_TO_RIGHT)
    if not runs:
        raise UserError("No run in this folder was pre-trained from left to right.", hint)
    say(f"starting from {runs[0].path} (latest run that was pre-trained from left to right)")
    return str(runs[0].path)
