"""A task made from the user's own files, and its splits."""

from pathlib import Path

from bertcli import say
from bertcli.data.labelled.own_splits import SPLIT_NAMES, cut_dev, own_files, say_overlap, split_of
from bertcli.errors import UserError, unknown
from bertcli.kinds import KINDS, get_kind
from bertcli.kinds.kind import Kind
from bertcli.kinds.own_tables import read_tables
from bertcli.kinds.types import OwnData


def own_task(
    name: str,
    columns: dict[str, str | None],
    kind_name: str | None,
    seed: int = 0,
    scored: str = "",
    learnt: bool = False,
) -> OwnData:
    """Make a task from files, and its splits; `columns` holds what the user said of text, text_pair and label.

    To train, every split is read, and a dev set is cut off where there is none. To be `scored`, that split alone is read;
    a file whose name is of no split is scored whole, unless the model was trained on it (`learnt`): then as it was cut,
    without test. Raises UserError naming the file and the line, or the column, that is wrong.
    """
    kind = get_kind(kind_name) if kind_name else None
    files, is_cut = _chosen(name, own_files(name), scored, learnt, kind)
    first = next(iter(files.values()))[0]
    kind = kind or next((each for each in KINDS.values() if each.recognizes(first)), None)
    has_columns = kind is None or not kind.has_windows
    if not has_columns and any(columns.values()):
        raise UserError(f"`{name}` has no columns to choose.", "Leave --text, --text-pair and --label out.")
    task, parts = kind.read_own(name, files, columns) if kind else read_tables(name, files, columns, None)
    kind = KINDS[task.kind]
    if not scored and kind.names_outputs and len(task.labels) < 2:
        hint = "Give the column with --label, or add examples." if has_columns else "Add examples with others."
        raise UserError(f"`{name}` has only the label `{''.join(task.labels)}`.", hint)
    if is_cut:
        train = parts["train"]
        parts |= cut_dev(name, train, kind.strata(train), seed)
    if not scored:
        say_overlap(task.name, parts, {split: list(kind.labels_of(task, part)) for split, part in parts.items()})
    return task, parts


def _chosen(
    name: str, files: dict[str, list[Path]], scored: str, learnt: bool, kind: Kind | None
) -> tuple[dict[str, list[Path]], bool]:
    """The files to read, what is scored or trained on first, and whether a dev set is to be cut off.

    One split alone may not show whether its choices count from 0 or from 1.
    """
    if scored and scored not in SPLIT_NAMES.values():
        raise unknown("split", scored, {*SPLIT_NAMES.values()})
    if "" in files and scored and not learnt:
        if split_of(files[""][0]) not in ("", scored):
            say(f"{name}: scored whole, as {scored}, whatever its name says")
        return {scored: files[""]}, False
    files = {"train": files[""]} if "" in files else files
    is_cut = "dev" not in files and "train" in files and scored in ("", "train", "dev")
    first = "train" if is_cut or not scored else scored
    if first not in files:
        other = "dev" if "train" in files else min(files)  # a dev set can be cut off the training data
        hint = f"Choose another: --split {other}" if scored else "Name the file to learn from train.csv."
        raise UserError(f"`{name}` has no {first} file, only {', '.join(files)}.", hint)
    reads_all = not scored or (kind is not None and kind.needs_all_splits)
    return {first: files[first], **(files if reads_all else {})}, is_cut
