"""A task made from the user's own files: form, columns, kind and labels inferred, and said."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.data.labelled.conll import DOCUMENT, LIST_ENDINGS, Sentences, list_columns, read_sentences
from bertcli.data.labelled.official_files import TextExamples, text_examples
from bertcli.data.labelled.own_labels import CLASS_NAMES, WITH_LABELS, kind_of_labels, missing_labels, spelled
from bertcli.data.labelled.own_splits import (
    SPLIT_NAMES,
    TAG_ENDINGS,
    Part,
    cut_dev,
    listed,
    own_files,
    say_overlap,
    split_of,
)
from bertcli.data.labelled.squad import questions_of, read_squad
from bertcli.data.labelled.tables import Read, Row, Rows, are_numbers, ending_of, json_value, place_of, read_rows
from bertcli.data.packing.text_features import split_labels
from bertcli.data.text.documents import read_text
from bertcli.errors import UserError, unknown
from bertcli.tasks.task import Files, Task

LABEL_NAMES = (*CLASS_NAMES, "target", "sentiment", "score", "stars", "rating", "y")
TEXT_NAMES = (
    "text",
    "sentence1",
    "premise",
    "question1",
    "question",
    "sentence",
    "review",
    "comment",
    "content",
    "title",
    "body",
)
PAIR_NAMES = ("text_pair", "sentence2", "hypothesis", "question2", "answer", "sentence")
CONTEXT_NAMES = ("sent1", "context", "ctx", "prompt", "startphrase", *TEXT_NAMES)  # what choices may follow
CHOICE_LISTS = ("choices", "endings", "options")
CHOICE_NAME = re.compile(r"(ending|choice|option)[ _]?(\d+|[a-h])", re.IGNORECASE)
METRICS = {
    "classify": ("accuracy", "macro_f1"),
    "regress": ("spearmanr", "pearson"),
    "choose": ("accuracy",),
    "multilabel": ("micro_f1", "macro_f1", "subset_accuracy"),
    "tag": ("f1", "precision", "recall"),
    "span": ("f1", "exact_match"),
}
MOST_SPACES = 3  # in the name of a column
YES_OR_NO = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}
TAG = re.compile(r"O|[BIESLUM](-.+)?")


def own_task(
    name: str, columns: dict[str, str | None], kind: str | None, seed: int = 0, scored: str = "", learnt: bool = False
) -> tuple[Task, dict[str, Part]]:
    """Make a task from files, and its splits; `columns` holds what the user said of text, text_pair and label.

    To train, every split is read, and a dev set is cut off where there is none. To be `scored`, that split alone is;
    a file whose name is of no split is it whole, unless the model has `learnt` from it: then as it was cut, without test.

    Raises:
        UserError: naming the file and the line, or the column, that is wrong.
    """
    files, cut = _chosen(name, own_files(name), scored, learnt, kind)
    form = _form(next(iter(files.values()))[0], kind)
    if form == "table":
        task, parts = _tables(name, files, columns, kind)
    elif any(columns.values()):
        raise UserError(f"`{name}` has no columns to choose.", "Leave --text, --text-pair and --label out.")
    else:
        task, parts = _questions(name, files) if form == "span" else _tags(name, files)
    if not scored and task.names_outputs and len(task.labels) < 2:
        hint = "Give the column with --label, or add examples." if form == "table" else "Add examples with others."
        raise UserError(f"`{name}` has only the label `{''.join(task.labels)}`.", hint)
    if cut:
        train = parts["train"]
        labels = train.labels if isinstance(train, TextExamples) and task.kind == "classify" else None
        parts |= cut_dev(name, train, labels, seed)
    if not scored:
        say_overlap(task, parts)
    return task, parts


def _chosen(
    name: str, files: dict[str, list[Path]], scored: str, learnt: bool, kind: str | None
) -> tuple[dict[str, list[Path]], bool]:
    """The files to read, what is scored or learnt first, and whether a dev set is to be cut off.

    One split alone may not show whether its choices count from 0 or from 1.
    """
    if scored and scored not in SPLIT_NAMES.values():
        raise unknown("split", scored, {*SPLIT_NAMES.values()})
    if "" in files and scored and not learnt:
        if split_of(files[""][0]) not in ("", scored):
            say(f"{name}: scored whole, as {scored}, whatever its name says")
        return {scored: files[""]}, False
    files = {"train": files[""]} if "" in files else files
    cut = "dev" not in files and "train" in files and scored in ("", "train", "dev")
    first = "train" if cut or not scored else scored
    if first not in files:
        other = "dev" if "train" in files else min(files)  # a dev set can be cut off the training data
        hint = f"Choose another: --split {other}" if scored else "Name the file to learn from train.csv."
        raise UserError(f"`{name}` has no {first} file, only {', '.join(files)}.", hint)
    return {first: files[first], **({} if scored and kind != "choose" else files)}, cut


def _form(path: Path, kind: str | None) -> str:
    """How a file is read: as SQuAD's JSON (span), as words with their tags (tag), or as a table."""
    if kind is not None:
        return kind if kind in ("span", "tag") else "table"
    ending = ending_of(path)
    whole = json_value(read_text(path)) if ending == ".json" else None
    if isinstance(whole, dict) and isinstance(whole.get("data"), list):
        return "span"
    if ending in LIST_ENDINGS and list_columns(read_rows(path)):
        return "tag"
    is_tagged = ending in TAG_ENDINGS or (ending in (".txt", ".tsv") and _is_tagged(read_text(path)))
    return "tag" if is_tagged else "table"


def _is_tagged(text: str) -> bool:
    """Whether every line ends with a tag; but for the first, a header, where blank lines part the others."""
    lines = [line.split() for line in text[:100_000].strip().split("\n")[:1000] if DOCUMENT not in line]
    tagged = [not fields or (len(fields) > 1 and bool(TAG.fullmatch(fields[-1]))) for fields in lines]
    full = sum(map(bool, lines))
    return full > 0 and all(tagged[1:-1] or tagged) and (tagged[0] or (full > 2 and [] in lines))


def _questions(name: str, files: dict[str, list[Path]]) -> tuple[Task, dict[str, Part]]:
    """Questions in SQuAD's form: a part is articles of one paragraph, so that no context stands in two parts."""
    parts = {
        split: [{"paragraphs": [p]} for path in paths for article in read_squad(path) for p in article["paragraphs"]]
        for split, paths in files.items()
    }
    asked = [(split, question) for split, part in parts.items() for _, question in questions_of(part)]
    for (split, id_), count in Counter((split, str(question["id"])) for split, question in asked).most_common(1):
        if count > 1:
            raise UserError(f"`{name}` has two {split} questions with the id `{id_}`.", "Give each its own id.")
    without = sum(
        bool(question.get("is_impossible")) or (split == "dev" and not question["answers"]) for split, question in asked
    )
    say(f"{name}: {_sizes(parts)} contexts, {len(asked):,} questions, {without:,} without an answer; kind: span")
    task = Task(name, "span", Files({}, {}), ("", None), METRICS["span"], max_seq_length=384)
    return replace(task, with_impossible=without > 0), dict(parts)


def _tags(name: str, files: dict[str, list[Path]]) -> tuple[Task, dict[str, Part]]:
    """Words with their tags, in columns."""
    parts = {split: _sentences(paths) for split, paths in files.items()}
    tags = sorted({tag for part in parts.values() for sentence in part.tags or () for tag in sentence})
    for tag in tags:
        if not TAG.fullmatch(tag):
            place = next(p.place(row) for p in parts.values() for row, own in enumerate(p.tags or ()) if tag in own)
            raise UserError(
                f"{place}: the sentence has the tag `{tag}`, which is not of an entity.",
                "Tags are O, B-TYPE, I-TYPE, E-TYPE, S-TYPE.",
            )
    if are_numbers(chain.from_iterable(next(iter(parts.values())).words)):
        what = f"Every word of `{name}` is a number: its first column numbers the words."
        raise UserError(what, f"Leave that column out: cut -f2- {name} > words.conll")
    lists = ending_of(next(iter(files.values()))[0]) in LIST_ENDINGS
    where = "lists of words and tags" if lists else "the first column is the word, the last the tag"
    say(f"{name}: {_sizes(parts)} sentences; {where}; kind: tag, {len(tags)} tags{listed(tags)}")
    return Task(name, "tag", Files({}, {}), ("", None), METRICS["tag"], tuple(tags)), dict(parts)


def _sentences(paths: list[Path]) -> Sentences:
    read = [read_sentences(path) for path in paths]
    words, tags, places = (
        list(chain.from_iterable(getattr(sentences, name) or () for sentences in read))
        for name in ("words", "tags", "places")
    )
    return Sentences(words, tags, origin=", ".join(map(str, paths)), places=places)


def _sizes(parts: Mapping[str, Part]) -> str:
    return ", ".join(f"{split} {len(part):,}" for split, part in parts.items())


def _tables(
    name: str, files: dict[str, list[Path]], given: dict[str, str | None], kind: str | None
) -> tuple[Task, dict[str, Part]]:
    """Rows with columns of text and labels; a test file may be without labels."""
    tables = {split: [read_rows(path) for path in paths] for split, paths in files.items()}
    if label := given.get("label"):
        tables = {split: [_joined(rows, label) for rows in read] for split, read in tables.items()}
    first, *_ = next(iter(tables.values()))
    if kind in (None, "choose") and len(first.names) > 2:  # a text, its choices and a label
        tables = {split: [_spread(first, rows) for rows in read] for split, read in tables.items()}
        first, *_ = next(iter(tables.values()))
    kind, found = _columns(first, given, kind)
    parts = {split: _texts(split, rows, found) for split, rows in tables.items()}
    missing = missing_labels(_labels(parts), kind)
    for split, part in parts.items():
        labels = part.labels and ["" if label.lower() in missing else label for label in part.labels]
        parts[split] = replace(part, labels=labels)
    if spelled(found["label"]) in _labels(parts) and " " in found["text"]:
        what = f"`{first.path}` line 1 looks like an example, not like the names of columns."
        raise UserError(what, "Put a line of names before it: text,label")
    kind, why = (kind, "") if kind else kind_of_labels(_labels(parts), found["label"])
    sizes = _sizes(parts)
    parts = {split: _complete(part, kind) for split, part in parts.items()}
    task = Task(name, kind, Files({}, dict(found)), ("", None), METRICS[kind])
    task = WITH_LABELS[kind](task, _labels(parts))
    shown = ", ".join(f"{key} = `{column}`" for key, column in found.items())
    all_labels = f", {len(task.labels)} labels{listed(task.labels)}"
    what = {"regress": "", "choose": f", one of {len(task.labels)}"}.get(kind, all_labels)
    say(f"{name}: {sizes} rows; {shown}; kind: {kind}{what}{why}")
    if are_numbers(next(iter(parts.values())).texts):
        say(f"{name}: every `{found['text']}` is a number; if it is not the text, give --text COLUMN")
    return task, dict(parts)


def _labels(parts: dict[str, TextExamples]) -> list[str]:
    return [label for part in parts.values() for label in part.labels or () if label]


def _joined(rows: Rows, label: str) -> Rows:
    """The table with a column of lists in place of several of 0 and 1: `--label toxic,insult`."""
    columns = [name.strip() for name in label.split(",")]
    if label in rows.names or not set(columns) & set(rows.names):
        return rows
    marks = [[YES_OR_NO.get(cell.strip().lower()) for cell in rows.column(name)] for name in columns]
    if missing := sum(not cell.strip() for name in columns for cell in rows.column(name)):
        say(f"{rows.path}: {missing:,} empty cells in {label} are taken for 0")
    cells = []
    for row, own in enumerate(zip(*marks, strict=True)):
        if None in own:
            name = columns[own.index(None)]
            what = f"{rows.place(row)} has `{rows.cells[row].get(name)}` in the column `{name}`."
            raise UserError(what, "Mark a label with 1, others with 0.")
        cells.append(rows.cells[row] | {label: [name for name, mark in zip(columns, own, strict=True) if mark]})
    return replace(rows, names=[*(name for name in rows.names if name not in columns), label], cells=cells)


def _spread(first: Rows, rows: Rows) -> Rows:
    names, spread = spread_choices(rows.path, rows.names, zip(rows.numbers, rows.cells, strict=True), first.cells[0])
    return replace(rows, names=names, cells=[cells for _, cells in spread])


def spread_choices(path: Path, names: list[str], rows: Iterable[Row], first: Mapping[str, Any]) -> Read:
    """The columns choice0, choice1 ... in place of one that lists choices, if the first row of all has one.

    Raises:
        UserError: where a row has another number of them.
    """
    column = named(CHOICE_LISTS, names)
    if column is None or not isinstance(first.get(column), list):
        return names, iter(rows)
    choices = [f"choice{number}" for number in range(len(first[column]))]

    def spread() -> Iterator[Row]:
        for number, cells in rows:
            cell = cells.get(column)
            if not isinstance(cell, list) or len(cell) != len(choices):
                found = f"{len(cell)} choices" if isinstance(cell, list) else "no list of choices"
                what = f"{place_of(path, number)} has {found}, the first row {len(choices)}."
                raise UserError(what, "Give every row as many choices.")
            yield number, cells | dict(zip(choices, cell, strict=True))

    return [*(name for name in names if name != column), *choices], spread()


def _texts(split: str, tables: list[Rows], found: dict[str, str]) -> TextExamples:
    """The rows of a split, each label in one spelling; a test file may be without labels, or have -1 for all."""
    if split == "test" and not any(found["label"] in rows.names for rows in tables):
        found = {key: name for key, name in found.items() if key != "label"}
    for rows in tables:
        for number, cells in enumerate(rows.cells):
            if any(isinstance(cells.get(name), list | dict) for key, name in found.items() if key != "label"):
                raise UserError(f"{rows.place(number)} has a list where a text should be.", "Give one text a column.")
            if isinstance(cells.get(found.get("label", "")), dict):
                raise UserError(
                    f"{rows.place(number)} has an object where a label should be.", 'Give its name: {"label": "good"}'
                )
    read = {key: [cell for rows in tables for cell in rows.column(name)] for key, name in found.items()}
    labels = [spelled(label) for label in read.get("label", ())]
    examples = text_examples(read, ", ".join(str(rows.path) for rows in tables))
    unlabelled = split == "test" and set(labels) <= {"", "-1"}
    if unlabelled:
        say(f"{examples.origin}: without labels")
    places = [rows.place(row) for rows in tables for row in range(len(rows))]
    return replace(examples, labels=None if unlabelled else labels, places=places)


def _complete(part: TextExamples, kind: str) -> TextExamples:
    """The examples that have a text and a label; the others are counted and left out."""
    lacking = {
        "text": [row for row, text in enumerate(part.texts) if not text.strip()],
        "label": [row for row, label in enumerate(part.labels or ()) if not label],
    }
    if kind == "multilabel":
        del lacking["label"]
        if without := sum(not split_labels(cell, "", part.place(row)) for row, cell in enumerate(part.labels or ())):
            say(f"{part.origin}: {without:,} rows have no label, so none fits")
    for what, rows in lacking.items():
        if rows:
            left_out = f"{len(rows):,} of {len(part):,} rows have no {what} and are left out"
            say(f"{part.origin}: {left_out}; the first is {part.place(rows[0])}")
    if alone := sum(not pair.strip() for pair in part.pairs or ()):
        say(f"{part.origin}: {alone:,} of {len(part):,} rows have no second text")
    if gaps := sum(not all(choice.strip() for choice in choices) for choices in part.choices or ()):
        say(f"{part.origin}: {gaps:,} of {len(part):,} rows have an empty choice")
    out = set(chain.from_iterable(lacking.values()))
    kept = [row for row in range(len(part)) if row not in out]
    if not kept:
        what = f"`{part.origin}` holds no row with a text and a label."
        raise UserError(what, "Give the columns: --text COLUMN --label COLUMN")
    return part.take(kept)


def choice_columns(names: list[str], text: str | None = None) -> dict[str, str]:
    """The columns of a text and its choices, such as `ending0` or `choice_a`; none where there are not two of them.

    In SWAG's own form, `sent2` begins each choice.
    """
    choices = [name for name in names if CHOICE_NAME.fullmatch(name)]
    text = text or named(CONTEXT_NAMES, names)
    if len(choices) < 2 or text is None:
        return {}
    start = {"choice_start": "sent2"} if text == "sent1" and "sent2" in names else {}
    return {"text": text, **start, **{f"choice{number}": name for number, name in enumerate(choices)}}


def _columns(first: Rows, given: dict[str, str | None], kind: str | None) -> tuple[str | None, dict[str, str]]:
    """The kind, if the columns show it, and the column of each part of an example: as given, by its name, or left over."""
    names = first.names
    for column in given.values():
        if column is not None and column not in names:
            raise unknown(f"column of {first.path}:", column, names)
    choices = choice_columns(names, given.get("text")) if kind in (None, "choose") else {}
    shown = f"The columns of `{first.path}` are {', '.join(names)}"
    if kind == "choose" and not choices:
        raise UserError(
            f"{shown}: none are choice_0, choice_1 ... after a text.", "Rename them, or give the text: --text COLUMN"
        )
    if choices:
        kind, given = "choose", {**given, "text": choices["text"]}
        names = [column for column in names if not CHOICE_NAME.fullmatch(column)]
    text, pair, label = (given.get(key) for key in ("text", "text_pair", "label"))
    is_given = text is not None

    def left() -> list[str]:
        return [name for name in names if name not in (text, pair, label)]

    label = label or named(LABEL_NAMES, left())
    text = text or named(TEXT_NAMES, left())
    pair = pair if is_given else pair or named(PAIR_NAMES, left())
    if text is None and left():
        text = max(left(), key=lambda column: sum(map(len, first.column(column)[:200])))
    if label is None and len(left()) == 1:
        label = left()[0]
    if text is None or label is None:
        is_header = all(name.count(" ") < MOST_SPACES for name in first.names)
        hint = "Say so: --text COLUMN --label COLUMN" if is_header else "Put a line of names before it: text,label"
        raise UserError(f"{shown}: which is the text and which the label?", hint)
    if len({text, pair, label}) < 3:
        raise UserError(
            f"{shown}: one of them is chosen twice.", "Give each of --text, --text-pair and --label another."
        )
    return kind, choices | {"text": text, **({"text_pair": pair} if pair else {}), "label": label}


def named(wanted: tuple[str, ...], names: list[str]) -> str | None:
    """The column with the first of the wanted names that one has."""
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in wanted if name in lower), None)
