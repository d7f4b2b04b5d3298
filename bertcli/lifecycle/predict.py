"""Use a model: labels, values, answers and fills for texts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.config.recipes import SHIPPED
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.own_splits import looks_like_file
from bertcli.data.labelled.tables import chunks_of, count_rows
from bertcli.errors import UserError
from bertcli.kinds import KINDS, kind_of_model
from bertcli.kinds.kind import Kind
from bertcli.kinds.mask import MASK_TOKEN
from bertcli.kinds.types import Prediction
from bertcli.lifecycle.prediction_files import check_output, write_official, write_predictions
from bertcli.lifecycle.prediction_inputs import InputRow, Inputs, counted, read_inputs
from bertcli.lifecycle.sources import find_source
from bertcli.lifecycle.workspace import model_for, resolve_model, run_of_task, saved_config, takes_pairs
from bertcli.tasks import get_task
from bertcli.tasks.task import Task
from bertcli.training.progress import Progress

if TYPE_CHECKING:
    from bertcli.lifecycle.task_model import TaskModel

# Predicted at once, sorted by length: 2,048 rows, or fewer long ones.
CHUNK_CHARACTERS = 2**22
ROW_CHARACTERS = 2**11
OWN_INPUTS = ("text", "text_pair", "choice", "question", "context", "file", "features")


@dataclass(frozen=True)
class Predictions:
    """The predictions for each input, in input order; written to `output` if that was given."""

    model: str
    kind: str
    count: int
    output: str | None = None
    records: Iterable[Prediction] = ()

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {**vars(self), "records": list(self.records)}


def predict(config: PredictConfig | str | None = None, **options: Any) -> Predictions:
    """Predict for a text, a pair, choices, a question with its context, a text with `[MASK]`, or a file of them.

    Raises UserError if no input was given, or no model in this folder fits it.
    """
    if isinstance(config, str):
        config, options = None, {"text": config, **options}
    found = stream(PredictConfig.build(config, options))
    records = list(found.records)
    return replace(found, count=found.count or len(records), records=records)


def stream(config: PredictConfig) -> Predictions:
    """As `predict`, but lazily: a wrong line of a file raises UserError after the predictions of the lines before it."""
    output = Path(config.output) if config.output not in (None, "-") else None
    for option, path in (("--output", output), ("--features", config.features)):
        if path:
            check_output(option, Path(path), config.file)
    _check_in_use(config)
    if config.task:
        return _predict_split(config, output)
    return _predict_inputs(config, read_inputs(config), output)


def _predict_inputs(config: PredictConfig, inputs: Inputs, output: Path | None) -> Predictions:
    if config.features:
        return _features(config, inputs)
    model = resolve_model(config.model) if config.model else model_for(inputs.form, inputs.misfit)
    kind = _kind(model, inputs.form)
    if config.dry_run:
        return Predictions(model, kind.name, 0)

    from bertcli.lifecycle.task_model import load_for_rows

    is_watched = bool(config.file and (output or not sys.stdout.isatty()))  # on a terminal, results show the progress
    rows = _with_remarks(inputs, model, config)
    found = _predictions(load_for_rows(model, kind, config.precision, config.top_k), rows, config.file, is_watched)
    if output:
        beside = ((_columns(row, config), prediction) for row, prediction in found)
        return Predictions(model, kind.name, write_predictions(beside, output), config.output)
    return Predictions(model, kind.name, 0, None, (prediction for _, prediction in found))


def _columns(row: InputRow, config: PredictConfig) -> dict[str, Any]:
    """The columns of the input that stand before its prediction."""
    return {} if config.only_predictions else row.get("columns", {})


def _check_in_use(config: PredictConfig) -> None:
    """Refuse options of another use than the one asked for."""
    uses = ((config.features, "--features", ("layers", "pooling")), (config.task, "a TASK", ("data_dir", "split")))
    for given, use, names in uses:
        for name in names:
            if not given and getattr(config, name) != getattr(PredictConfig, name):
                raise UserError(f"--{name.replace('_', '-')} needs {use}.", "Leave it out, or give both.")


def _kind(model: str, form: str) -> Kind:
    """The kind of a model. Raises UserError if it does not take the form of input."""
    from bertcli.models.loading import open_config

    saved = open_config(model)
    kind = kind_of_model(saved)
    if kind is None or form not in kind.inputs:
        needs = kind.needs if kind else "fine-tuning first"
        what = f"The model `{model}` ({', '.join(saved.architectures or [])}) needs {needs}."
        raise UserError(what, "Give such an input, or another --model.")
    return kind


def _predictions(
    model: TaskModel, rows: Iterator[InputRow], file: str | None, watched: bool
) -> Iterator[tuple[InputRow, Prediction]]:
    """Each row with its prediction, made a chunk at a time; of a watched file with the progress."""
    kind, cut = model.kind, 0

    def checked() -> Iterator[InputRow]:
        for row in rows:
            kind.check_input(row, model.tokenizer, model.longest, file)
            yield row

    total = count_rows(Path(str(file))) if watched and Path(str(file)).is_file() else None
    try:
        with Progress("predicting", total, "rows") if watched else nullcontext() as progress:
            for chunk in chunks_of(checked(), CHUNK_CHARACTERS, _weight):
                predictions, truncated = model.predict_rows(chunk)
                cut += truncated
                yield from zip(chunk, predictions, strict=True)
                if progress:
                    progress.advance(chunk[-1]["line"] - progress.done)
    finally:
        if cut:
            say(f"{cut:,} inputs were longer than the model takes and were cut")


def _weight(row: InputRow) -> int:
    return max(ROW_CHARACTERS, sum(len(str(value)) for key, value in row.items() if key != "columns"))


def _predict_split(config: PredictConfig, output: Path | None) -> Predictions:
    """Predict a split of a task; for SQuAD in the official form by default."""
    if looks_like_file(config.task):
        raise UserError(f"`{config.task}` is not a task.", f"To predict a file: bert predict --file {config.task}")
    if any(getattr(config, name) for name in OWN_INPUTS):
        what = f"{config.task} is a task, which has its own texts and gives predictions."
        raise UserError(what, f"Give it alone: bert predict {config.task} --split {config.split}")
    task = get_task(config.task)
    kind = KINDS[task.kind]
    model = resolve_model(config.model) if config.model else str(run_of_task(task.learnt_as or task.name).model)
    split = find_source(config.task, config.data_dir or saved_config(model).get("data_dir")).read(config.split)
    if config.dry_run:
        return Predictions(model, kind.name, 0)

    from bertcli.lifecycle.task_model import load_task_model

    predictions = load_task_model(task, model, config.precision).predict(split)
    if kind.official_file and config.output is None:
        output = Path(kind.official_file)
    return _written(Predictions(model, kind.name, len(predictions), None, predictions), task, output)


def _written(found: Predictions, task: Task, output: Path | None) -> Predictions:
    """Write the predictions of a split, if a file was asked for, in the official form if it is a .json."""
    kind, predictions = KINDS[task.kind], list(found.records)
    if output and output.suffix == ".json" and kind.official_file:
        write_official(kind.files(task, predictions), output)
        return replace(found, output=str(output), records=())
    for prediction in predictions:
        prediction.pop("answer_object", None)
    if not output:
        return found
    return replace(
        found, count=write_predictions((({}, each) for each in predictions), output), output=str(output), records=()
    )


def _features(config: PredictConfig, inputs: Inputs) -> Predictions:
    """The hidden states of texts or pairs, whatever the model was trained for."""
    if inputs.form in ("choices", "question") or config.output:
        hint = "Give --text or --file, and no --output."
        raise UserError("--features takes texts or pairs, and is itself the file to write.", hint)
    model = resolve_model(config.model) if config.model else model_for("features")
    if config.dry_run:
        return Predictions(model, "features", 0, config.features)

    from bertcli.lifecycle.features import write_hidden_states

    return Predictions(model, "features", write_hidden_states(model, inputs.rows, config), config.features)


def _with_remarks(inputs: Inputs, model: str, config: PredictConfig) -> Iterator[InputRow]:
    """The same rows; notes at the end how many differ from the training data or have an unfilled mask."""
    rows, pairs = inputs.rows, takes_pairs(saved_config(model))
    if pairs is not None:
        words = f"have {'no' if pairs else 'a'} second text, and {model} learnt from {'pairs' if pairs else 'one text'}"
        rows = counted(rows, lambda row: pairs != bool(row.get("text_pair", "").strip()), words, config.file)
    if inputs.form == "text" and not config.model:
        fill = f"fill them alone: bert predict --file FILE --model {SHIPPED}"
        words = f"have {MASK_TOKEN}, which is not filled, as the first has none ({fill})"
        rows = counted(rows, lambda row: MASK_TOKEN in row["text"], words, config.file)
    return rows
