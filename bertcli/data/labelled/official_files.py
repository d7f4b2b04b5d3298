"""The data of a task: read from its official files, or from the Hub."""

import os
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bertcli import say
from bertcli.data.hub import hub_answers
from bertcli.data.labelled.examples import TextExamples, text_examples
from bertcli.data.labelled.own_labels import NO_LABEL
from bertcli.data.text.files import COMPRESSED, check_unpacked, ending_of, is_in_archive, read_text, reading, tar_of
from bertcli.data.text.tables import read_table
from bertcli.errors import RunError, UserError, first_line, unknown
from bertcli.tasks.task import Task


def data_folder(data_dir: str | None) -> Path | None:
    """The folder of official files: as given, else $BERT_DATA, else none. Raises UserError if it is not a folder."""
    name = data_dir or os.environ.get("BERT_DATA")
    if name and not Path(name).is_dir():
        what = f"The data folder `{name}` is not a folder."
        raise UserError(what, "Give --data-dir the folder that holds glue/, squad/ ...")
    return Path(name) if name else None


def split_file(task: Task, split: str, folder: Path) -> Path:
    """The official file of a split. Raises UserError if the task has no such split, or the folder no such file."""
    if split not in task.files.splits:
        raise unknown(f"split of {task.name}", split, task.files.splits)
    found = find_file(task, split, folder)
    if found is None:
        what = f"There is no `{task.files.splits[split].split('|')[0]}` in `{folder}`."
        raise UserError(what, f"Put the official file of {task.name} there, or give another --data-dir.")
    return found


def find_file(task: Task, split: str, folder: Path) -> Path | None:
    """The file or folder of a split, by any of its names, with or without the first folder; also in an archive."""
    names = task.files.splits[split].split("|")
    for name in (*names, *(name.partition("/")[2] for name in names)):
        for ending in ("", *COMPRESSED):
            if (path := folder / (name + ending)).exists() or tar_of(path):
                return path
        archive, file = folder / f"{Path(name).parent}.zip", Path(name).name
        for inside in (archive / Path(name).parent.name / file, archive / file):
            if is_in_archive(inside):
                return inside
    return None


def read_official(task: Task, split: str, path: Path) -> TextExamples:
    """Read an official file or folder of texts. Raises UserError if it lacks a column of the task, or has no examples."""
    if path.is_dir() or tar_of(path):
        return _read_folders(path, task.file_labels)
    is_test = split.startswith("test")
    columns = task.files.test_columns if is_test and task.files.test_columns else task.files.columns
    if ending_of(path) == ".csv":
        return read_columns(path, {key: str(value) for key, value in columns.items()})
    return _read_glue(path, columns, task.files.header or is_test)


def _read_folders(folder: Path, labels: tuple[str, ...]) -> TextExamples:
    """Read a folder for each label with a text a file."""
    paths = ((label, path) for label in labels for path in (folder / label).glob("*.txt"))
    texts = ((label, path.name, read_text(path)) for label, path in paths)
    read = [row for row in (_texts_of_tar(folder) if tar_of(folder) else texts) if row[0] in labels]
    if not read:
        what = f"`{folder}` holds no texts in {', '.join(f'{label}/' for label in labels)}."
        raise UserError(what, "Check the folder.")
    read.sort(key=lambda row: (labels.index(row[0]), row[1]))
    return TextExamples([text for _, _, text in read], labels=[label for label, _, _ in read], origin=str(folder))


def _texts_of_tar(folder: Path) -> Iterator[tuple[str, str, str]]:
    """The label, the name and the text of each file of a folder in a .tar.gz, read once from beginning to end."""
    archive, unpacked, most = cast(Path, tar_of(folder)), 0, 0.0
    with reading(archive) as file, tarfile.open(fileobj=file, mode="r|") as members:
        for member in members:
            path = archive / member.name
            unpacked += member.size
            if unpacked > most:
                most = check_unpacked(archive, unpacked)
            is_text = path.parent.parent == folder and path.suffix == ".txt" and member.isreg()  # and no link
            if is_text and (text := members.extractfile(member)):
                yield path.parent.name, path.name, text.read().decode("utf-8", "replace")


def _read_glue(path: Path, columns: dict[str, int | str], header: bool) -> TextExamples:
    """Read a TSV of GLUE: no quoting, so a quotation mark is a quotation mark (csv.reader with quotechar=None)."""
    lines = [line.rstrip("\r").split("\t") for line in read_text(path).split("\n") if line.strip()]
    names = lines.pop(0) if header and lines else []
    places = {key: _place(path, where, names) for key, where in columns.items()}
    rows = [line for line in lines if len(line) > max(places.values())]
    if len(rows) < len(lines):
        say(f"{path}: skipped {len(lines) - len(rows)} broken lines of {len(lines):,}")
    if not rows:
        raise UserError(f"`{path}` holds no examples.", "Check the file.")
    examples = text_examples({key: [row[place] for row in rows] for key, place in places.items()}, str(path))
    return _with_gold_labels(replace(examples, skipped=len(lines) - len(rows)))


def _with_gold_labels(examples: TextExamples) -> TextExamples:
    kept = [row for row, label in enumerate(examples.labels or ()) if label != NO_LABEL]
    if examples.labels is None or len(kept) == len(examples):
        return examples
    say(f"{examples.origin}: skipped {len(examples) - len(kept)} examples without a gold label")
    return replace(examples.take(kept), skipped=examples.skipped + len(examples) - len(kept))


def _place(path: Path, where: int | str, names: list[str]) -> int:
    """The number of a column, which may have several names. Raises UserError if none of them is there."""
    if isinstance(where, int):
        return where
    wanted = where.split("|")
    for name in wanted:
        if name in names:
            return names.index(name)
    raise UserError(f"`{path}` has no column `{wanted[0]}`.", f"Its columns: {', '.join(names)}.")


def texts_of_hub(task: Task, split: str, dataset: Any) -> TextExamples:
    """Table of the Hub; those of a test split have no labels there."""
    columns = dict(zip(("text", "text_pair"), task.hub_columns, strict=False)) or task.files.columns
    read = {key: list(dataset[name]) for key, name in columns.items() if key != "label"}
    if "label" in dataset.column_names and not split.startswith("test"):
        names = getattr(dataset.features["label"], "names", None) or []
        named = names and task.spellings.keys() >= set(names)
        read["label"] = [names[value] if named else str(value) for value in dataset["label"]]
    return text_examples(read, f"{task.hub[0]} on the Hub")


def load_from_hub(task: Task, split: str) -> Any:
    """Load a split from the Hub through `datasets`. Raises RunError if it cannot be reached."""
    answers = hub_answers()  # first: the libraries wait for it much longer
    import datasets

    name, subset = task.hub
    if split not in task.hub_splits:
        raise unknown(f"split of {task.name}", split, task.hub_splits)
    try:
        return datasets.load_dataset(name, subset, split=task.hub_splits[split], trust_remote_code=False)
    except Exception as error:  # the Hub's client raises a dozen kinds, network ones among them
        first = first_line(error)[:150]
        what = f"{task.name} cannot be loaded from the Hub ({first if answers else 'it does not answer'})."
        raise RunError(what, "Give the folder of the official files: --data-dir DIR, or set BERT_DATA.") from error


def read_columns(path: Path, columns: dict[str, str]) -> TextExamples:
    """Read named columns of a table. Raises UserError naming the file, and the line or column that is wrong."""
    table = read_table(path)
    return text_examples({key: table.column(name) for key, name in columns.items()}, str(path))
