"""What a reproduction amounts to: the paper's table with ours beside it, as it is kept in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from bertcli.data.json_files import read_json, write_json
from bertcli.data.results import Result, Rows
from bertcli.errors import quoted
from bertcli.tasks.experiments import EXPERIMENTS


@dataclass(frozen=True, kw_only=True)
class Reproduction(Result):
    """An experiment of the paper that was run: each cell, each difference between two rows, and what it took."""

    experiment: str
    title: str
    folder: str
    command: str  # which repeats or continues it
    plan: list[dict[str, Any]]
    paper: dict[str, Any]  # the paper's whole table: its columns and rows
    columns: list[str] = field(default_factory=list)  # of ours
    cells: list[dict[str, Any]] = field(default_factory=list)  # median, spread and scores, beside the paper's score
    comparisons: list[dict[str, Any]] = field(default_factory=list)  # of rows, with the direction in the paper
    skipped: list[str] = field(default_factory=list)  # columns without data, and why
    notes: list[str] = field(default_factory=list)  # what differs from the paper
    costs: list[dict[str, Any]] = field(default_factory=list)  # seconds of the parts, by title
    seconds: float = 0.0  # of all parts, over all machines
    report: str = ""

    @property
    def rows(self) -> Rows:
        """A row for each cell."""
        return [{name: value for name, value in cell.items() if name != "scores"} for cell in self.cells]

    @property
    def systems(self) -> list[str]:
        """The names of the rows."""
        return list(dict.fromkeys(cell["row"] for cell in self.cells))

    @property
    def scored_columns(self) -> list[str]:
        """The names of the columns that have a score."""
        scored = {cell["column"] for cell in self.cells}
        return [column for column in self.columns if column in scored]

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        if not self.paper["rows"]:
            sure = [each for each in self.comparisons if each["significant"]]
            return f"Of {len(self.comparisons)} differences, {len(sure)} are more than chance."
        return self._sentence_beside_paper

    @property
    def _sentence_beside_paper(self) -> str:
        printed = [each for each in self.comparisons if each["paper"]]
        same = [each for each in printed if each["direction_holds"]]
        sure = [each for each in same if each["significant"]]
        against = [each for each in printed if each["direction_holds"] is False and each["significant"]]
        if not printed:
            return "The paper prints no difference between these rows on these tasks."
        return (
            f"Of {len(printed)} differences that the paper prints, {len(same)} have its direction here, {len(sure)} of them"
            f" significantly; {len(against)} have the opposite direction significantly."
        )

    def write(self) -> None:
        """Keep it in its folder."""
        write_json(Path(self.folder) / f"{self.experiment}.json", asdict(self), indent=2)

    @classmethod
    def read(cls, folder: Path, experiment: str) -> Self:
        """Read what a folder keeps."""
        path = folder / f"{experiment}.json"
        hint = f"Remove it: rm {quoted(path)}; the command that wrote it writes it again, from the parts that are done."
        values = read_json(path, hint, experiment=str, cells=list, comparisons=list, paper=dict, costs=list)
        return cls(**{each.name: values[each.name] for each in fields(cls) if each.name in values})


def reproductions_in(folder: Path) -> Sequence[Reproduction]:
    """The experiments that are finished in a folder; none where it is no folder of reproductions."""
    return [Reproduction.read(folder, name) for name in EXPERIMENTS if (folder / f"{name}.json").is_file()]
