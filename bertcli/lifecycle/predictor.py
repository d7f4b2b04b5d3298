"""What answers the examples of a task, a fine-tuned model or a baseline, found by its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bertcli import quietly
from bertcli.config.use import ONNX, OPENVINO, TORCH
from bertcli.data.json_files import read_json
from bertcli.errors import UserError, check_extra
from bertcli.kinds import KINDS, kind_of_model
from bertcli.kinds.kind import Kind, Split
from bertcli.kinds.types import Prediction, Row
from bertcli.lifecycle.baselining.description import description_of, method_of
from bertcli.lifecycle.scoring.model_labels import model_labels, not_of_kind
from bertcli.lifecycle.sources import Lost, input_task
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    from bertcli.lifecycle.scoring.task_model import TaskModel


class Predictor(Protocol):
    """What `TaskModel` and `BaselineModel` have in common; they say what each does."""

    @property
    def kind(self) -> Kind:
        """The kind of its task."""

    def predict(self, split: Split) -> list[Prediction]:
        """One prediction per example."""

    def predict_part(self, split: Split) -> tuple[list[Prediction], Lost]:
        """The same for a part of a split, and what of it is not read."""

    def predict_rows(self, rows: Sequence[Row]) -> tuple[list[Prediction], Lost]:
        """What `bert predict` shows of each row, and what of them is not read."""

    def check_input(self, row: Row, file: str | None) -> None:
        """Raise UserError if it cannot take a row."""

    def words_for_cut(self) -> str:
        """What is said of inputs that were cut."""


def kind_of(source: str) -> tuple[Kind | None, str]:
    """The kind of a model or a baseline, if it is of one, and what it is called."""
    if method := method_of(source):
        return KINDS[description_of(Path(source)).kind], method
    made = _saved(source).get("architectures")
    if made and not any(name in str(made) for kind in KINDS.values() for name in kind.architectures):  # without torch
        return None, ", ".join(map(str, made))
    from bertcli.models.loading import open_config

    saved = open_config(source)
    return kind_of_model(saved), ", ".join(saved.architectures or [])


def _saved(source: str) -> dict[str, Any]:
    """What the configuration of a model says; nothing of a baseline."""
    is_model = not method_of(source) and Path(source, "config.json").is_file()
    return read_json(Path(source, "config.json"), "Restore it.") if is_model else {}


def kind_to_serve(source: str) -> Kind:
    """The kind of a model. Raises UserError if it is a baseline, or `bert predict` cannot use it."""
    kind, made = kind_of(source)
    if kind and not method_of(source):
        return kind
    why = "is a baseline" if kind else "needs fine-tuning first"
    raise UserError(f"The model `{source}` ({made}) {why}.", "Name a fine-tuned run: bert serve RUN")


def check_learnt(task: Task, source: str) -> None:
    """Raise UserError if a model's folder tells, without torch, that it is of another kind or has other labels."""
    kind, saved = KINDS[task.kind], _saved(source)
    made, labels = saved.get("architectures"), saved.get("id2label")
    if isinstance(made, list) and made and not any(name in str(made[0]) for name in kind.architectures):
        raise not_of_kind(source, made, task)
    if kind.names_outputs and isinstance(labels, dict) and labels:
        with quietly():
            model_labels({number: str(name) for number, name in enumerate(labels.values())}, task, source)


def is_causal_model(source: str) -> bool:
    """Whether a model that was pre-trained from left to right is named."""
    return bool(_saved(source).get("is_decoder"))


def check_engine(engine: str) -> None:
    """Raise UserError if the packages of an engine are not installed."""
    if engine != TORCH:
        extra, packages = (OPENVINO, ("openvino",)) if engine == OPENVINO else (ONNX, ())
        packages = ("onnx", "onnxruntime", "onnxscript", *packages)
        check_extra(extra, *packages, use=f"--engine {engine}", instead="leave it out")


def load_for_task(task: Task, source: str, precision: str, engine: str = TORCH) -> Predictor:
    """Load a model or a baseline to answer the examples of a task. Raises UserError if it is of another kind or has other labels."""
    if method := method_of(source):
        from bertcli.lifecycle.baselining.baseline_model import BaselineModel

        if engine != TORCH:
            raise UserError(f"`{source}` is a baseline ({method}), which no --engine runs.", "Leave --engine out.")
        return BaselineModel.load(source, task)
    from bertcli.lifecycle.scoring.task_model import load_task_model

    return _run_by(engine, load_task_model(task, source, precision), source, precision)


def load_for_rows(
    source: str, kind: Kind, precision: str, top_k: int, has_gradients: bool = False, engine: str = TORCH
) -> Predictor:
    """Load a model or a baseline of a kind to predict rows, as `bert predict` does."""
    if method_of(source):
        return load_for_task(input_task(source, kind), source, precision, engine)
    from bertcli.lifecycle.scoring import task_model

    return _run_by(engine, task_model.load_for_rows(source, kind, precision, top_k, has_gradients), source, precision)


def _run_by(engine: str, loaded: TaskModel, source: str, precision: str) -> TaskModel:
    if engine == TORCH:
        return loaded
    from bertcli.lifecycle.exporting.engine import run_by

    return run_by(engine, loaded, source, precision)
