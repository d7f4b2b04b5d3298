"""How the data of a fine-tuning were read: lengths, labels, what was cut or skipped, and what occurs twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bertcli import quietly
from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.official_files import find_file
from bertcli.errors import UserError
from bertcli.kinds.kind import Split

if TYPE_CHECKING:
    from bertcli.kinds.types import Features
    from bertcli.lifecycle.finetuning.run import Finetuning
    from bertcli.lifecycle.sources import Setup

BARS, MOST_LABELS = 24, 50


def summarize_data(setup: Setup) -> dict[str, dict[str, Any]]:
    """For each split its size, lengths in tokens, labels, and the counts of cut, skipped and repeated examples.

    A test split is only compared with the training data: an example that is in both makes its score too high.
    """
    trained = set(setup.train.examples.inputs())
    summary = {split.name: _of_split(setup, split, trained) for split in (setup.train, *setup.dev)}
    test = _test_examples(setup)
    if test is not None:
        summary["test"] = {"examples": len(test), "skipped": test.skipped, "in_train": _shared(test, trained)}
    return summary


def _of_split(setup: Setup, split: Split, trained: set[Any]) -> dict[str, Any]:
    examples = split.examples
    distinct = trained if split is setup.train else set(examples.inputs())
    encoded = _of_features(cast("Finetuning", setup), split) if split.features is not None else {}
    found = {"examples": len(split), "unit": examples.unit, "origin": examples.origin, **encoded}
    found |= {"skipped": examples.skipped, "duplicates": len(split) - len(distinct) if distinct else 0}
    found["labels"] = dict(Counter(setup.kind.labels_of(setup.task, examples)).most_common(MOST_LABELS))
    return found if split is setup.train else {**found, "in_train": _shared(examples, trained)}


def _of_features(setup: Finetuning, split: Split) -> dict[str, Any]:
    """The lengths of the inputs of a split, and how many were cut."""
    features = cast("Features", split.features)
    lengths = np.asarray(features.lengths)
    counts, edges = np.histogram(lengths, bins=min(BARS, max(1, len({*lengths.tolist()}))))
    inputs, which = setup.kind.inputs_that_are_cut(split, setup.rules)
    median, most, longest = (int(np.percentile(lengths, share, method="nearest")) for share in (50, 95, 100))
    histogram = {"counts": counts.tolist(), "edges": [round(float(edge), 2) for edge in edges]}
    cut_share = round(100 * features.truncated / max(1, inputs), 2)
    cut = {"cut": features.truncated, "cut_share": cut_share, "cut_what": which}
    tokens = {"median": median, "95 %": most, "longest": longest}
    return {"inputs": len(lengths), "tokens": tokens, "histogram": histogram, **cut}


def _shared(examples: Examples, trained: set[Any]) -> int:
    """How many examples are training examples too."""
    return sum(each in trained for each in examples.inputs())


def _test_examples(setup: Setup) -> Examples | None:
    """The examples of the test split, where it is on this machine and can be read."""
    source = setup.source
    has_file = source.data_dir and "test" in source.task.files.splits
    if source.own is None and not (has_file and find_file(source.task, "test", Path(str(source.data_dir)))):
        return None
    if source.own is not None and "test" not in source.own:
        return None
    try:
        with quietly():
            return source.read("test").examples
    except UserError:  # it is not needed for training
        return None
