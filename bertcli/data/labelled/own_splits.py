"""The splits of the user's own data: files by their names, or a dev set cut off by the seed."""

import glob
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from bertcli import number_of, say
from bertcli.data.labelled.conll import TAG_ENDINGS
from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.own_labels import counted, listed
from bertcli.data.text.files import COMPRESSED, TABLE_ENDINGS, ending_of
from bertcli.data.text.tables import Table, as_text, check_file
from bertcli.errors import UserError
from bertcli.tasks import is_task

ENDINGS = (*TABLE_ENDINGS, *TAG_ENDINGS, ".txt")
DEV_SHARE = 0.1  # of data that come without a dev set
SPLIT_NAMES = dict.fromkeys(("train", "training"), "train") | dict.fromkeys(("test", "testing", "testb"), "test")
SPLIT_NAMES |= dict.fromkeys(("dev", "valid", "validation", "val", "eval", "testa"), "dev")


def looks_like_file(name: str) -> bool:
    """Whether a name is of files, a folder or a pattern rather than of a task."""
    return ending_of(Path(name)) in ENDINGS or "," in name or "*" in name or (Path(name).exists() and not is_task(name))


def run_name(name: str) -> str:
    """What a run on these data is called: by its first file, or by the folder."""
    first = Path(name if Path(name).exists() else name.partition(",")[0])
    folder = first.parent if glob.has_magic(first.name) and not first.exists() else first
    return folder.resolve().name if folder.is_dir() else first.name.lstrip(".").partition(".")[0]


def own_files(name: str) -> dict[str, list[Path]]:
    """The files of each split, by their names; "" holds all files if none is of a split.

    `name` is a file, several with commas between, a pattern or a folder. Files that are of no split are training data if
    the user named them, and left out if a pattern or a folder did.

    Raises UserError if there are no files, a folder has none of a split, or a split has two forms.
    """
    path = Path(name)
    if path.is_file():
        return {"": [path]}
    given = [path] if path.is_dir() else [Path(part.strip()) for part in name.split(",")]
    splits: dict[str, list[Path]] = {}
    for file in chain.from_iterable(map(_matching, given)):
        check_file(file)
        splits.setdefault(split_of(file), []).append(file)
    if path.is_dir() and not splits.keys() - {""}:
        what = f"`{name}` has no train, dev or test file{listed(file.name for file in splits.get('', []))}."
        raise UserError(what, "Name them train.csv, dev.csv, test.csv; or give files: bert finetune FOLDER/reviews.csv")
    if len(splits) > 1 and "" in splits:
        _assign_others(name, splits, given)
    _check_forms(splits)
    return splits


def _check_forms(splits: dict[str, list[Path]]) -> None:
    for split, files in splits.items():
        if twice := next((file for file in files if files.count(file) > 1), None):
            raise UserError(f"`{twice}` is given twice.", "Name each file once.")
        plain = {file.with_suffix("") if file.suffix in COMPRESSED else file for file in files}
        if len(plain) < len(files) or len({file.suffix for file in plain}) > 1:
            what = f"Several files are {split or 'given'}{listed(map(str, files))}."
            raise UserError(what, "Name those of one form, not both.")


def _matching(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(child for child in path.iterdir() if ending_of(child) in ENDINGS)
    return sorted(map(Path, [] if path.exists() else glob.glob(str(path), recursive=True))) or [path]


def _assign_others(name: str, splits: dict[str, list[Path]], given: list[Path]) -> None:
    """Make the files that are of no split training data if they are `given`; leave out the others, and say so."""
    others = splits.pop("")
    if named := [file for file in others if file in given]:
        splits["train"] = named + splits.get("train", [])
    if left := [file.name for file in others if file not in given]:
        say(f"{name}: left out{listed(left)}")


def split_of(path: Path) -> str:
    """The split that a file's name says, if it does."""
    return next((SPLIT_NAMES[word] for word in re.split(r"[^a-z]+", path.name.lower()) if word in SPLIT_NAMES), "")


def cut_dev(name: str, part: Examples, labels: list[str] | None, seed: int) -> dict[str, Examples]:
    """Cut a dev set off the training data, stratified by label. Raises UserError if there is too little for one."""
    train, dev = stratified_split(labels, len(part), DEV_SHARE, seed)
    if not dev or not train:
        is_unique = bool(labels) and len(part) > 1
        why, more = (": each label occurs once", "; or another column: --label COLUMN") if is_unique else ("", "")
        what = f"No dev set can be cut off the {number_of(len(part), part.unit)} of `{name}`{why}."
        ending = "".join(Path(name).suffixes) or ".csv"
        raise UserError(what, f"Give a dev file too: train{ending} dev{ending}{more}")
    by_label = ", in proportion to the labels" if labels else ""
    say(f"{name}: no dev set; {len(dev):,} of {len(part):,} examples become it, drawn by seed {seed}{by_label}")
    if once := [f"`{label}`" for label, count in Counter(labels or []).items() if count == 1]:
        say(f"{name}: labels with one example, used for training only{listed(once)}")
    return {"train": part.take(train), "dev": replace(part.take(dev), skipped=0)}


def stratified_split(labels: list[str] | None, count: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Cut rows into two parts by seed; each label gives its share to the second, but never its only row.

    The rows of each label, shuffled, are spread evenly from 0 to 1, and the second part takes the lowest: so labels too
    rare for a row of their own are drawn in turn.
    """
    import numpy as np

    groups: dict[str, list[int]] = {}
    for row in np.random.default_rng(seed).permutation(count).tolist():
        groups.setdefault(labels[row] if labels else "", []).append(row)
    places = {row: (rank + 0.5) / len(rows) for rows in groups.values() for rank, row in enumerate(rows[:-1])}
    second = set(sorted(places, key=places.__getitem__)[: max(1, round(count * share))])
    return [row for row in range(count) if row not in second], sorted(second)


def say_overlap(name: str, parts: dict[str, Examples], labels: dict[str, list[str]]) -> None:
    """Say how many examples repeat others, how many of the other splits are trained on, and which of their labels are not."""
    trained, repeated = _repeated(parts["train"])
    facts, known = [repeated] if repeated else [], set(labels["train"])
    for split, part in parts.items():
        if split != "train" and (twice := sum(key in trained for key in part.inputs())):
            facts.append(f"{twice:,} of {len(part):,} {split} examples are training examples too")
        if new := Counter(label for label in labels[split] if label not in known):
            say(f"{name}: {split} has labels that are not trained on; they count as errors{counted(new)}")
    if facts:
        say(f"{name}: {'; '.join(facts)}")


def _repeated(train: Examples) -> tuple[set[Any], str]:
    """The distinct inputs of the training examples, and in words how many examples repeat others; "" for none."""
    given = list(train.inputs())
    distinct = set(given)
    if not (repeated := len(given) - len(distinct)):
        return distinct, ""
    facts = f"{repeated:,} of {len(given):,} train examples repeat others"
    answers: dict[Any, set[str]] = {}
    for row, each in enumerate(given if len(given) == len(train) else ()):
        answers.setdefault(each, set()).add(train.answer(row))
    unlike = sum(len(answers.get(each, ())) > 1 for each in given)
    return distinct, f"{facts}; {unlike:,} are given different answers" if unlike else facts


def say_unread_split(name: str, table: Table, read: Collection[str]) -> None:
    """Say that a column which names the set of each row is not one of those that are read."""

    def cells(column: str) -> Iterator[str]:
        return (as_text(row.get(column)).strip().lower() for row in table.cells)

    for column in table.names:
        is_split = column not in read and all(cell in SPLIT_NAMES for cell in cells(column))
        found = sorted(set(cells(column))) if is_split else []
        if found[1:]:
            hint = f"write a file of each, such as {' and '.join(f'{each}.csv' for each in found)}"
            say(f"{name}: `{column}` is not read, so that rows of {' and '.join(found)} are one set; {hint}")


def sizes_of(parts: Mapping[str, Examples], noun: str) -> str:
    """The number of examples of each split, in words: `train 90, dev 10 rows`."""
    counts = ", ".join(f"{split} {len(part):,}" for split, part in parts.items())
    return f"{counts} {noun}{'s' * (sum(map(len, parts.values())) != 1)}"
