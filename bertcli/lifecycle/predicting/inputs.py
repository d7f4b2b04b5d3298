"""What `bert predict` is given: a text, a pair, choices, a question, or the rows of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from shlex import quote
from typing import Any

from bertcli import say
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.conll import WORD_LISTS, has_columns_of_words, read_conll
from bertcli.data.labelled.examples import is_blank, text_examples
from bertcli.data.labelled.squad import is_whole, questions_of, read_squad
from bertcli.data.text import tables
from bertcli.data.text.columns import ROWS_LOOKED_AT, TEXT_NAMES, characters_in, named
from bertcli.data.text.files import TABLE_ENDINGS, ending_of, lines_of
from bertcli.data.text.tables import NumberedRow, check_file
from bertcli.errors import UserError, quoted, unknown
from bertcli.kinds import KINDS, own_tables
from bertcli.kinds.choice import CHOICE
from bertcli.kinds.mask import MASK_TOKEN
from bertcli.kinds.own_tables import choice_columns, spread_choices
from bertcli.lifecycle import workspace
from bertcli.lifecycle.workspace import Misfit, resolve_model, run_that_fits, saved_config, takes_pairs, task_runs
from bertcli.training.run_folder import RunFolder

ONE_TEXT = ("text", "text_pair", "question", "context")
InputRow = dict[str, Any]  # text, text_pair, choices, question, context; the line and the columns of a file


@dataclass(frozen=True)
class Inputs:
    """Rows to predict for, as they are asked for."""

    rows: Iterator[InputRow]
    form: str  # text, pair, mask, choices or question, by the first row
    misfit: Misfit | None = None  # why a run cannot take these rows, where their columns tell


def read_inputs(config: PredictConfig) -> Inputs:
    """The rows that options or a file give. Raises UserError if a file has no texts."""
    if config.file is not None:
        return _of_file(config.file, partial(_of_table, model=config.model))
    parts = {key: getattr(config, key) for key in ("text", "text_pair", "question", "context")}
    row: InputRow = {key: part for key, part in parts.items() if part is not None}
    row |= {"choices": config.choice} if config.choice else {}
    return Inputs(counted(iter([row]), _is_empty, "have no text", None), form_of_row(row))


def inputs_of(rows: Any) -> Inputs:
    """Texts, or rows with the same keys: text, text_pair, choices, question, context; or a DataFrame with such columns.

    What is missing (None, NaN) is an empty text. Raises UserError if the keys, or the numbers of choices, differ.
    """
    if hasattr(rows, "columns"):  # of a DataFrame, which as a sequence is the names of its columns
        rows = rows.to_dict("records")
    rows = [*rows] if isinstance(rows, Iterable) and not isinstance(rows, Mapping) else [rows]
    made = [_as_row(row) for row in rows]
    forms = {(*row, len(row.get("choices", ()))) for row in made}
    if len(forms) != 1 or not all(made) or not any(isinstance(row, str | Mapping) for row in rows):
        what = "The rows have different keys or numbers of choices, or no text." if rows else "There is no input."
        raise UserError(what, 'Give texts, or rows of the same keys: predict([{"text": "...", "text_pair": "..."}])')
    return Inputs(counted(iter(made), _is_empty, "have no text", None), form_of_row(made[0]))


def _as_row(given: Any) -> InputRow:
    """A text, or a mapping, as a row of texts; an empty one for what is neither."""
    if isinstance(given, str) or tables.as_text(given) == "":
        return {"text": tables.as_text(given)}
    if not isinstance(given, Mapping) or not {"text", "question"} & {*given}:
        return {}
    if {list, tuple, dict} & {*map(type, map(given.get, ONE_TEXT))}:  # several texts
        return {}
    choices = given.get("choices", ("", ""))
    if ("question" in given) > ("context" in given) or not (isinstance(choices, list | tuple) and choices[1:]):
        what = "A question has no context, or a row has no choices."
        hint = 'Give {"question": "...", "context": "..."} or {"text": "...", "choices": ["...", "..."]}.'
        raise UserError(what, hint)
    row = {name: tables.as_text(cell) if name in ONE_TEXT else cell for name, cell in sorted(given.items())}
    return {**row, "choices": [*map(tables.as_text, choices)]} if "choices" in given else row


def form_of_row(row: InputRow) -> str:
    """The form of an input: question, choices, pair, mask or text."""
    for key, form in {"question": "question", "choices": "choices", "text_pair": "pair"}.items():
        if key in row:
            return form
    return "mask" if MASK_TOKEN in row["text"] else "text"


def read_texts(name: str, column: str | None, model: str) -> Iterator[InputRow]:
    """The rows of a file with one text each: of the given column, else the one that the model's run learnt from, else by name.

    Raises UserError if there is no such column.
    """
    rows = _of_file(name, partial(_texts_of_table, column=column, learnt=saved_config(model).get("text"))).rows
    first = next(rows)
    if "text" not in first:
        raise UserError(f"`{name}` has questions, not texts.", "Give a file with a text on each line, or a table.")
    if column and column not in first["columns"]:
        raise unknown(f"column of {name}:", column, first["columns"])
    return chain([first], rows)


def _texts_of_table(
    path: Path, names: list[str], cells: Iterator[NumberedRow], column: str | None, learnt: str | None
) -> Inputs:
    if column and column not in names:
        raise unknown(f"column of {path}:", column, names)
    found = column or (learnt if learnt in names else None) or _columns_by_name(names).get("text")
    if found is None:
        what = f"The columns of `{path}` are {tables.columns_shown(names)}: which is the text?"
        longest = max(names, key=partial(characters_in, [row for _, row in islice(cells, ROWS_LOOKED_AT)]))
        raise UserError(what, f"Name it: --text-column {quote(longest)}")
    say(f"{tables.shown(path)}: text = `{found}`")
    rows = ({"text": _text_of(row.get(found)), "line": number, "columns": row} for number, row in cells)
    return Inputs(counted(rows, _is_empty, "have no text", str(path)), "text")


def _of_file(name: str, of_table: Callable[[Path, list[str], Iterator[NumberedRow]], Inputs]) -> Inputs:
    """The rows of a table, of JSON lines, or of a text file with one text per line."""
    path = Path(name)
    if name != "-":
        check_file(path, "Give --file a text, CSV, TSV, JSONL, Parquet or CoNLL file.")
    if _has_columns_of_words(path):
        return _of_words(path)
    if is_whole(path):
        if not (questions := [*_rows_of_squad(path)]):
            raise UserError(f"`{name}` has no questions.", "Give a file in the form of SQuAD that has some.")
        return Inputs(iter(questions), "question")
    if ending_of(path) in TABLE_ENDINGS:
        names, cells = tables.stream_table(path)
    else:
        lines = lines_of(path)
        first_line = next(lines, None)
        if first_line is None:
            raise UserError(f"{tables.shown(name)} is empty.", "Put one text on each line.")
        lines = chain([first_line], lines)
        if not isinstance(tables.json_value(first_line), dict):
            _check_is_text(name, first_line)
            texts = enumerate((line.rstrip("\r\n") for line in lines), start=1)
            rows = ({"text": text, "line": number, "columns": {"text": text}} for number, text in texts)
            return Inputs(counted(rows, _is_empty, "have no text", name), form_of_row({"text": first_line}))
        names, cells = tables.json_rows(path, lines)
    return of_table(path, names, cells)


def _has_columns_of_words(path: Path) -> bool:
    with suppress(UserError):  # of a line further on, which is named when it is read
        return has_columns_of_words(path)
    return False


def _of_words(path: Path) -> Inputs:
    """The sentences of a CoNLL file, with their words, and their tags if it has any, as columns."""
    read = read_conll(path, may_lack_tags=True)
    columns = [{"tokens": words} for words in read.words]
    if read.tags:
        columns = [{**each, "gold_tags": tags} for each, tags in zip(columns, read.tags, strict=True)]
    sentences = (
        {"text": " ".join(each["tokens"]), "line": line, "columns": each} for line, each in enumerate(columns, 1)
    )
    return Inputs(sentences, "text", partial(_misfit_of_words, path))


def _misfit_of_words(path: Path, run: RunFolder) -> str:
    return "" if KINDS[run.config["kind"]].reads_words else "does not tag words"


def _rows_of_squad(path: Path) -> Iterator[InputRow]:
    for number, (context, question) in enumerate(questions_of(read_squad(path)), start=1):
        columns = {"id": question["id"], "question": question["question"], "context": context}
        yield {"question": question["question"], "context": context, "line": number, "columns": columns}


def _check_is_text(name: str, first_line: str) -> None:
    """Raise UserError if the first line of a text is the header of a table; say so if it may be that of a column."""
    hint = "Give the table as a file that ends in .csv, .tsv or .jsonl, or texts without a header."
    shown = "Standard input" if name == "-" else f"`{name}`"
    for delimiter in tables.OTHER_DELIMITERS:
        names = [cell.strip().strip('"') for cell in first_line.split(delimiter)]
        if names[1:] and (named(TEXT_NAMES, names) or {run.config.get("text") for run in task_runs()} & {*names}):
            raise UserError(f"{shown} begins like a table: {first_line.strip()[:60]}", hint)
    if named(TEXT_NAMES, [first_line.strip()]):
        say(f"{shown}: line 1 is `{first_line.strip()}`, as a header would be; it is predicted like the other lines")


def _of_table(path: Path, names: list[str], cells: Iterator[NumberedRow], model: str | None) -> Inputs:
    """The rows of a table, with the columns of the model's run, of the latest run that fits, or by their names."""
    begin = next(cells)
    spread = spread_choices(path, names, (), begin[1])[0]
    runs = [] if model else task_runs()
    misfit = _misfit_beside(spread, runs)
    fitting = next((run.config for run in runs if not misfit(run)), {})
    learnt = saved_config(resolve_model(model)) if model else fitting
    if runs and not (learnt or _input_columns(spread, {})):
        run_that_fits(misfit, f"for `{path}`", "FILE")  # says why none does
    rows = _rows_of_table(path, names, begin, cells, learnt)
    first = next(rows)
    what, *_ = first
    return Inputs(counted(chain([first], rows), _is_empty, f"have no {what}", str(path)), form_of_row(first), misfit)


def _misfit_beside(names: list[str], runs: list[RunFolder]) -> Misfit:
    """Why a run does not take a table with these columns, or why another of `runs` does so better; "" if neither is so."""
    fits = [run for run in runs if not _misfit(names, run)]
    pairs = [run for run in fits if takes_pairs(run.config)] if "text_pair" in _input_columns(names, {}) else []
    is_named = any(run.config.get("text") in names for run in pairs or fits)

    def misfit(run: RunFolder) -> str:
        if is_named and run.config.get("text") not in names:
            return "was not trained on a column of it"
        return "does not read the second text" if pairs and not takes_pairs(run.config) else _misfit(names, run)

    return misfit


def _misfit(names: list[str], run: RunFolder) -> str:
    columns = _input_columns(names, run.config)
    wanted = [*columns.values()] or ["text"]
    wanted += ["text_pair"] if takes_pairs(run.config) and "text_pair" not in columns else []
    if lacking := [f"`{name}`" for name in wanted if name not in names]:
        others = _input_columns(names, {})
        is_enough = bool(others) and not _misfit_of_columns(others, run)
        named = " and ".join(f"`{name}`" for name in others.values())
        taken = f", but --model {quoted(run.path)} takes {named}" if is_enough else ""
        return f"needs the column{'s' * (len(lacking) > 1)} {' and '.join(lacking)}{taken}"
    return _misfit_of_columns(columns, run)


def _misfit_of_columns(columns: dict[str, str], run: RunFolder) -> str:
    return workspace.misfit_of_form(form_of_row({key.replace("choice0", "choices"): "" for key in columns}), run)


def _is_empty(row: InputRow) -> bool:
    return is_blank(str(row.get("text", row.get("question"))))


def counted(
    rows: Iterator[InputRow], is_odd: Callable[[InputRow], bool], words: str, file: str | None
) -> Iterator[InputRow]:
    """The same rows; notes at the end how many are odd, and the first such line."""
    total, count, first = 0, 0, 0
    for row in rows:
        total += 1
        if is_odd(row):
            count, first = count + 1, first or row.get("line", 0)
        yield row
    if count and file:
        where = f"the first is {tables.place_of(Path(file), first)}"
        say(f"{tables.shown(file)}: {count:,} of {total:,} rows {words}; {where}")
    elif count:
        say(f"{count:,} of {total:,} inputs {words}")


def _rows_of_table(
    path: Path, names: list[str], first: NumberedRow, rows: Iterator[NumberedRow], learnt: dict[str, Any]
) -> Iterator[InputRow]:
    """The columns of a table that are the input: those that a run was trained on, or by their names."""
    kept = [*[""] * ([*first[1]][:1] == [""]), *names]  # the index of pandas has no name
    rows, originals = tee(chain([first], rows))
    saved = learnt if learnt.get("text") in (None, *names) else {}
    if saved.get("kind", CHOICE.name) == CHOICE.name:
        names, rows = spread_choices(path, names, rows, first[1])
    columns = _input_columns(names, saved)
    if not columns or not set(columns.values()) <= set(names):
        raise _without_columns(path, names, learnt)
    say(f"{tables.shown(path)}: {', '.join(f'{key} = `{name}`' for key, name in columns.items())}")
    for (number, cells), (_, given) in zip(rows, originals, strict=False):
        row: InputRow = {key: _text_of(cells.get(name)) for key, name in columns.items()}
        if "choice0" in columns:
            examples = text_examples({key: [cell] for key, cell in row.items()}, "")
            row = {"text": examples.texts[0], "choices": (examples.choices or [])[0]}
        yield {**row, "line": number, "columns": {name: given.get(name) for name in kept}}


def _text_of(cell: Any) -> str:
    """A cell as text: a list of words with spaces between them, as a model for tags reads it."""
    is_words = isinstance(cell, list) and all(isinstance(word, str) for word in cell)
    return " ".join(cell) if is_words else tables.as_text(cell)


def _input_columns(names: list[str], saved: dict[str, Any]) -> dict[str, str]:
    """The columns that are the input: those that a run was trained on, or by their names."""
    asked = {"question": "question", "context": "context"}
    by_name = ("choices", *(["question"] if {*asked} <= {*names} else []))
    inputs = KINDS[saved["kind"]].inputs if saved.get("kind") else by_name
    if "question" in inputs:
        return asked
    if "choices" in inputs and (choices := choice_columns(names, saved.get("text"))):
        return choices
    columns = {key: saved[key] for key in ("text", "text_pair")} if saved.get("text") else _columns_by_name(names)
    if takes_pairs(saved) is False:
        columns.pop("text_pair", None)
    return {key: name for key, name in columns.items() if name}


def _columns_by_name(names: list[str]) -> dict[str, str | None]:
    alone = names[0] if len(names) == 1 and names[0].count(" ") < own_tables.MOST_SPACES else None  # and no text itself
    text = named((*TEXT_NAMES, *WORD_LISTS), names) or alone
    pair = named(own_tables.PAIR_NAMES, [name for name in names if name != text])
    return {"text": text, "text_pair": pair} if text else {}


def _without_columns(path: Path, names: list[str], learnt: dict[str, Any]) -> UserError:
    """What a table lacks of the columns that a run was trained on."""
    wanted = [learnt.get("text") or "text", *([learnt.get("text_pair") or "text_pair"] if takes_pairs(learnt) else [])]
    if learnt.get("kind") and "question" in KINDS[learnt["kind"]].inputs:
        wanted = ["question", "context"]
    lacking = " and no ".join(f"`{name}`" for name in wanted if name not in names)
    hint = f"Rename its columns, which are {tables.columns_shown(names)}; needed: {', '.join(wanted)}."
    if any(name.count(" ") >= own_tables.MOST_SPACES for name in names):
        hint = f"Put a header line before it, {' and '.join(wanted)} among them."
    return UserError(f"`{path}` has no column {lacking}.", hint)
