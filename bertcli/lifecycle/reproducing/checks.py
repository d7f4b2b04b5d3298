"""What can be known to be wrong with a reproduction before any of it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bertcli.config.architecture import PARTS
from bertcli.config.combinations import check_finetuning, check_memory, check_pretraining
from bertcli.config.distillation import DistillConfig
from bertcli.config.recipes import read_recipe
from bertcli.config.reproduce import ReproduceConfig
from bertcli.config.training import PretrainConfig
from bertcli.data.pretraining.phases import parse_phases
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError, flag_of
from bertcli.families import get_family
from bertcli.lifecycle.reproducing.parts import Part, lengths_of
from bertcli.lifecycle.reproducing.running import CONFIGS
from bertcli.lifecycle.workspace import tokenizer_source
from bertcli.objectives import get_objective
from bertcli.tasks import get_task
from bertcli.tasks.experiments.experiment import Experiment

DECIDED = {"family", "objective", "from_", "data", "eval_data", "tokenizer", "out", "resume", "flops", "keep_steps"}
DECIDED |= {*PARTS}
OTHER_RECIPE = "Leave it out of the recipe, or take another: --pretrain-recipe pretrain/ablations"
POSITIONS = 512  # of a family that has absolute ones


def check_recipe(config: ReproduceConfig, experiment: Experiment) -> list[str]:
    """What of the recipe gives way, in words. Raises UserError if it sets what rows are compared by, or a reproduction decides."""
    name = config.pretrain_recipe
    found = PretrainConfig.from_values(read_recipe(name), f"option in the recipe {name}:")
    decided = DECIDED | {option for system in experiment.systems for option in system.pretrain or ()}
    gives_way = {"size", "steps", "seed", "precision"}  # to what `bert reproduce` is given, or takes by itself
    if experiment.equal_compute:
        decided, gives_way = decided | {"phases"}, gives_way - {"steps"}
    if strange := sorted(found.given & decided):
        what = f"The recipe {name} sets {flag_of(strange[0])}, which {experiment.name} decides for each row."
        raise UserError(what, OTHER_RECIPE)
    pairs = [(each, getattr(found, each), getattr(config, each, 0)) for each in sorted(found.given & gives_way)]
    other = [f"{flag_of(each)} {ours}, not {theirs}" for each, theirs, ours in pairs if theirs != ours]
    return [f"In place of what the recipe {name} says: {', '.join(other)}."] if other else []


def with_phases(config: ReproduceConfig, experiment: Experiment) -> ReproduceConfig:
    """The options with the phases, also of the recipe, and their longest for --max-seq-length. Raises UserError if another is given."""
    if not experiment.pretrains or experiment.equal_compute:
        return ReproduceConfig.build(config, {"phases": None}) if config.phases else config
    phases = config.phases or read_recipe(config.pretrain_recipe).get("phases")
    longest = max(lengths_of(phases))
    if not longest:
        return config
    if "max_seq_length" in config.given and config.max_seq_length != longest:
        what = f"--max-seq-length {config.max_seq_length} is not the longest of the phases, {phases}."
        raise UserError(what, f"Leave it out, or give --max-seq-length {longest}")
    return ReproduceConfig.build(config, {"phases": phases, "max_seq_length": longest})


def check_parts(parts: Mapping[str, Part], tasks: Sequence[str]) -> None:
    """Raise UserError if an option of a part is none of its command, out of range, or does not go with what it is run on."""
    for part in parts.values():
        config: Any = CONFIGS[part.command].from_values({**part.options, **part.needs})
        if part.command == "make_pretraining_data" and "tokenizer" not in part.needs:
            load_tokenizer(tokenizer_source(config.tokenizer))
        if part.command == "finetune":
            with _said_of(part, f"Name tasks of the kind that it is scored by: --tasks {' '.join(tasks)}"):
                check_finetuning(config, get_task(config.task))
        if part.command in ("pretrain", "distill"):
            _check_pretraining(config, part, [parts[data].options for data in part.needs["data"].split(",")])


@contextmanager
def _said_of(part: Part, hint: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{part.title}: {error.message}", hint) from None


def _check_pretraining(config: PretrainConfig | DistillConfig, part: Part, data: list[dict[str, Any]]) -> None:
    family = get_family(data[0].get("family"))
    lengths = [each["max_seq_length"] for each in data]
    if max(lengths) > POSITIONS and getattr(family.new_config(str(config.size)), "max_position_embeddings", 0) > 0:
        what = f"--max-seq-length {max(lengths)} is longer than the {POSITIONS} positions of {family.name}."
        raise UserError(what, f"Give --max-seq-length {POSITIONS} or less.")
    if isinstance(config, PretrainConfig):
        objective = get_objective(str(config.objective))
        with _said_of(part, OTHER_RECIPE):
            check_pretraining(config, objective, family)
            check_memory(config.memory, objective, min(lengths))
        if config.phases:
            parse_phases(config.phases, config.steps)
