"""The rows of a request, as `bert predict` takes them, checked before they are queued."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bertcli.errors import UserError
from bertcli.kinds.kind import Kind
from bertcli.kinds.types import Prediction, Row
from bertcli.lifecycle.predicting.attribution import explained
from bertcli.lifecycle.predicting.inputs import form_of_row
from bertcli.lifecycle.scoring.task_model import TaskModel, load_for_rows
from bertcli.lifecycle.workspace import saved_config

FORMS = ({"text"}, {"text", "text_pair"}, {"text", "choices"}, {"question", "context"})
COLUMNS = ("text", "text_pair", "choices", "question", "context")
FORM = 'Send {"text": "..."}, or a list of such rows; see /docs.'
MOST_CHOICES = 64
MOST_EXPLAINED_TOKENS, MOST_EXPLAINED_STEPS = 128, 128  # an explanation runs the model so often as it has steps


class Refused(UserError):
    """A request that is refused, with the status of the answer."""

    def __init__(self, status: int, message: str, hint: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message, hint)
        self.status, self.headers = status, headers or {}


@dataclass(frozen=True)
class ServedModel:
    """A model by its name."""

    name: str
    task_model: TaskModel
    has_pairs: bool
    source: str

    @property
    def kind(self) -> Kind:
        """The kind of its task."""
        return self.task_model.kind

    @cached_property
    def _learnt(self) -> dict[str, str]:
        """The names of the columns that its run learnt from, and what they are in a row."""
        saved = saved_config(self.source)
        return {saved[key]: key for key in ("text", "text_pair") if saved.get(key)}

    def named(self, row: Row) -> Row:
        """A row whose columns have the names used here; unchanged if two would have the same name."""
        found = {self._learnt.get(name, name): cell for name, cell in row.items()}
        return found if len(found) == len(row) else row

    @property
    def _needs(self) -> str:
        return "a pair of texts" if self.has_pairs else self.kind.needs

    @property
    def sample(self) -> Row:
        """A row as it takes them."""
        sample = {key: each.strip() if isinstance(each, str) else each for key, each in self.kind.sample.items()}
        return {**sample, **({"text_pair": "It is bad."} if self.has_pairs else {})}

    @property
    def described(self) -> dict[str, Any]:
        """The model in the words of `GET /health`."""
        labels = {"labels": list(self.task_model.task.labels)} if self.kind.names_outputs else {}
        can = {"explains": bool(self.kind.evidence_unit)}
        return {"name": self.name, "kind": self.kind.name, "takes": self._needs, **labels, "sample": self.sample, **can}

    def count_tokens(self, rows: list[Row]) -> int:
        """The number of tokens of all texts in rows."""
        values = (value for row in rows for value in row.values())
        texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
        return sum(map(len, self.task_model.tokenizer.encode_ids(texts)))

    @cached_property
    def _with_gradients(self) -> TaskModel:
        """The model in float32, loaded when the first explanation is asked for."""
        return load_for_rows(self.source, self.kind, "float32", 1, has_gradients=True)

    def explain(self, rows: list[Row]) -> tuple[list[Prediction], int]:
        """As `TaskModel.predict_rows`, of one row, with its explanation. Raises Refused if it is too long."""
        if self.count_tokens(rows) > MOST_EXPLAINED_TOKENS:
            what = f"A text with more than {MOST_EXPLAINED_TOKENS} tokens is not explained here."
            raise Refused(422, what, "Send a shorter one, or type: bert predict --text TEXT --explain")
        model = self._with_gradients
        predictions, lost = model.predict_rows(rows)
        found = explained(model, zip(rows, predictions, strict=True), None, self.name, MOST_EXPLAINED_STEPS)
        return [prediction for _, prediction in found], lost.inputs

    def check(self, row: Row) -> None:
        """Raise Refused if the model does not take a row."""
        form = form_of_row(row)
        if form not in self.kind.inputs or (self.has_pairs and form != "pair"):
            sample = json.dumps(self.sample, ensure_ascii=False)
            raise Refused(422, f"The model `{self.name}` needs {self._needs}.", f"Send {sample}; see /docs.")
        try:
            self.kind.check_input(row, self.task_model.tokenizer, self.task_model.longest, None)
        except UserError as error:
            raise Refused(422, error.message, error.hint) from None


@dataclass(frozen=True)
class Asked:
    """A request: the model, its rows, whether they came as a list, and whether the answer is to be explained."""

    model: ServedModel
    rows: list[Row]
    is_list: bool
    is_explained: bool


def read_request(body: bytes, name: str | None, models: dict[str, ServedModel], most: int) -> Asked:
    """What is asked; the model is named in the path or in the rows. Raises Refused if something is wrong."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(422, "The request is not JSON.", FORM) from None
    rows = given if isinstance(given, list) else [given]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise Refused(422, "The request is neither an object nor a list of one or more objects.", FORM)
    if len(rows) > most:
        raise Refused(413, f"The request has {len(rows):,} rows; the maximum is {most:,}.", "Send fewer at a time.")
    model = _model([name, *(row.pop("model", None) for row in rows)], models)
    explain = [row.pop("explain", False) for row in rows]
    rows = [model.named(row) for row in rows]
    for row in rows:
        _check_columns(row)
        model.check(row)
    return Asked(model, rows, isinstance(given, list), _is_explained(explain, model))


def _is_explained(explain: list[Any], model: ServedModel) -> bool:
    """Whether the one row is to be explained. Raises Refused if there are several, or the model cannot be explained."""
    if not all(isinstance(each, bool) for each in explain):
        raise Refused(422, "`explain` is neither true nor false.", FORM)
    if any(explain) and len(explain) > 1:
        raise Refused(422, "One row at a time is explained.", "Send each alone, or leave `explain` out.")
    if any(explain) and not model.kind.evidence_unit:
        raise Refused(422, f"The model `{model.name}` gives neither a label nor a value.", "Leave `explain` out.")
    return any(explain)


def _model(names: list[Any], models: dict[str, ServedModel]) -> ServedModel:
    """The model by the names in the path and in the rows, of which some may be missing. Raises Refused."""
    given, known = [name for name in names if name is not None], ", ".join(models)
    if any(name != given[0] for name in given):
        raise Refused(422, "The request names several models.", "Send a request to each.")
    if not given and len(models) > 1:
        raise Refused(422, "Several models are served, and the request names none.", f'Name one as "model": {known}.')
    name = given[0] if given else next(iter(models))
    if not isinstance(name, str) or name not in models:
        raise Refused(404, "There is no such model here.", f"Name one as `model`: {known}.")
    return models[name]


def _check_columns(row: dict[str, Any]) -> None:
    """Check that the columns of a row are a form of input, and their types. Raises Refused."""
    if strange := next((key for key in row if key not in COLUMNS), None):
        known = f"Known: {', '.join(COLUMNS)}, model, explain."
        raise Refused(422, f"A row has the unknown key `{ascii(strange[:40])[1:-1]}`.", known)
    if {*row} not in FORMS:
        known = "Send a text, alone or with text_pair or choices, or a question with its context."
        raise Refused(422, f"A row has {' and '.join(row) or 'nothing'}, which is no form of input.", known)
    for key, value in row.items():
        if key == "choices" and not (isinstance(value, list) and 2 <= len(value) <= MOST_CHOICES):
            raise Refused(422, f"`choices` is not a list of 2 to {MOST_CHOICES} texts.", FORM)
        if not all(map(_is_text, value if key == "choices" else [value])):
            raise Refused(422, f"`{key}` is not text.", FORM)


def _is_text(value: Any) -> bool:
    """Whether a value is text that can be written as UTF-8: JSON may name half of a surrogate pair."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False
