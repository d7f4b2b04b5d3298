"""Use a model: labels, values, answers and fills for texts."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from bertcli import number_of, say
from bertcli.config.recipes import SHIPPED
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.own_splits import looks_like_file
from bertcli.data.results import Result, Rows
from bertcli.data.text.coverage import Unknown
from bertcli.data.text.tables import chunks_of, count_rows
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Kind
from bertcli.kinds.mask import MASK, MASK_TOKEN
from bertcli.kinds.types import Prediction
from bertcli.lifecycle.baselining.description import method_of
from bertcli.lifecycle.predicting.files import beside_inputs, check_output, flat, write_official, write_predictions
from bertcli.lifecycle.predicting.inputs import InputRow, Inputs, counted, inputs_of, read_inputs
from bertcli.lifecycle.predicting.options import INPUTS, check_options
from bertcli.lifecycle.predictor import Predictor, check_engine, is_causal_model, kind_of, load_for_rows, load_for_task
from bertcli.lifecycle.sources import find_source
from bertcli.lifecycle.workspace import model_for, resolve_model, run_of_task, saved_config, takes_pairs
from bertcli.tasks import get_task
from bertcli.tasks.task import Task
from bertcli.training.progress import Progress

# Predicted at once, sorted by length: 2,048 rows, or fewer long ones.
CHUNK_CHARACTERS = 2**22
ROW_CHARACTERS = 2**11
OWN_INPUTS = (*INPUTS, "features", "explain", "compare")


@dataclass(frozen=True)
class Predictions(Result):
    """The predictions for each input, in input order; written to `output` if that was given."""

    model: str
    kind: str
    count: int
    output: str | None = None
    records: Iterable[Prediction] = ()

    @property
    def rows(self) -> Rows:
        """A row a prediction: `prediction`, `score`, `score_LABEL` and what else the kind gives."""
        return [flat(record) for record in self.records]

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {**vars(self), "records": list(self.records)}


def predict(config: PredictConfig | str | Sequence[str | dict[str, Any]] | None = None, **options: Any) -> Predictions:
    """Predict for a text, a pair, choices, a question with its context, a text with `[MASK]`, a file or a list of them.

    A list has texts, or rows with the keys `text`, `text_pair`, `choices`, `question`, `context`; so may a DataFrame have
    columns. Raises UserError if no input was given, or no model in this folder fits it.
    """
    if isinstance(config, Path) or (isinstance(config, str) and Path(config).suffix and os.path.isfile(config)):
        raise UserError(f"`{config}` is a file.", f'Name it as one: predict(file="{config}")')
    if isinstance(config, str):
        config, options = None, {"text": config, **options}
    if config is None or isinstance(config, PredictConfig):
        found = stream(PredictConfig.build(config, options))
    else:
        asked = PredictConfig.build(None, options)
        if given := [name for name in INPUTS if getattr(asked, name)]:
            raise UserError(f"Rows and `{given[0]}` do not go together.", "Give one of them.")
        found = _predict_inputs(asked, inputs_of(config), _checked_output(asked))
    records = list(found.records)
    return replace(found, count=found.count or len(records), records=records)


def stream(config: PredictConfig) -> Predictions:
    """As `predict`, but lazily: a wrong line of a file raises UserError after the predictions of the lines before it."""
    check_engine(config.engine)
    output = _checked_output(config)
    if config.task:
        return _predict_split(config, output)
    check_options(config)
    return _comparison(config) if config.compare else _predict_inputs(config, read_inputs(config), output)


def _checked_output(config: PredictConfig) -> Path | None:
    """The file for the predictions, if one is asked for. Raises UserError if a file that is asked for cannot be written."""
    output = Path(config.output) if config.output not in (None, "-") else None
    files = {"--output": output, "--features": config.features, "--explain-page": config.explain_page}
    for option, path in files.items():
        if path:
            check_output(option, Path(path), config.file)
    return output


def _predict_inputs(config: PredictConfig, inputs: Inputs, output: Path | None) -> Predictions:
    if config.features:
        return _features(config, inputs)
    if config.explain == "attention":
        return _attention(config, inputs)
    model = resolve_model(config.model) if config.model else model_for(inputs.form, inputs.misfit)
    kind = _kind(model, inputs.form, bool(config.explain))
    if "top_k" in config.given and inputs.form not in MASK.inputs:
        raise UserError(f"`{model}` fills no {MASK_TOKEN}, so --top-k has no effect.", "Leave it out.")
    if config.dry_run:
        return Predictions(model, kind.name, 0)

    is_watched = bool(config.file and (output or not sys.stdout.isatty()))  # on a terminal, results show the progress
    rows = _with_remarks(inputs, model, config)
    loaded = load_for_rows(model, kind, config.precision, config.top_k, bool(config.explain), config.engine)
    found = _predictions(loaded, rows, config.file, is_watched)
    if config.explain:
        from bertcli.lifecycle.predicting.attribution import explained

        found = explained(cast(Any, loaded), found, config.explain_page, config.model or model)
    beside = _with_columns(found, config)
    if output:
        return Predictions(model, kind.name, _write(beside, output, kind, config), config.output)
    return Predictions(model, kind.name, 0, None, beside_inputs(beside))


def _write(rows: Iterable[tuple[dict[str, Any], Prediction]], output: Path, kind: Kind, config: PredictConfig) -> int:
    """Write the predictions, answers to the questions of a file in the official form if it is a .json; return their number."""
    if not (output.suffix == ".json" and kind.official_file and config.file):
        return write_predictions(rows, output, config.file)
    answers = {str(columns.get("id", row)): each["answer"] for row, (columns, each) in enumerate(rows, start=1)}
    write_official({kind.official_file: json.dumps(answers, indent=4) + "\n"}, output)
    return len(answers)


def _with_columns(
    found: Iterator[tuple[InputRow, Prediction]], config: PredictConfig
) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Each prediction with the columns of its input, or with none where the output leaves them out."""
    leaves_out = config.only_predictions or not config.output
    return (({} if leaves_out else row.get("columns", {}), prediction) for row, prediction in found)


def _kind(model: str, form: str, is_explained: bool) -> Kind:
    """The kind of a model. Raises UserError if it does not take the form of input, or cannot be explained."""
    kind, made = kind_of(model)
    if kind is None and form == "mask" and is_causal_model(model):
        what = f"The model `{model}` predicts next tokens, so it cannot fill {MASK_TOKEN}."
        hint = f"Give one that was trained to: --model {SHIPPED}; or fine-tune this one: bert finetune TASK"
        raise UserError(what, hint)
    if kind is None:
        hint = f"Fine-tune it first: bert finetune FILE --from {shlex.quote(model)}; or give another --model."
        raise UserError(f"The model `{model}` ({made}) has not been fine-tuned.", hint)
    if form not in kind.inputs:
        raise UserError(f"The model `{model}` ({made}) needs {kind.needs}.", "Give such an input, or another --model.")
    if is_explained and (method := method_of(model)):
        what = f"`{model}` is a baseline ({method}), which --explain does not explain."
        raise UserError(what, "Leave --explain out, or give another --model.")
    if is_explained and not kind.evidence_unit:
        what = f"--explain needs a model that gives a label or a value, which `{model}` does not."
        raise UserError(what, "Give --explain attention, or another --model.")
    return kind


def _predictions(
    model: Predictor, rows: Iterator[InputRow], file: str | None, watched: bool
) -> Iterator[tuple[InputRow, Prediction]]:
    """Each row with its prediction, made a chunk at a time; of a watched file with the progress."""
    cut, unknown = 0, Unknown()

    def checked() -> Iterator[InputRow]:
        for row in rows:
            model.check_input(row, file)
            yield row

    size = path.stat().st_size if (path := Path(str(file))).is_file() else 0
    if bert := getattr(model, "model", None):  # not of a baseline; before the first batch, not between two
        config = bert.model.config
        import_module("bertcli.kernels").load(size * config.hidden_size * config.num_hidden_layers)  # roughly
    total = count_rows(path) if watched and size else None
    try:
        with Progress("predicting", total, "rows") if watched else nullcontext() as progress:
            for chunk in chunks_of(checked(), CHUNK_CHARACTERS, _weight):
                predictions, lost = model.predict_rows(chunk)
                cut, unknown = cut + lost.inputs, unknown + lost.unknown
                yield from zip(chunk, predictions, strict=True)
                if progress:
                    progress.advance(chunk[-1]["line"] - progress.done)
    finally:
        if cut:
            say(f"{number_of(cut, 'input')} {model.words_for_cut()}")
        if words := str(unknown):
            say(words)


def _weight(row: InputRow) -> int:
    return max(ROW_CHARACTERS, sum(len(str(value)) for key, value in row.items() if key != "columns"))


def _predict_split(config: PredictConfig, output: Path | None) -> Predictions:
    """Predict a split of a task; for SQuAD in the official form by default."""
    if looks_like_file(config.task) or " " in config.task:
        option = "file" if looks_like_file(config.task) else "text"
        hint = f"To predict a {option}: bert predict --{option} {shlex.quote(config.task)}"
        raise UserError(f"`{config.task}` is not a task.", hint)
    if any(getattr(config, name) for name in OWN_INPUTS):
        what = f"{config.task} is a task, which has its own texts and gives predictions."
        raise UserError(what, f"Give it alone: bert predict {config.task} --split {config.split}")
    check_options(config)
    task = get_task(config.task)
    kind = KINDS[task.kind]
    model = resolve_model(config.model) if config.model else str(run_of_task(task.learnt_as or task.name).model)
    split = find_source(config.task, config.data_dir or saved_config(model).get("data_dir")).read(config.split)
    if config.dry_run:
        return Predictions(model, kind.name, 0)

    predictions = load_for_task(task, model, config.precision, config.engine).predict(split)
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
    count = write_predictions((({}, each) for each in predictions), output)
    return replace(found, count=count, output=str(output), records=())


def _features(config: PredictConfig, inputs: Inputs) -> Predictions:
    """The hidden states of texts or pairs, whatever the model was trained for."""
    if inputs.form in ("choices", "question") or config.output:
        hint = "Give --text or --file, and no --output."
        raise UserError("--features takes texts or pairs, and is itself the file to write.", hint)
    model = _any_model(config)
    if config.dry_run:
        return Predictions(model, "features", 0, config.features)

    from bertcli.lifecycle.predicting.features import write_hidden_states

    return Predictions(model, "features", write_hidden_states(model, inputs.rows, config), config.features)


def _attention(config: PredictConfig, inputs: Inputs) -> Predictions:
    """Where each head of each layer attends in a text or a pair, as a page."""
    model = _any_model(config)
    if config.dry_run:
        return Predictions(model, "attention", 0)

    from bertcli.lifecycle.predicting.attention import write_attention

    path = Path(config.explain_page or "attention.html")
    found = write_attention(model, next(inputs.rows), path, config.model or model)
    return Predictions(model, "attention", 1, None, [found])


def _comparison(config: PredictConfig) -> Predictions:
    """The vectors of a word in several texts, layer by layer."""
    model = _any_model(config)
    if config.dry_run:
        return Predictions(model, "comparison", 0)

    from bertcli.lifecycle.predicting.word_vectors import compare

    return Predictions(model, "comparison", 1, None, [compare(model, config.compare, str(config.word))])


def _any_model(config: PredictConfig) -> str:
    """The model whose hidden states are read, of any kind."""
    return resolve_model(config.model) if config.model else model_for("features")


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
