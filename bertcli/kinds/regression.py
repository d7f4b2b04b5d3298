"""A value for a text or a pair."""

from __future__ import annotations

from decimal import ROUND_UP
from typing import Any, cast

from bertcli import without_exponent
from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.data.labelled.own_labels import NO_NUMBER, Unit
from bertcli.data.labelled.prediction_table import PredictionTable
from bertcli.data.text.tables import are_numbers
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.kinds.text import TextKind
from bertcli.tasks.task import Task

LARGEST = 1e15  # of the values that are learnt: their squares are added in float32


class Regression(TextKind):
    """One output, squared error; scored by Spearman and Pearson correlation."""

    name = "regress"
    problem_type = "regression"
    metrics = ("spearmanr", "pearson")
    metric_class = "regression.Regression"
    has_linear_head = True
    needs_float32 = True
    evidence_unit = "value"
    says = "value"
    has_probabilities = False
    example = """print(json.dumps({"value": float(logits[0, 0])}))"""

    def missing_labels(self, labels: list[str]) -> set[str]:
        return NO_NUMBER

    def check_labels(self, examples: TextExamples) -> None:
        """Raise UserError at the first label that is not a finite number, but for missing ones, which are left out."""
        self._check_values(examples, may_lack=True)

    def _check_values(self, examples: TextExamples, may_lack: bool = False) -> None:
        for row, label in enumerate(examples.labels or ()):
            if may_lack and not label:
                continue
            if not are_numbers([label]) or abs(float(label)) > LARGEST:
                what = f"{examples.place(row)} has the label `{label}`, not a number up to {LARGEST:.0e}."
                raise UserError(what, "Give --kind classify, or correct it.")

    def targets(self, task: Task, examples: TextExamples) -> t.Labels | None:
        """The values, [examples]. Raises UserError at the first that is not a finite number."""
        import numpy as np

        self._check_values(examples)
        return None if examples.labels is None else np.array(examples.labels, dtype=np.float32)

    def unit(self, task: Task, examples: Examples) -> Unit | None:
        values: Any = self.targets(task, cast(TextExamples, examples))
        return Unit(float(values.mean()), float(values.std()) or 1.0)

    def fit_head(self, states: t.Floats, targets: t.Labels, outputs: int, strength: float) -> t.LinearHead:
        import numpy as np
        from sklearn.linear_model import Ridge

        found = Ridge(alpha=1 / strength).fit(states, targets)
        return found.coef_[None], np.array([found.intercept_])

    def losses(self, outputs: t.Outputs, batch: t.Batch) -> t.Outputs:
        from torch.nn.functional import mse_loss

        return {"loss": mse_loss(outputs["logits"].float()[:, 0], batch.labels["labels"], reduction="sum")}

    def distance(self, outputs: t.Outputs, taught: t.Outputs, temperature: float) -> t.Logits:
        from torch.nn.functional import mse_loss

        return mse_loss(outputs["logits"].float(), taught["logits"], reduction="sum")

    def evidence(self, logits: t.Logits, output: int) -> t.Logits:
        return logits[:, output]

    def predict(self, labels: tuple[str, ...], logits: t.Floats) -> t.Prediction:
        return {"value": float(logits[0])}

    def parse(self, task: Task, table: PredictionTable) -> t.Predictions:
        return [{"value": value} for value in table.numbers(table.values)]

    def in_words(self, task: Task, compared: t.Compared, metrics: dict[str, float]) -> str:
        errors = sorted(abs(given - true) for true, given in self.values(compared))
        most = without_exponent(errors[len(errors) // 2], 3, ROUND_UP)
        return f"For half of new texts its value is at most {most} away from the true one"

    def values(self, compared: t.Compared) -> list[tuple[float, float]]:
        return list(zip(map(float, compared["references"]), compared["predictions"], strict=True))

    def mistake(self, names: list[str], prediction: t.Prediction, given: Any, true: Any) -> t.Mistake | None:
        error = given - float(true)
        shown = {"gold": round(float(true), 6), "predicted": round(given, 6), "error": round(error, 6)}
        return (abs(error), shown) if error else None


REGRESSION = Regression()
