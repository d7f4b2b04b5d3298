"""Which run, model, vocabulary or data a command takes: the only place that decides."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.data.hub import cached_model, download_model, hub_answers
from bertcli.errors import UserError, unknown
from bertcli.kinds import KINDS
from bertcli.kinds.own_tables import choice_columns
from bertcli.lifecycle.pretrained import BERT_BASE, BERT_BOOKS, MINILM, PRETRAINED, Pretrained
from bertcli.tasks import get_task, is_task
from bertcli.training.run_folder import RunFolder

RUNS = Path("runs")
HOW_TO_MAKE = {"text": "glue/sst2", "pair": "glue/mnli", "choices": "swag", "question": "squad"}


def new_run(name: str) -> RunFolder:
    """A folder for a new run: runs/NAME, or runs/NAME-2, -3 ... where that is taken."""
    paths = (RUNS / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return RunFolder(next(path for path in paths if not path.exists()))


def find_runs(command: str, finished: bool, **wanted: object) -> list[RunFolder]:
    """The runs of a command with the given values in their configuration, latest first."""
    wanted["command"] = command
    runs = [RunFolder(path.parent) for path in RUNS.glob("*/config.yaml")]
    fits = [run for run in runs if run.is_finished == finished and wanted.items() <= run.config.items()]
    return sorted(fits, key=lambda run: (run.path / "config.yaml").stat().st_mtime, reverse=True)


def unfinished_run(command: str) -> RunFolder:
    """The latest unfinished run of a command. Raises UserError if there is none."""
    runs = find_runs(command, finished=False)
    if not runs:
        hint = f"Start one: bert {command}; or name it: --out RUN"
        raise UserError(f"There is no unfinished run of `bert {command}` in this folder.", hint)
    return runs[0]


def run_of_task(task: str, *others: RunFolder) -> RunFolder:
    """The latest finished run of a task, or else the first of the others. Raises UserError if there is none."""
    runs = [*find_runs("finetune", finished=True, task=task), *others]
    if not runs:
        hint = f"Make one: bert finetune {task}; or name a --model."
        raise UserError(f"There is no finished run of {task} in this folder.", hint)
    say(f"model: {runs[0].path} (latest run of {runs[0].config['task']})")
    return runs[0]


def runs_of_own_files() -> list[RunFolder]:
    """The finished runs on own files, latest first."""
    return [run for run in find_runs("finetune", finished=True) if not is_task(run.config["task"])]


def runs_of_tasks(names: Iterable[str]) -> list[str]:
    """The latest finished run of each task. Raises UserError if there is none of any."""
    found = {run.config["task"]: str(run.path) for run in reversed(find_runs("finetune", finished=True))}
    latest = [found[name] for name in names if name in found]
    if not latest:
        raise UserError(
            "There is no finished run of a task of GLUE in this folder.", "Make one: bert finetune glue/cola"
        )
    say(f"runs: {', '.join(latest)} (latest of each task)")
    return latest


def run_with_columns(names: list[str]) -> RunFolder | None:
    """The latest run whose columns a table has, and choices if the table has some."""
    for run in find_runs("finetune", finished=True):
        text, pair, kind = (run.config.get(key) for key in ("text", "text_pair", "kind"))
        form = "choices" if choice_columns(names, text) else "text"
        if kind in KINDS and form in KINDS[kind].inputs and text in names and pair in (None, *names):
            return run
    return None


def model_for(form: str) -> str:
    """The model of the latest run that takes a form of input, for masks and features pre-trained. Raises UserError if none does."""
    if form in ("mask", "features"):
        runs = find_runs("pretrain", finished=True)
        if not runs:
            return _first_here((BERT_BASE, BERT_BOOKS) if form == "mask" else (BERT_BASE, MINILM, BERT_BOOKS))
    else:
        runs = [run for run in find_runs("finetune", finished=True) if form in KINDS[run.config["kind"]].inputs]
        runs.sort(key=lambda run: takes_pairs(run.config) is (form != "pair"))  # those of as many texts come first
    if not runs:
        hint = f"Make one: bert finetune {HOW_TO_MAKE[form]}; or name a --model."
        raise UserError("There is no run in this folder that fits this input.", hint)
    say(f"model: {runs[0].path} (latest run that fits)")
    return str(runs[0].model)


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
    return "text_pair" in get_task(saved["task"]).files.columns if is_task(saved["task"]) else bool(saved["text_pair"])


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
        name = str(runs[0].model) if runs else _best_to_be_had()
        say(f"starting from {f'{runs[0].path} (latest pre-trained run)' if runs else name}")
    folder = resolve_model(name)
    return folder if Path(name).exists() else name


def _best_to_be_had() -> str:
    """BERT base where the Hub has put it on this machine or answers, else the first of the smaller models that is here."""
    if BERT_BASE.folder or (hub_answers() and download_model(BERT_BASE.hub)):
        return BERT_BASE.name
    if MINILM.folder:
        return MINILM.name
    say(f"{BERT_BOOKS.name} is the only model here, too small for good scores; for a real BERT: {MINILM.how_to_get}")
    return BERT_BOOKS.name


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
    if source.startswith((".", "/", "runs/")) or source.count("/") > 1:
        raise UserError(f"There is no model `{source}`.", "Give a run under runs/, a model folder or a Hub name.")
    if hub_answers():
        return str(download_model(model.hub if model else source))
    if not model and "/" not in source:
        raise unknown("model", source, PRETRAINED, "`bert models` lists them; or give a run, or a folder.")
    how = model.how_to_get if model and model.extra else "try again when you are online"
    raise UserError(
        f"`{source}` is not on this machine, and the Hub does not answer.", f"Get it: {how}; or see: bert models"
    )


def _model_in(path: Path) -> str:
    if (path / "model" / "config.json").exists():
        return str(path / "model")
    if (path / "config.json").exists():
        return str(path)
    if (path / "config.yaml").exists():
        hint = f"Continue it: bert {RunFolder(path).config['command']} --resume --out {path}"
        raise UserError(f"The run `{path}` has no model yet.", hint)
    raise UserError(f"`{path}` holds no model.", "Give a run under runs/, a folder with config.json, or a Hub name.")


def tokenizer_source(name: str) -> str:
    """Where to open a tokenizer: the folder of a short name of `bert models`, else what was given."""
    model = PRETRAINED.get(name)
    if not Path(name).exists() and not cached_model(name):
        hub_answers()  # or the libraries wait for it much longer
    return resolve_model(name) if model else name


def saved_config(model: str) -> dict[str, Any]:
    """The configuration of the run that a model folder is of; nothing for another model."""
    run = RunFolder(Path(model).parent)
    return run.config if (run.path / "config.yaml").exists() else {}


def remark_on(model: str, task: str) -> str:
    """A remark if the pre-trained model that a model was made from has been trained on texts of the task; else nothing."""
    start: str | None = model
    while start and start not in PRETRAINED:
        start = saved_config(start).get("from")
    if start and task in PRETRAINED[start].seen:
        return f"{start} was trained on texts of {task}, or of the data it was made from: its score is not that of a new task."
    return ""


def latest_vocabulary(otherwise: str | None = None) -> str:
    """The latest vocabulary in this folder, else `otherwise`. Raises UserError if there is neither."""
    if found := _latest("*/vocab.txt") or otherwise:
        return found
    hint = "Make one: bert build-vocab TEXT, or give --tokenizer."
    raise UserError("There is no vocabulary in this folder yet.", hint)


def latest_pretraining_data() -> str:
    """The latest pre-training data in this folder. Raises UserError if there are none."""
    if found := _latest("*/manifest.json"):
        return found
    raise UserError("There is no pre-training data in this folder yet.", "Make some: bert make-pretraining-data TEXT")


def _latest(pattern: str) -> str | None:
    found = max(Path().glob(pattern), key=lambda path: path.stat().st_mtime, default=None)
    return str(found.parent) if found else None
