"""Use a model: labels, values, answers and fills for texts."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.official_files import text_examples
from bertcli.data.labelled.own_splits import TAG_ENDINGS, looks_like_file
from bertcli.data.labelled.tables import (
    TABLE_ENDINGS,
    Row,
    as_text,
    check_file,
    chunks_of,
    count_rows,
    ending_of,
    json_rows,
    json_value,
    place_of,
    stream_rows,
)
from bertcli.data.packing.mask_features import MASK
from bertcli.data.shipped import SHIPPED, shipped_model
from bertcli.data.text.documents import lines_of
from bertcli.errors import UserError
from bertcli.kinds.architecture import kind_of
from bertcli.lifecycle.features import write_hidden_states
from bertcli.lifecycle.own_files import MOST_SPACES, PAIR_NAMES, TEXT_NAMES, choice_columns, named, spread_choices
from bertcli.lifecycle.prediction_files import check_output, write_answers, write_records
from bertcli.lifecycle.predictor import Predictor
from bertcli.lifecycle.scoring import Record, load_scorer
from bertcli.lifecycle.sources import find_source, read_split
from bertcli.models.loading import open_config
from bertcli.tasks import get_task, is_task
from bertcli.training.progress import Progress
from bertcli.training.run_folder import RunFolder, find_runs, newest_run, resolve_model, saved_config

# What is predicted at once, sorted by length: 2,048 rows, or fewer long ones.
CHUNK_CHARACTERS = 2**22
ROW_CHARACTERS = 2**11
# What is given, the kinds of models that take it, and what makes one.
FITS = {
    "text": (("classify", "regress", "multilabel", "tag"), "bert finetune glue/sst2"),
    "pair": (("classify", "regress", "multilabel"), "bert finetune glue/mnli"),
    "choices": (("choose",), "bert finetune swag"),
    "question": (("span",), "bert finetune squad"),
    "features": ((), "bert pretrain"),
    "mask": (("fill", "classify", "regress", "multilabel", "tag"), "bert pretrain"),
}
NEEDS = {
    "": "fine-tuning first",
    "tag": "one text",
    "choose": "a text with choices",
    "span": "a question with its context",
    "fill": f"a text with {MASK} in it (so spelled for every model), and no second one",
}


@dataclass(frozen=True)
class Predictions:
    """What a model says of each input, in input order; a file's predictions are in `output` when one was given."""

    model: str
    kind: str
    count: int
    output: str | None = None
    records: Iterable[Record] = ()

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {**vars(self), "records": list(self.records)}


def predict(config: PredictConfig | str | None = None, **options: Any) -> Predictions:
    """Predict for one text, a pair, a question with its context, a text with `[MASK]`, or a file of them.

    Raises:
        UserError: if nothing was given to predict for, or no model here fits it.
    """
    if isinstance(config, str):
        config, options = None, {"text": config, **options}
    found = stream(PredictConfig.build(config, options))
    records = list(found.records)
    return replace(found, count=found.count or len(records), records=records)


def stream(config: PredictConfig) -> Predictions:
    """As `predict`, but the records are made as they are asked for: there may be more of them than memory holds.

    Raises:
        UserError: as `predict`; where a line of a file is wrong, after the records of those before it.
    """
    output = Path(config.output) if config.output not in (None, "-") else None
    for option, path in (("--output", output), ("--features", config.features)):
        if path:
            check_output(option, Path(path), config.file)
    _check_in_use(config)
    if config.task:
        return _predict_split(config, output)
    rows, wanted, run = _inputs(config)
    if run and not config.model and wanted != "mask":
        say(f"model: {run.path} (the newest run with a column `{run.config['text']}`)")
        config = replace(config, model=str(run.path))
    if config.features:
        return _features(config, rows, wanted)
    model = _model(config, wanted)
    kind = _kind(model, wanted)
    if config.dry_run:
        return Predictions(model, kind, 0)
    watched = bool(output or not sys.stdout.isatty())  # results on a terminal show themselves how far it is
    rows = _as_learnt(rows, wanted, model, config)
    records = _records(Predictor.load(model, kind, config), rows, config.file if watched else None)
    if output:
        return Predictions(model, kind, write_records(records, output), config.output)
    return Predictions(model, kind, 0, None, records)


def _check_in_use(config: PredictConfig) -> None:
    """Refuse options of another use than the one asked for."""
    for given, of, names in (
        (config.features, "--features", ("layers", "pooling")),
        (config.task, "a TASK", ("data_dir", "split")),
    ):
        for name in names:
            if not given and getattr(config, name) != getattr(PredictConfig, name):
                raise UserError(f"--{name.replace('_', '-')} goes with {of} alone.", "Leave it out, or give both.")


def _records(predictor: Predictor, rows: Iterator[Record], watched: str | None) -> Iterator[Record]:
    """The records of all rows, made a chunk at a time; of a watched file with the progress."""
    total = count_rows(Path(watched)) if watched and Path(watched).is_file() else None
    try:
        with Progress("predicting", total, "rows") if watched else nullcontext() as progress:
            for chunk in chunks_of(rows, CHUNK_CHARACTERS, _weight):
                yield from predictor(chunk)
                if progress:
                    progress.advance(chunk[-1]["line"] - progress.done)
    finally:
        if predictor.cut:
            say(f"{predictor.cut:,} inputs were longer than the model takes and were cut")


def _weight(row: Record) -> int:
    return max(ROW_CHARACTERS, sum(len(str(value)) for value in row.values()))


def _predict_split(config: PredictConfig, output: Path | None) -> Predictions:
    """Predict a split of a task; of questions the official files, unless another form is asked for."""
    if looks_like_file(config.task):
        raise UserError(f"`{config.task}` is not a task.", f"To predict a file: bert predict --file {config.task}")
    if any(
        getattr(config, name) for name in ("text", "text_pair", "choice", "question", "context", "file", "features")
    ):
        raise UserError(
            f"{config.task} is a task, which has its own texts and gives predictions.",
            f"Give it alone: bert predict {config.task} --split {config.split}",
        )
    task = get_task(config.task)
    model = resolve_model(config.model) if config.model else str(newest_run(task.learnt_as or task.name).model)
    data_dir = config.data_dir or saved_config(model).get("data_dir")
    read = read_split(find_source(config.task, data_dir, {}), config.split)
    if task.kind == "span" and config.output is None:
        output = Path("predictions.json")
    if config.dry_run:
        return Predictions(model, task.kind, 0)
    records = load_scorer(task, model, config.precision).predict(read)
    if output and output.suffix == ".json" and task.kind == "span":
        return Predictions(model, task.kind, write_answers(task, records, output), str(output))
    for record in records:
        record.pop("answer_object", None)
    if output:
        return Predictions(model, task.kind, write_records(records, output), str(output))
    return Predictions(model, task.kind, len(records), None, records)


def _features(config: PredictConfig, rows: Iterator[Record], given: str) -> Predictions:
    """The hidden states of texts or pairs, whatever the model was trained for."""
    if given in ("choices", "question") or config.output:
        raise UserError(
            "--features takes texts or pairs, and is itself the file to write.",
            "Give --text or --file, and no --output.",
        )
    model = _model(config, "features")
    count = 0 if config.dry_run else write_hidden_states(model, rows, config)
    return Predictions(model, "features", count, config.features)


def _inputs(config: PredictConfig) -> tuple[Iterator[Record], str, RunFolder | None]:
    """The inputs as rows, the kind of model that they want, and the run whose columns a table has."""
    given = [name for name in ("text", "question", "file") if getattr(config, name) is not None]
    if len(given) != 1:
        what = "Nothing to predict for." if not given else f"--{given[0]} and --{given[1]} do not go together."
        raise UserError(what, 'Give one: --text "..." or --question "..." --context "..." or --file FILE')
    if config.text_pair is not None and config.text is None:
        raise UserError(f"--text-pair does not go with --{given[0]}.", 'Give both: --text "..." --text-pair "..."')
    if config.choice and (config.text is None or config.text_pair is not None or len(config.choice) < 2):
        raise UserError(
            "--choice goes with --text alone, and there are two at least.",
            'Give all: --text "..." --choice "..." --choice "..."',
        )
    if (config.question is None) != (config.context is None):
        raise UserError(
            "A question needs its context, and a context a question.", 'Give both: --question "..." --context "..."'
        )
    if config.file is not None:
        return _file_rows(config, config.file)
    parts = {key: getattr(config, key) for key in ("text", "text_pair", "question", "context")}
    row: Record = {key: part for key, part in parts.items() if part is not None}
    row |= {"choices": config.choice} if config.choice else {}
    return iter([row]), _form(row), None


def _form(row: Record) -> str:
    """What is given: a question, choices, a pair, a text with a mask or without."""
    for key, form in {"question": "question", "choices": "choices", "text_pair": "pair"}.items():
        if key in row:
            return form
    return "mask" if MASK in row["text"] else "text"


def _file_rows(config: PredictConfig, name: str) -> tuple[Iterator[Record], str, RunFolder | None]:
    """The rows of a file; one that is not called a table has a text a line, unless its first line is a JSON object."""
    path = Path(name)
    if ending_of(path) in TAG_ENDINGS:
        hint = f"Put a sentence on each line of a text file; or score the tags: bert evaluate {name}"
        raise UserError(f"`{name}` has words with tags in columns.", hint)
    if name != "-":
        check_file(path, "Give --file a text, CSV, TSV, JSONL or Parquet file; - is standard input.")
    if ending_of(path) == ".json" and '"paragraphs"' in "".join(islice(lines_of(path), 9)):
        hint = 'To predict SQuAD: bert predict squad; or write lines such as {"question": "...", "context": "..."}.'
        raise UserError(f"`{name}` is in the form of SQuAD.", hint)
    if ending_of(path) in TABLE_ENDINGS:
        names, cells = stream_rows(path)
    else:
        lines = lines_of(path)
        first_line = next(lines, None)
        if first_line is None:
            raise UserError(f"`{name}` holds nothing to predict for.", "Put one text on each line.")
        lines = chain([first_line], lines)
        if not isinstance(json_value(first_line), dict):
            texts = ({"text": line.rstrip("\r\n"), "line": number} for number, line in enumerate(lines, start=1))
            return _counted(texts, _is_empty, "have no text", name), _form({"text": first_line}), None
        names, cells = json_rows(path, lines)
    begin = next(cells)
    run = None if config.model else _newest_of(spread_choices(path, names, (), begin[1])[0])
    learnt = saved_config(resolve_model(config.model)) if config.model else run.config if run else {}
    rows = _table_rows(path, names, begin, cells, learnt)
    first = next(rows)
    what, *_ = first
    return _counted(chain([first], rows), _is_empty, f"have no {what}", name), _form(first), run


def _is_empty(row: Record) -> bool:
    what, *_ = row
    return not row[what].strip()


def _counted(rows: Iterator[Record], odd: Callable[[Record], bool], words: str, file: str | None) -> Iterator[Record]:
    """The same rows; how many are odd, and the first of a file's, is said at the end."""
    count, first = 0, 0
    for row in rows:
        if odd(row):
            count, first = count + 1, first or row.get("line", 0)
        yield row
    if count:
        say(
            f"{file}: {count:,} rows {words}; the first is {place_of(Path(file), first)}"
            if file
            else f"{count:,} inputs {words}"
        )


def _as_learnt(rows: Iterator[Record], wanted: str, model: str, config: PredictConfig) -> Iterator[Record]:
    """The same rows; those that are not as the model learnt them, or have a mask that is not filled, are said."""
    pairs = _of_pairs(saved_config(model))
    if pairs is not None:
        words = f"have {'no' if pairs else 'a'} second text, and {model} learnt from {'pairs' if pairs else 'one text'}"
        rows = _counted(rows, lambda row: pairs != bool(row.get("text_pair", "").strip()), words, config.file)
    if wanted == "text" and not config.model:
        fill = f"fill them alone: bert predict --file FILE --model {SHIPPED}"
        words = f"have {MASK}, which is not filled, as the first has none ({fill})"
        rows = _counted(rows, lambda row: MASK in row["text"], words, config.file)
    return rows


def _of_pairs(saved: Record) -> bool | None:
    """Whether a run learnt from pairs; None where nothing is known of it, or its kind has none."""
    if saved.get("kind") not in FITS["pair"][0]:
        return None
    return "text_pair" in get_task(saved["task"]).files.columns if is_task(saved["task"]) else bool(saved["text_pair"])


def _newest_of(names: list[str]) -> RunFolder | None:
    """The newest run that was fine-tuned on columns that a table has, choices among them where it has some."""
    for run in find_runs("finetune", finished=True):
        text, pair, kind = (run.config.get(key) for key in ("text", "text_pair", "kind"))
        kinds, _ = FITS["choices" if choice_columns(names, text) else "text"]
        if kind in kinds and text in names and pair in (None, *names):
            return run
    return None


def _table_rows(path: Path, names: list[str], first: Row, rows: Iterator[Row], learnt: Record) -> Iterator[Record]:
    """The columns of a table that are the input: those that a run learnt from, or by their names."""
    rows = chain([first], rows)
    saved = learnt if learnt.get("text") in names else {}
    if may_choose := saved.get("kind", "choose") == "choose":
        names, rows = spread_choices(path, names, rows, first[1])
    alone = names[0] if len(names) == 1 and names[0].count(" ") < MOST_SPACES else None  # and no text itself
    text = saved.get("text") or named(TEXT_NAMES, names) or alone
    pair = saved.get("text_pair") if saved else named(PAIR_NAMES, [name for name in names if name != text])
    choices = choice_columns(names, saved.get("text")) if may_choose else {}
    columns = choices or {key: name for key, name in (("text", text), ("text_pair", pair)) if text and name}
    if {"question", "context"} <= set(names) and not saved:
        columns = {"question": "question", "context": "context"}
    if not columns or not set(columns.values()) <= set(names):
        raise _without_columns(path, names, learnt)
    say(f"{path}: {', '.join(f'{key} = `{name}`' for key, name in columns.items())}")
    for number, cells in rows:
        row: Record = {key: as_text(cells.get(name)) for key, name in columns.items()}
        if choices:
            examples = text_examples({key: [cell] for key, cell in row.items()}, "")
            row = {"text": examples.texts[0], "choices": (examples.choices or [])[0]}
        yield {**row, "line": number}


def _without_columns(path: Path, names: list[str], learnt: Record) -> UserError:
    """What a table lacks of the columns that a run learnt from."""
    wanted = [learnt.get("text") or "text", *([learnt.get("text_pair") or "text_pair"] if _of_pairs(learnt) else [])]
    lacking = " and no ".join(f"`{name}`" for name in wanted if name not in names)
    hint = f"Rename its columns, which are {', '.join(names)}; needed: {', '.join(wanted)}."
    if any(name.count(" ") >= MOST_SPACES for name in names):
        hint = f"Put a line of names before it, {' and '.join(wanted)} among them."
    return UserError(f"`{path}` has no column {lacking}.", hint)


def _model(config: PredictConfig, wanted: str) -> str:
    """The model as given, else that of the newest run that fits the input; of masks and features, else the one that ships."""
    if config.model:
        return resolve_model(config.model)
    kinds, make = FITS[wanted]
    is_pretraining = wanted in ("mask", "features")
    runs = find_runs("pretrain" if is_pretraining else "finetune", finished=True)
    runs = [run for run in runs if is_pretraining or run.config.get("kind") in kinds]
    runs.sort(
        key=lambda run: _of_pairs(run.config) is (wanted != "pair")
    )  # those of the other number of texts come last
    if not runs and is_pretraining:
        say(f"model: {SHIPPED}, the small one that ships, as no run here is pre-trained; --model names another")
        return shipped_model()
    if not runs:
        raise UserError("There is no run here that fits this input.", f"Make one: {make}; or name a --model.")
    say(f"model: {runs[0].path} (the newest run that fits)")
    return str(runs[0].model)


def _kind(model: str, wanted: str) -> str:
    config = open_config(model)
    kind = kind_of(config)
    if kind not in FITS[wanted][0]:
        raise UserError(
            f"The model `{model}` ({', '.join(config.architectures or [])}) needs {NEEDS.get(kind, 'a text')}.",
            "Give it that, or name another --model.",
        )
    return kind
