"""The phases of a pre-training: how many of its steps are made on inputs of which length, and the data of each, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertcli import number_of, say
from bertcli.config.distillation import DistillConfig
from bertcli.config.training import PretrainConfig
from bertcli.data.pretraining.phases import Phase, parse_phases
from bertcli.data.pretraining.shards import PretrainingExamples, load_pretraining_examples
from bertcli.errors import UserError
from bertcli.lifecycle.workspace import MAKE_DATA, latest_pretraining_data
from bertcli.objectives.objective import Objective
from bertcli.training.run_folder import RunFolder

MASKED_SHARE = 0.15
EVALUATION_ROWS = 800  # of the training data without --eval-data, as run_pretraining.py's 100 batches of 8


def find_phases(config: PretrainConfig, shards_per_window: Sequence[int] = ()) -> tuple[Phase, ...]:
    """The phases that are asked for with their data: those named, or the latest of their lengths in this folder.

    `shards_per_window` has the orders of a run that is resumed. Raises UserError if data are missing or do not fit.
    """
    steps_of = parse_phases(config.phases, config.steps) if config.phases else [(None, range(config.steps))]
    given = _folders(config.data, bool(config.phases)) if config.data else []
    if given and len(given) != len(steps_of):
        names = ",".join(f"DATA-{length}" for length, _ in steps_of)
        what = f"--phases has {number_of(len(steps_of), 'phase')}, and --data names {number_of(len(given), 'folder')}."
        raise UserError(what, f"Name one for each, in the same order, separated by commas: --data {names}")
    phases: list[Phase] = []
    for number, (length, steps) in enumerate(steps_of):
        begun = shards_per_window[number] if number < len(shards_per_window) else None
        phases.append(Phase(steps, open_data(config, given[number] if given else None, length, begun)))
        _check_beside(phases[0].examples, phases[-1].examples)
    return tuple(phases)


def _folders(data: str, has_phases: bool) -> list[str]:
    """The folders that --data names, one for each phase."""
    folders = data.split(",")
    if folders[1:] and not has_phases and all(Path(folder).is_dir() for folder in folders):
        what = f"--data names {len(folders)} folders, and there are no --phases."
        raise UserError(what, "Give one folder, or lengths and shares of the steps: --phases 128:0.9,512:0.1")
    return folders if has_phases else [data]


def open_data(
    config: PretrainConfig | DistillConfig, given: str | None, length: int | None = None, begun: int | None = None
) -> PretrainingExamples:
    """The data that are given, or the latest. Raises UserError if there are none, or they are of another length.

    `begun` is of how many shards at a time a run that is resumed mixes the rows.
    """
    folder = given or latest_pretraining_data(length, _how_to_make(length), config.eval_data)
    examples = load_pretraining_examples(folder, config.seed, config.data_cache_gb, begun)
    say(f"data{f' of length {length}' if length else ''}: {folder}{'' if given else ' (latest in this folder)'}")
    if length not in (None, examples.max_seq_length):
        what = f"`{folder}` has instances of length {examples.max_seq_length}, not of {length} as --phases asks for."
        raise UserError(what, _how_to_make(length))
    return examples


def held_out_of(config: PretrainConfig, examples: PretrainingExamples, run: RunFolder | None) -> PretrainingExamples:
    """What to evaluate on. Raises UserError if it has another vocabulary than what is trained on, or a resumed run had others."""
    if not config.eval_data:
        return examples.head(EVALUATION_ROWS)
    if Path(config.eval_data) == Path(examples.folder):
        say(f"evaluated on the training data: {config.eval_data} is trained on too")
    held_out = load_pretraining_examples(config.eval_data, config.seed, config.data_cache_gb)
    if held_out.tokenizer.digest != examples.tokenizer.digest:
        what = f"`{config.eval_data}` was made with another vocabulary than `{examples.folder}`."
        raise UserError(what, "Make both with one --tokenizer.")
    before = run.config if run else {}
    if before.get("eval_data") == config.eval_data and before.get("eval_digest", held_out.digest) != held_out.digest:
        what = f"`{config.eval_data}` holds other data than the run in `{run and run.path}` was evaluated on."
        raise UserError(what, "Put them back, or name others: --eval-data FOLDER")
    return held_out


def check_data(phases: tuple[Phase, ...], objective: Objective, run: RunFolder | None) -> None:
    """Raise UserError if the data do not fit the objective, or are not those that a resumed run was begun with."""
    examples, resolved = phases[0].examples, resolved_data(phases)
    if objective.needs_pairs and not examples.has_pairs:
        what = f"--objective {objective.name} needs pairs, and `{examples.folder}` has none."
        raise UserError(what, f"Leave --objective out. {examples.how_to_make_other('--next-sentence')}")
    made_for = examples.manifest.get("objective", objective.name)
    if objective.needs_pairs and made_for != objective.name:
        what = f"`{examples.folder}` has the pairs of --objective {made_for}, not of {objective.name}."
        raise UserError(what, f"Leave --objective out. {examples.how_to_make_other(f'--objective {objective.name}')}")
    if run and run.config.get("data_digest", resolved["data_digest"]) != resolved["data_digest"]:
        what = f"`{resolved['data']}` holds other data, or another tokenizer, than the run in `{run.path}` began with."
        raise UserError(what, "Name the data it was begun with: --data FOLDER; or start a new run.")


def describe_phases(phases: Sequence[Phase], batch_size: int) -> list[str]:
    """The steps, length and epochs of each phase in words; nothing of the only one."""
    said = "steps {:,} to {:,} at length {}, {:.3g} epochs of its data".format
    facts = ((each.steps, each.examples.max_seq_length, each.epochs(batch_size)) for each in phases)
    return [said(steps.start + 1, steps.stop, *more) for steps, *more in facts] if phases[1:] else [""]


def resolved_data(phases: Sequence[Phase], held_out: PretrainingExamples | None = None) -> dict[str, Any]:
    """The data of the phases and those held out, for config.yaml."""
    orders = [phase.examples.shards_per_window for phase in phases]
    return {
        "data": ",".join(str(phase.examples.folder) for phase in phases),
        "data_digest": ",".join(phase.examples.digest for phase in phases),
        "shards_per_window": orders if len(orders) > 1 else orders[0],
        **({"eval_digest": held_out.digest} if held_out else {}),
    }


def _how_to_make(length: int | None) -> str:
    if length is None:
        return MAKE_DATA
    masked = math.ceil(MASKED_SHARE * length)
    options = f"--max-seq-length {length} --max-predictions-per-seq {masked} --out pretraining-data-{length}"
    return f"{MAKE_DATA} {options}"


def _check_beside(first: PretrainingExamples, other: PretrainingExamples) -> None:
    """Raise UserError if the data of two phases are not of one vocabulary, and both pairs or neither."""
    if other.tokenizer.digest != first.tokenizer.digest:
        what = f"`{other.folder}` was made with another vocabulary than `{first.folder}`."
        raise UserError(what, "Make both with one --tokenizer.")
    if other.has_pairs != first.has_pairs:
        what = f"Of `{first.folder}` and `{other.folder}` only one holds pairs."
        raise UserError(what, "Make both with --next-sentence, or both with --no-next-sentence.")
