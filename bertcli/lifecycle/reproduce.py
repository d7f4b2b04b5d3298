"""Run one of the paper's experiments, at any size, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from shlex import join
from typing import Any

from bertcli import number_of, say
from bertcli.config.options import default_of, flag, typed
from bertcli.config.reproduce import ReproduceConfig
from bertcli.data.atomic import write_text
from bertcli.data.hub import hub_answers
from bertcli.data.labelled.official_files import data_folder, find_file
from bertcli.errors import UserError, check_place
from bertcli.lifecycle.pretrained import BERT_BASE, BERT_BOOKS, MINILM
from bertcli.lifecycle.reproducing.checks import check_parts, check_recipe, with_phases
from bertcli.lifecycle.reproducing.parts import DATA, DEV_PER_LIMIT, Parts, Row, parts_of, rows_of
from bertcli.lifecycle.reproducing.result import Reproduction, reproductions_in
from bertcli.lifecycle.reproducing.running import result_of, run_parts
from bertcli.lifecycle.workspace import RUNS, resolve_model
from bertcli.tasks import get_task
from bertcli.tasks.experiments import EXPERIMENTS
from bertcli.tasks.experiments.experiment import Column, Experiment, System
from bertcli.training.progress import duration

NEEDED = ("train", "dev")  # splits of a task
# Options of the models that an experiment pre-trains, beside the one that says for how long.
OF_PRETRAINING = {"size", "pretrain_recipe", "pretrain_seeds", "text", "held_out", "tokenizer", "vocab_size"}
OF_PRETRAINING |= {"max_seq_length", "phases", "dupe_factor", "split_sentences"}


def reproduce(experiment: ReproduceConfig | str, **options: Any) -> Reproduction:
    """Plan the parts of an experiment, run those that its folder lacks, and write the paper's table with ours beside it.

    The folder may be shared by several processes and machines: each part is run once. Raises UserError if there are no
    data, or an option does not fit; Interrupted after Ctrl-C, after which the same call continues.
    """
    config = ReproduceConfig.build(experiment, options)
    if not config.experiment:
        known = ", ".join(EXPERIMENTS)
        raise UserError("Which experiment? None was given.", f"Name one: bert reproduce table-5; there are {known}.")
    folder = Path(config.out or RUNS / f"reproduce-{config.experiment}")
    check_place(folder / DATA)
    found, skipped, data_dir = _with_data(config)
    recipe = check_recipe(config, EXPERIMENTS[config.experiment]) if found.pretrains else []
    config = with_phases(config, found)
    rows = rows_of(found, () if found.pretrains else _models(config))
    parts = parts_of(config, found, rows, data_dir)
    check_parts(parts.all, EXPERIMENTS[config.experiment].tasks)
    needless = _without_effect(config, found)
    planned = _plan(folder, parts, data_dir, config.vocab_size)
    result = Reproduction(
        experiment=found.name,
        title=found.table.title,
        folder=str(folder),
        command=command_to_continue(config, folder),
        plan=planned,
        paper={"columns": [*found.table.columns], "rows": {name: [*row] for name, row in found.table.rows.items()}},
        columns=[column.head for column in found.columns],
        skipped=skipped,
        notes=[*found.all_notes, *needless, *recipe, *_notes(config, found, rows), *_alike(parts)],
    )
    if config.dry_run:
        return result
    folder.mkdir(parents=True, exist_ok=True)
    run_parts(folder, parts.all, result.command)
    return _finished(result, found, rows, parts, config.seeds)


def _with_data(config: ReproduceConfig) -> tuple[Experiment, list[str], str | None]:
    """The experiment with its columns that have data, those that have none, and the data's folder. Raises UserError if none has."""
    found, data_dir = EXPERIMENTS[config.experiment], data_folder(config.data_dir)
    if config.rows:
        found = found.with_rows(config.rows)
    if config.tasks:
        found = found.with_tasks([get_task(name) for name in config.tasks])
    if config.columns:
        found = found.with_columns(config.columns)
    if data_dir is None:
        if hub_answers():
            return found, [], None
        hint = "Give the folder of the official files: --data-dir DIR, or set BERT_DATA."
        raise UserError("There is no folder of task data, and the Hub does not answer.", hint)
    lacking = {task: lacks for task in found.tasks if (lacks := _lacking(found, task, data_dir))}
    missing = [f"{task} is left out: {data_dir} has no {' and no '.join(of)} of it." for task, of in lacking.items()]
    if lacking.keys() >= set(found.tasks) > set():
        hint = f"Get the official files, or try other tasks: bert reproduce {config.experiment} --tasks glue/rte"
        raise UserError(f"`{data_dir}` has no data for {config.experiment} ({', '.join(lacking)}).", hint)
    for line in missing:
        say(line)
    return found.without_tasks(lacking), missing, str(data_dir.resolve())


def _lacking(experiment: Experiment, task: str, data_dir: Path) -> list[str]:
    """The splits of a task whose files are not in a folder."""
    needed = {*NEEDED, *(column.split for column in experiment.columns if column.task == task)}
    return [split for split in sorted(needed) if not find_file(get_task(task), split, data_dir)]


def _models(config: ReproduceConfig) -> list[str]:
    """The models to fine-tune: those given, else the real BERT that is on this machine."""
    if not config.from_:
        best = next(each for each in (MINILM, BERT_BASE, BERT_BOOKS) if each.folder)
        say(f"starting from {best.name} (--from names another, or several)")
        return [best.name]
    for model in config.from_:
        resolve_model(model)
    return config.from_


def _plan(folder: Path, parts: Parts, data_dir: str | None, vocab_size: int) -> list[dict[str, Any]]:
    """What will be run, and how long that takes, said as a range."""
    from bertcli.lifecycle.reproducing.estimate import Estimator

    planned = Estimator(folder, parts.all, data_dir, vocab_size).plan()
    say(f"plan: {number_of(len(parts.all), 'part')} in {folder}")
    for each in planned:
        state = f", {each.done} done" if each.done else ""
        low, high = each.seconds_left
        left = each.count - each.done
        time = f": {duration(low)} to {duration(high)}{' together' if left > 1 else ''}" if left else ""
        say(f"  {each.count} × {each.title}{state}{time}")
    low, high = (sum(each.seconds_left[end] for each in planned) for end in (0, 1))
    how = "measured on parts that are done, and estimated" if any(each.is_measured for each in planned) else "estimated"
    time = f"{duration(low)} to {duration(high)} for one process on this machine, {how} by a short calibration"
    say(f"  in all {time}" if high else "  all of them are done")
    return [{**asdict(each), "seconds_left": [round(end, 1) for end in each.seconds_left]} for each in planned]


def _without_effect(config: ReproduceConfig, experiment: Experiment) -> list[str]:
    """The options that were given, but change nothing in this experiment, which is said."""
    needless = {"from_"} if experiment.pretrains else OF_PRETRAINING | {"steps", "flops"}
    needless |= {"steps", "phases"} if experiment.equal_compute else {"flops"}
    flags = [flag(each) for each in fields(config) if each.name in needless & config.given]
    if not flags:
        return []
    why = "pre-trains nothing" if not experiment.pretrains else "pre-trains its own models"
    line = f"{', '.join(flags)} {'has' if len(flags) == 1 else 'have'} no effect: {config.experiment} {why}"
    line += f" for --flops {config.flops:g}." if experiment.equal_compute else "."
    is_smaller = "steps" in needless & config.given and experiment.equal_compute
    say(line + f" For a smaller experiment give fewer, such as --flops {config.flops / 1000:g}." * is_smaller)
    return [line]


def _notes(config: ReproduceConfig, experiment: Experiment, rows: Sequence[Row]) -> list[str]:
    """What differs from the paper because of the options."""
    scored: tuple[System | Column, ...] = (*experiment.systems, *experiment.columns)
    lines: dict[str, object] = {
        "One seed each: intervals are of the examples alone, and another seed may change more than they say.": (
            config.seeds * config.pretrain_seeds < 2
        ),
        "--grid is for fine-tuning: a BiLSTM on frozen states has one learning rate, and ten epochs.": (
            config.grid and any(each.finetune.get("frozen") for each in scored)
        ),
        f"Fine-tuned on at most {config.limit or 0:,} examples, scored on at most {DEV_PER_LIMIT * (config.limit or 0):,}, the same for all.": (
            config.limit and experiment.tasks
        ),
        "The paper's scores beside models of --from are those of its base; of its large for those named so, or where it"
        " has no base.": not experiment.pretrains and any("bert-base" not in row.model for row in rows),
    }
    of_pretraining = _notes_on_pretraining(config, experiment) if experiment.pretrains else {}
    return [line for line, is_so in (of_pretraining | lines).items() if is_so]


def _notes_on_pretraining(config: ReproduceConfig, experiment: Experiment) -> dict[str, object]:
    text = "the text given" if config.text else "seven novels"
    much = f"{config.flops:.3g} floating-point operations" if experiment.equal_compute else f"{config.steps:,} steps"
    length = f"{config.max_seq_length} tokens{f' ({config.phases})' if config.phases else ''}"
    return {
        f"Pre-trained for {much} on {text}, inputs of at most {length}, with masks drawn for each batch, at the size"
        f" {config.size}; the paper's base: 1,000,000 steps of 256 on 3.3 billion words.": True,
        "No held-out text was given: the pre-trained models are scored on a part of their training text.": (
            config.text and not config.held_out
        ),
        "One pre-training of each row: intervals do not say what another seed of it would change.": (
            config.pretrain_seeds < 2 <= config.seeds
        ),
    }


def _alike(parts: Parts) -> list[str]:
    """The rows that have become the same model by being scaled down."""
    rows: dict[str, list[list[str]]] = {}
    for (row, _), paths in parts.cells.items():
        rows.setdefault(row, []).append(paths)
    alike: dict[str, list[str]] = {}
    for row, own in rows.items():
        alike.setdefault(str(own), []).append(row)
    return [f"At this size {' and '.join(names)} are the same model." for names in alike.values() if names[1:]]


def command_to_continue(config: ReproduceConfig, folder: Path) -> str:
    """The command that continues a reproduction in its folder."""
    values = {each: getattr(config, each.name) for each in fields(config) if each.name not in ("out", "dry_run")}
    words = [word for each, value in values.items() if value != default_of(each) for word in typed(each, value)]
    return join(["bert", "reproduce", *words, "--out", str(folder)])


def _finished(result: Reproduction, found: Experiment, rows: Sequence[Row], parts: Parts, seeds: int) -> Reproduction:
    """Score the parts, and write the table and the page."""
    from bertcli.lifecycle.reproducing.page import markdown_of, page_of
    from bertcli.lifecycle.reproducing.scores import Comparisons, cells_of
    from bertcli.reports.sections import render_page

    folder = Path(result.folder)
    cells = cells_of(found, rows, parts.cells, folder)
    comparisons = Comparisons(found, folder, parts.all, parts.cells, seeds).all(rows, cells)
    costs: dict[str, dict[str, Any]] = {}
    for path, part in parts.all.items():
        cost = costs.setdefault(part.title, {"title": part.title, "count": 0, "seconds": 0.0})
        cost["count"] += 1
        cost["seconds"] = round(cost["seconds"] + result_of(folder, path)["seconds"], 1)
    page = folder / "report.html"
    collapsed = sum(bool(result_of(folder, path).get("collapsed")) for path in parts.all)
    learnt_nothing = f"{collapsed} of the fine-tuned models learnt nothing: they give one answer for every example."
    done = replace(
        result,
        notes=[*result.notes, *([learnt_nothing] if collapsed else [])],
        cells=[cell.to_json() for cell in cells],
        comparisons=comparisons,
        costs=[*costs.values()],
        seconds=round(sum(cost["seconds"] for cost in costs.values()), 1),
        report=str(page),
    )
    with suppress(FileNotFoundError):  # another process that finishes at the same time writes the same
        done.write()
        write_text(folder / f"{done.experiment}.md", markdown_of(done) + "\n")
        write_text(page, render_page(page_of(reproductions_in(folder))))
    return done
