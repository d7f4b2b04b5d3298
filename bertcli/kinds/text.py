"""What the kinds of task over texts, pairs and choices share: columns, inputs, and rows of predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from bertcli.data.labelled import own_labels
from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.data.labelled.official_files import read_official, texts_of_hub
from bertcli.data.labelled.prediction_table import PredictionTable
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.tasks.task import Task

LABELS_SHOWN = 20
NEVER = -10.0  # a bias
SMALLEST_SHARE = 1e-10  # of the largest variance; smaller ones are rounding
FEW_ROWS = 1500  # of sparse features, which as many numbers hold
WORTH = 3000  # the eigenvectors of R rows take as long as L-BFGS for R³ / WORTH weights
MOST_WEIGHTS = 2**20  # of sparse features that L-BFGS fits; SAGA takes a third of its time for more
FEWEST_PASSES, FEWEST_READ = 10, 30_000  # of SAGA: passes over the examples, and examples in all passes together
POOLING = "classifier_pooling"  # in config.json, as ModernBERT's spells it


class TextKind(Kind):
    """A kind whose examples are rows of texts with a label in a column."""

    architectures = ("SequenceClassification",)
    reads_tables = True
    head = "sequence_logits"  # [N, C]
    inputs: ClassVar[tuple[str, ...]] = ("text", "pair", "mask")

    def read(self, task: Task, split: str, path: Path) -> TextExamples:
        return read_official(task, split, path)

    def read_hub(self, task: Task, split: str, dataset: Any) -> TextExamples:
        return texts_of_hub(task, split, dataset)

    def missing_labels(self, labels: list[str]) -> set[str]:
        """How missing labels are spelled in the user's own files."""
        return own_labels.missing_labels(labels)

    def lacks_label(self, label: str) -> bool:
        """Whether a row with this label is left out."""
        return not label

    def check_labels(self, examples: TextExamples) -> None:
        """Check the labels of the user's own rows, and say what is unusual about them."""

    def learn_labels(self, task: Task, labels: list[str]) -> Task:
        """The task of the user's own files, with what their labels say; `task.files.label_form` is that of a run, if known."""
        return own_labels.with_distinct(task, labels) if self.names_outputs else task

    def described(self, task: Task, labels: list[str]) -> str:
        """The labels of a task of the user's own, in words; `labels` are those of all rows."""
        names = [f"`{label}`" if "," in label else label for label in task.labels]
        return f", {len(names):,} label{'s' * (len(names) > 1)}{own_labels.listed(names)}" if names else ""

    def targets(self, task: Task, examples: TextExamples) -> t.Labels | None:
        """The labels as numbers, [examples]. Raises UserError at the first label that the task does not have."""
        import numpy as np

        if examples.labels is None:
            return None
        index = {name: task.labels.index(label) for name, label in task.spellings.items()}
        for row, label in enumerate(examples.labels):
            if label not in index:
                raise unknown_label(examples.place(row), label, task.labels)
        return np.array([index[label] for label in examples.labels], dtype=np.int64)

    def model_class(self, saved: t.Saved, config: dict[str, Any] | None) -> Any:
        pooling = getattr(saved, POOLING, None) if config is None else config.get(POOLING)
        if pooling != "mean" or saved.model_type != "bert":
            return super().model_class(saved, config)
        from bertcli.models.heads import MeanPooledBertForSequenceClassification

        return MeanPooledBertForSequenceClassification

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> t.Features:
        from bertcli.data.packing.text_features import encode_choices, encode_texts
        from bertcli.data.packing.text_windows import encode_in_windows

        texts = cast(TextExamples, examples)
        if encoder.rules.in_windows:
            return encode_in_windows(texts, encoder.tokenizer, encoder.rules, self.targets(task, texts))
        encode = encode_texts if texts.choices is None else encode_choices
        return encode(texts, encoder.tokenizer, encoder.rules.max_seq_length, self.targets(task, texts))

    def add_unlabelled(self, task: Task, examples: Examples, more: Examples) -> Examples:
        own, others = cast(TextExamples, examples), cast(TextExamples, more)
        if own.choices is not None:
            return super().add_unlabelled(task, examples, more)  # which says that there are none
        if (own.pairs is None) != (others.pairs is None):
            what = "The unlabelled examples are not of the form of the labelled ones."
            raise UserError(what, f"Give texts as {task.name} has them.")
        pairs = None if own.pairs is None or others.pairs is None else [*own.pairs, *others.pairs]
        labels = [*(own.labels or ()), *(own.labels or ("",))[:1] * len(others)]
        return TextExamples([*own.texts, *others.texts], pairs, labels, origin=own.origin)

    def inputs_that_are_cut(self, split: Split, rules: t.Rules) -> tuple[int, str]:
        if not rules.in_windows:
            return super().inputs_that_are_cut(split, rules)
        return len(split), f"texts longer than {rules.limit_in_words}"

    def decode(self, task: Task, split: Split, outputs: t.ModelOutputs, tokenizer: t.Tokenizer) -> t.Predictions:
        return [self.predict(task.labels, row.astype("float64")) for row in outputs.get("logits", [])]

    def predict(self, labels: tuple[str, ...], logits: t.Floats) -> t.Prediction:
        """The prediction for an example, from its logits, [C]."""
        raise NotImplementedError

    def input_examples(self, rows: Sequence[t.Row], tokenizer: t.Tokenizer) -> TextExamples:
        pairs, choices = ([row[key] for row in rows] if key in rows[0] else None for key in ("text_pair", "choices"))
        return TextExamples([row["text"] for row in rows], pairs, choices=choices, origin="the input")

    def read_predictions(self, task: Task, split: Split, path: Path, na_probs: Path | None = None) -> t.Predictions:
        predictions = self.parse(task, PredictionTable.read(path, cast(TextExamples, split.examples), not task.hub[0]))
        check_count(task, split, path, predictions)
        return predictions

    def parse(self, task: Task, table: PredictionTable) -> t.Predictions:
        """The predictions of a table, with their probabilities where it has them."""
        raise NotImplementedError

    def compare(self, task: Task, examples: Examples, predictions: t.Predictions) -> t.Compared:
        true = self.targets(task, cast(TextExamples, examples))
        assert true is not None
        return {"predictions": [each[self.says] for each in predictions], "references": true.tolist()}

    def in_words(self, task: Task, compared: t.Compared, metrics: dict[str, float]) -> str:
        pairs = list(zip(compared["predictions"], compared["references"], strict=True))
        share = 100 * sum(given == true for given, true in pairs) / len(pairs)
        return f"Of 100 new texts it gets about {share:.0f} right"

    def confidences(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.Confidences:
        answers = zip(predictions, compared["predictions"], compared["references"], strict=True)
        return [(each["score"], bool(given == true)) for each, given, true in answers if "score" in each]

    def mistakes(self, task: Task, examples: Examples, predictions: t.Predictions, compared: t.Compared) -> t.Mistakes:
        texts, labels = cast(TextExamples, examples), label_names(task, predictions)
        answers = zip(predictions, compared["predictions"], compared["references"], strict=True)
        for row, (prediction, given, true) in enumerate(answers):
            found = self.mistake(texts.choices[row] if texts.choices else labels, prediction, given, true)
            if found is not None:
                place = {"place": texts.places[row]} if texts.places is not None else {}
                pair = {"text_pair": texts.pairs[row]} if texts.pairs is not None else {}
                yield found[0], {"example": row + 1, **place, "text": texts.texts[row], **pair, **found[1]}

    def mistake(self, names: list[str], prediction: t.Prediction, given: Any, true: Any) -> t.Mistake | None:
        """How wrong a prediction is, and what is shown of it; None if it is right. `given` and `true` are as compared."""
        score = prediction.get("score")
        shown = {"gold": names[true], "predicted": names[given], "probability": score}
        return (score or 0.0, shown) if given != true else None


def check_count(task: Task, split: Split, path: Path, predictions: t.Predictions) -> None:
    """Check that there is one prediction per example. Raises UserError if not."""
    if len(predictions) != len(split):
        raise UserError(
            f"`{path}` has {len(predictions)} predictions, the {split.name} split of {task.name} {len(split)} examples.",
            "Give one prediction per example, in the order of the split"
            + ("." if task.hub[0] else "; those of the part that a run held out: add --model RUN."),
        )


def unknown_label(place: str, label: str, labels: Iterable[str]) -> UserError:
    """The error for a label that the task does not have."""
    hint = f"Its labels: {', '.join(list(labels)[:LABELS_SHOWN])}."
    return UserError(f"{place} has the label `{label}`, which is not a label of the task.", hint)


def label_names(task: Task, predictions: t.Predictions) -> list[str]:
    """The labels of the task, and those that only the model has."""
    given = (label for each in predictions for label in each.get("labels", [each.get("label")]))
    return list(dict.fromkeys([*task.labels, *given]))


def rounded(shares: t.Floats) -> list[float]:
    """Probabilities to six decimals."""
    return [round(share, 6) for share in shares.tolist()]


def fit_logistic(states: t.Floats, targets: t.Labels, outputs: int, strength: float) -> t.LinearHead:
    """Logistic regression of class numbers; classes without an example get a bias that keeps them from being predicted."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    weights, biases = np.zeros((outputs, states.shape[1])), np.full(outputs, NEVER)
    if len(np.unique(targets)) == 1:
        biases[targets[0]] = 0
        return weights, biases
    solver, back = cast(dict[str, Any], {"max_iter": 300, "tol": 1e-3}), None
    if hasattr(states, "tocsr"):
        solver, rows = {"max_iter": 1000}, states.shape[0]
        if rows <= FEW_ROWS and rows**3 < WORTH * weights.size:
            states, back = _as_few_numbers(states)
        elif weights.size > MOST_WEIGHTS:
            solver = {"solver": "saga", "max_iter": max(FEWEST_PASSES, FEWEST_READ // rows)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # many classes of few examples
        found = LogisticRegression(C=strength, random_state=0, **solver).fit(states, targets)
    fitted, intercepts = found.coef_ if back is None else found.coef_ @ back.T, found.intercept_
    if len(found.classes_) == 2:  # scikit-learn gives two classes one output
        fitted, intercepts = np.concatenate([-fitted, fitted]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    weights[found.classes_], biases[found.classes_] = fitted, intercepts
    return weights, biases


def _as_few_numbers(states: Any) -> tuple[Any, Any]:
    """Sparse rows as [N, N] with the same products, to which the same is fitted sooner, and what takes weights back, [H, N]."""
    import numpy as np

    values, vectors = np.linalg.eigh((states @ states.T).toarray())
    kept = values >= SMALLEST_SHARE * values[-1]
    roots = np.sqrt(np.maximum(values[kept], np.finfo(float).tiny))
    return vectors[:, kept] * roots, states.T @ (vectors[:, kept] / roots)
