"""A task made from the user's own files, and its splits."""

from pathlib import Path
from typing import cast

from bertcli import say
from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.own_labels import listed
from bertcli.data.labelled.own_splits import SPLIT_NAMES, cut_dev, own_files, split_of
from bertcli.errors import UserError, flag_of, unknown
from bertcli.kinds import KINDS, get_kind
from bertcli.kinds.kind import Kind
from bertcli.kinds.own_tables import read_tables
from bertcli.kinds.text import TextKind
from bertcli.kinds.types import OwnData
from bertcli.tasks.task import Task

Columns = dict[str, str | None]
Files = dict[str, list[Path]]  # by split


def own_task(
    name: str, columns: Columns, kind_name: str | None, seed: int = 0, scored: str = "", learnt: bool = False
) -> OwnData:
    """Make a task and its splits from files; `columns` names those of text, text_pair and label, and has the `label_form` of a run.

    For training, all splits are read. For scoring, only the `scored` split is read: of a single file all rows, or the dev
    set that was cut off it if the model was trained on it (`learnt`).
    Raises UserError naming the file and the line or column that is wrong.
    """
    files, is_cut = _files_to_read(name, scored, learnt, kind_name)
    kind = _kind_of_files(name, files, columns, kind_name)
    if kind is None or kind.reads_tables:
        task, parts = read_tables(name, files, columns, cast(TextKind | None, kind), is_stored=bool(scored))
    else:
        task, parts = kind.read_own(name, files, columns)
    kind = KINDS[task.kind]
    if not scored and kind.names_outputs and len(task.labels) < 2:
        others = "Add examples with others, or name another column: --label COLUMN"
        hint = "Give the column with --label, or add examples." if kind.reads_tables else others
        raise UserError(f"`{name}` has only the label `{''.join(task.labels)}`.", hint)
    if is_cut:
        parts |= cut_dev(name, parts["train"], kind.strata(parts["train"]), seed)
    return task, parts


def for_training(task: Task, parts: dict[str, Examples], seed: int, trains_on_all: bool) -> dict[str, Examples]:
    """The splits to train with: a dev set is cut off the training data if there is none, unless these are too few for one."""
    kind, train = KINDS[task.kind], parts["train"]
    labels = kind.strata(train) or [""] * 2
    if "dev" not in parts and trains_on_all and len({*labels}) < len(labels):
        say(f"{task.name}: no dev set; {len(train):,} examples are few, so all are trained on, and cross-validated")
    elif "dev" not in parts:
        parts = parts | cut_dev(task.name, train, kind.strata(train), seed)
    return parts


def form_of(files: Files, label: str | None) -> Kind | None:
    """The kind that alone has files of this form; None for tables. `label` names the column of the labels."""
    first = next(iter(files.values()))[0]
    return next((each for each in KINDS.values() if each.recognizes(first, label)), None)


def _kind_of_files(name: str, files: Files, columns: Columns, kind_name: str | None) -> Kind | None:
    """The kind that was named, or that alone has files of this form; None where the columns of a table will tell."""
    if kind_name:
        kind: Kind | None = get_kind(kind_name)
    else:
        kind = form_of(files, columns.get("label"))
    if kind and not kind.reads_tables and any(columns[key] for key in columns.keys() - {*kind.own_columns}):
        others = [flag_of(key) for key in ("text", "text_pair", "label") if key not in kind.own_columns]
        raise UserError(f"`{name}` has no columns to choose.", f"Leave {' and '.join(others)} out.")
    return kind


def _files_to_read(name: str, scored: str, learnt: bool, kind_name: str | None) -> tuple[Files, bool]:
    """The files of each split that is read, that to score or to train on first, and whether a dev set is to be cut off it."""
    files = own_files(name)
    if not scored:
        return _training_first(name, files), False
    if scored not in SPLIT_NAMES.values():
        raise unknown("split", scored, {*SPLIT_NAMES.values()})
    if "" in files and not learnt:
        return _all_rows(name, files[""], scored), False
    files = {"train": files[""]} if "" in files else files
    is_cut = "dev" not in files and "train" in files and scored != "test"
    first = "train" if is_cut else scored
    if first not in files:
        raise _no_split(name, files, first)
    if kind_name and get_kind(kind_name).needs_all_splits:  # do choices count from 0 or from 1?
        return {first: files[first], **files}, is_cut
    return {first: files[first]}, is_cut


def _no_split(name: str, files: Files, split: str) -> UserError:
    other = "dev" if "train" in files else min(files)  # a dev set can be cut off the training data
    return UserError(f"`{name}` has no {split} file, only {', '.join(files)}.", f"Choose another: --split {other}")


def _all_rows(name: str, paths: list[Path], scored: str) -> Files:
    if split_of(paths[0]) not in ("", scored):
        say(f"{name}: all of it is scored, as {scored}, although its name says otherwise")
    return {scored: paths}


def _training_first(name: str, files: Files) -> Files:
    files = {"train": files[""]} if "" in files else files
    if several := files.get("train", [])[1:] and files["train"]:
        what = f"{name}: all of these files are trained on{listed(file.name for file in several)}"
        say(f"{what}; to score one instead, call it dev{several[0].suffix} or test{several[0].suffix}")
    if "train" not in files:
        what = f"`{name}` has no train file, only {', '.join(files)}."
        raise UserError(what, "Name the file to learn from train.csv.")
    return {"train": files["train"], **files}
