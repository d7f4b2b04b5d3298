"""An experiment of the paper: the systems of a table, what each is scored by, and which of them are compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from bertcli.errors import unknown
from bertcli.tasks.paper import PaperTable
from bertcli.tasks.task import Task

Options = Mapping[str, Any]  # of a command, by their names in Python
MINUTES = "minutes"  # that a pre-training took
PERPLEXITY = "perplexity"  # of masked words of held-out text, which a pre-training measures


@dataclass(frozen=True)
class System:
    """A row: a model that is pre-trained, or each of those that `--from` names, and how it is fine-tuned."""

    name: str  # of the row in the paper's table
    beside: str = ""  # the row that it is compared with
    pretrain: Options | None = None  # options of `bert pretrain`; None: the models of `--from`
    data: Options = field(default_factory=dict)  # options of `bert make-pretraining-data`
    finetune: Options = field(default_factory=dict)  # options of `bert finetune`
    words: str = ""  # what it is called beside other rows of a `--from` model, where its name does not say it
    leaves_out: tuple[str, ...] = ()  # columns that the paper leaves empty
    family: str = "bert"  # whose vocabulary, data and model are made
    vocabulary: Options = field(default_factory=dict)  # options of `bert build-vocab`
    teacher: Self | None = None  # its model is distilled from that of this system, and not pre-trained
    note: str = ""  # what differs from the paper in it


@dataclass(frozen=True)
class Column:
    """A score of every row."""

    paper: str  # the name of the column in the paper's table
    task: str  # empty for a score of the pre-training itself, and for the average
    metric: str
    split: str = "dev"
    finetune: Options = field(default_factory=dict)  # options of `bert finetune`, beside those of the row
    at: float = 1.0  # the share of the pre-training steps after which the model is fine-tuned
    name: str = ""  # in a table, where it is not the task and the metric

    @property
    def head(self) -> str:
        """Its name in a table."""
        note = self.paper.partition(", ")[2] or ("test" if self.split == "test" else "")
        metric = self.metric.removeprefix("dev_").replace("_", " ")
        return self.name or ", ".join(filter(None, (f"{self.task.rpartition('/')[2]} {metric}".strip(), note)))


@dataclass(frozen=True)
class Experiment:
    """A table of the paper, and what is run for it."""

    name: str
    table: PaperTable
    systems: tuple[System, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()  # what differs from the paper in any run of it, beside the notes of its systems
    equal_compute: bool = False  # whether pre-trainings take the same floating-point operations, not steps

    @property
    def pretrains(self) -> bool:
        """Whether its models are pre-trained, not those of --from."""
        return self.systems[0].pretrain is not None

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that it is scored by."""
        return list(dict.fromkeys(column.task for column in self.columns if column.task))

    @property
    def compared_columns(self) -> list[Column]:
        """The columns by which rows are compared: all but the minutes."""
        return [column for column in self.columns if column.metric != MINUTES]

    @property
    def all_notes(self) -> list[str]:
        """What differs from the paper in any run of it."""
        return [*self.notes, *dict.fromkeys(system.note for system in self.systems if system.note)]

    def with_rows(self, names: Sequence[str]) -> Self:
        """The same with some of the rows, named as in the paper's table or in ours, such as `minilm, fine-tuned`.

        Raises UserError if there is no such row.
        """
        known = {name: system for system in self.systems for name in (system.name, system.words or system.name)}
        asked = [name if name in known else name.split(", ", 1)[-1] for name in names]
        if strange := [name for name in asked if name not in known]:
            raise unknown("row", strange[0], known)
        wanted = {known[name].name for name in asked}
        return replace(self, systems=tuple(system for system in self.systems if system.name in wanted))

    def with_tasks(self, tasks: Sequence[Task]) -> Self:
        """The same, scored by some tasks only; those that the paper does not score the systems by are added."""
        columns = [each for each in self.columns if each.task in ("", *(task.name for task in tasks))]
        added = (column for task in tasks if task.name not in self.tasks for column in self._new_columns(task))
        return replace(self, columns=(*columns, *added))

    def with_columns(self, names: Sequence[str]) -> Self:
        """The same with some of the columns. Raises UserError if there is none of a name."""
        known = {column.head: column for column in self.columns}
        if strange := [name for name in names if name not in known]:
            raise unknown("column", strange[0], known)
        return replace(self, columns=tuple(known[name] for name in known if name in names))

    def without_tasks(self, tasks: Collection[str]) -> Self:
        """The same, not scored by some tasks."""
        return replace(self, columns=tuple(column for column in self.columns if column.task not in tasks))

    def _new_columns(self, task: Task) -> list[Column]:
        """The columns of a task that the paper's table lacks; of a figure, one for each of its points."""
        column = Column("", task.name, task.metrics[0])
        points = [each for each in self.columns if each.name]
        return [replace(column, at=each.at, name=f"{task.name}, {each.name}") for each in points] or [column]

    def paper_score(self, row: str, column: Column) -> float | None:
        """The paper's score in a row of its table; None where it prints none."""
        if row not in self.table.rows or column.paper not in self.table.columns:
            return None
        return self.table.rows[row][self.table.columns.index(column.paper)]

    def paper_row(self, system: System, model: str) -> str:
        """The row of the paper's table for a system: where that is its base, and a large model is named, its large."""
        has_large = system.name == "BERT base" and "BERT large" in self.table.rows
        return "BERT large" if has_large and "large" in model.rpartition("/")[2] else system.name


def columns_of(table: PaperTable) -> tuple[Column, ...]:
    """The columns of a table that are scores of dev; of test where it has none of dev, beside which ours of dev stand."""
    named = [(paper, *paper.split(" ")) for paper in table.columns if paper.count(" ") == 2]
    split = "dev" if any(each[2] == "dev" for each in named) else "test"
    found = []
    for paper, task, where, metric in named:
        if where.startswith(split):  # the second dev set of MNLI is scored with the first
            found.append(Column(paper, task, (where.replace("test", "dev") + "_" if where != split else "") + metric))
    return tuple(found)
