"""Ours and theirs in turn, each run a process of its own; the median of what they measured, and whether they agree."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import psutil

from bertcli.errors import RunError
from tests.benchmarks.cases import Case, Row
from tests.benchmarks.materials import Materials

ROOT = Path(__file__).parents[2]
SHOWN = {
    "tokens_per_second": "{:,.0f} tokens/s",
    "texts_per_second": "{:,.1f} texts/s",
    "wall_seconds": "{:,.1f} s",
    **dict.fromkeys(("p50_ms", "p95_ms", "p99_ms"), "{:,.1f} ms"),
    "share_outside": "{:.2%}",
    "share_of_peak": "{:.1%}",
}
LABEL_AGREEMENT, TEXT_TOLERANCE = 0.995, 0.01
Measured = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """A row with its figures."""

    what: str
    row: Row
    ours: float
    theirs: float | None
    agreement: str
    agrees: bool
    load: float  # cores that others kept busy

    @property
    def ratio(self) -> float | None:
        """How many times as fast ours is; nothing where it does not count."""
        if self.theirs is None or not self.agrees:
            return None
        is_time = self.row.measure.endswith(("wall_seconds", "_ms"))
        return self.theirs / self.ours if is_time else self.ours / self.theirs

    def cells(self) -> list[str]:
        """The row as text."""
        shown = SHOWN[self.row.measure].format
        theirs = f"{shown(self.theirs)} ({self.row.theirs})" if self.theirs is not None else "–"
        ratio = f"{self.ratio:.2f} ×" if self.ratio else "–" if self.agrees else "does not count"
        return [
            f"{self.what}{f', {self.row.measure[:3]}' * self.row.measure.endswith('_ms')}",
            f"{shown(self.ours)} ({self.row.ours})",
            theirs,
            ratio,
            self.row.at_least or "–",
            self.row.moonshot or "–",
            self.agreement or "–",
            f"{self.load:.2f}",
        ]


COLUMNS = ["what", "ours", "theirs", "ratio", "at least", "moonshot", "the same work", "load of others"]


def race(case: Case, folder: Path, rounds: int) -> list[Line]:
    """Run all of a case, `rounds` times in turn.

    Raises:
        UserError: if its data are not there. RunError: if a run failed.
    """
    materials = Materials(case, folder)
    measured: dict[str, list[Measured]] = {name: [] for name in case.runs}
    load = 0.0
    for _ in range(rounds):
        for name, command in case.runs.items():
            with tempfile.TemporaryDirectory(dir=folder) as out:
                materials["out"] = out
                arguments = [word.format_map(materials) for word in command.split()]
                load = max(load, psutil.cpu_percent(interval=1) / 100 * (os.cpu_count() or 1))
                measured[name].append(run(arguments, case.on_gpu))
    return [line_of(case, row, measured, load) for row in case.rows]


def run(arguments: list[str], on_gpu: bool = False) -> Measured:
    """Run a command; return the JSON that it printed last, and the time of the whole."""
    visible = {} if on_gpu else {"CUDA_VISIBLE_DEVICES": ""}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            **visible,
        },
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RunError(
            f"python -m {' '.join(arguments)} failed.", done.stderr[-2000:] or f"exit code {done.returncode}"
        )
    last = (done.stdout.splitlines() or [""])[-1]
    return {**(json.loads(last) if last.startswith("{") else {}), "wall_seconds": seconds}


def line_of(case: Case, row: Row, measured: dict[str, list[Measured]], load: float) -> Line:
    """The medians of a row."""

    def middle(name: str) -> float:
        return median(result[row.measure] for result in measured[name])

    agreement, agrees = ("", True)
    if row.theirs:
        agreement, agrees = agreement_of(case, measured[row.ours][0], measured[row.theirs][0])
    return Line(case.what, row, middle(row.ours), middle(row.theirs) if row.theirs else None, agreement, agrees, load)


def agreement_of(case: Case, ours: Measured, theirs: Measured) -> tuple[str, bool]:
    """What both sides made, in words, and whether it is the same work."""
    if "losses" in ours:
        mine, other = mean(ours["losses"]), mean(theirs["losses"])
        return f"losses {mine:.3f}, {other:.3f}", abs(mine - other) <= case.loss_tolerance * other
    if "labels" in ours:
        share = mean(a == b for a, b in zip(ours["labels"], theirs["labels"], strict=True))
        given = Counter(theirs["labels"]).values()  # one label for all would agree whatever is read
        counts = " + ".join(f"{count:,}" for count in given)
        return f"{share:.2%} of {counts} labels", share >= LABEL_AGREEMENT and len(given) > 1
    if "instances" in ours:
        mine, other = (side["tokens"] - 2 * side["instances"] for side in (ours, theirs))  # without [CLS] and [SEP]
        return f"{mine:,}, {other:,} tokens of text", abs(mine - other) <= TEXT_TOLERANCE * other
    return "", True
