"""Records of a model's outputs, and their scores: one function a kind."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.prepared import Prepared
from bertcli.data.span_answers import AnswerRules, choose_answers
from bertcli.data.span_features import SpanFeatures, WindowRules
from bertcli.data.text_features import label_ids, label_values
from bertcli.data.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.models.heads import Objective
from bertcli.models.inference import Rows, run_model
from bertcli.tasks.task import Task
from bertcli.training.device import micro_batch_tokens

logger = logging.getLogger("bertcli")
Record = dict[str, Any]
Compared = dict[str, list[Any]]  # what a metric takes: `predictions` and `references`, an entry an example
Known = TypeVar("Known")
CORRELATIONS = {"matthews_correlation": "Matthews", "pearson": "Pearson", "spearmanr": "Spearman"}


@dataclass(frozen=True)
class Scorer:
    """A fine-tuned model, ready to be run on the examples of its kind."""

    task: Task
    objective: Objective
    tokenizer: WordPiece
    rules: WindowRules
    device: torch.device
    dtype: str = "float32"

    def predict(self, prepared: Prepared) -> list[Record]:
        """One record an example, in input order."""
        assert prepared.features is not None
        outputs = run_model(self.objective, prepared.features, self.device, micro_batch_tokens(None), self.dtype)
        return DECODE[self.task.kind](self.task, prepared, outputs, self.tokenizer)


def _decode_labels(task: Task, prepared: Prepared, outputs: Rows, tokenizer: WordPiece) -> list[Record]:
    """The most probable label of each example, with the probabilities of all."""
    records = []
    for row in outputs.get("logits", []):
        shares = _softmax(row)
        best = int(shares.argmax())
        scores = {name: round(float(share), 6) for name, share in zip(task.labels, shares, strict=True)}
        records.append({"label": task.labels[best], "score": scores[task.labels[best]], "scores": scores})
    return records


def _decode_values(task: Task, prepared: Prepared, outputs: Rows, tokenizer: WordPiece) -> list[Record]:
    return [{"value": float(row[0])} for row in outputs.get("logits", [])]


def _decode_answers(task: Task, prepared: Prepared, outputs: Rows, tokenizer: WordPiece) -> list[Record]:
    assert isinstance(prepared.features, SpanFeatures)
    windows = prepared.features.windows
    sides = (outputs.get("start", []), outputs.get("end", []))
    logits = [
        (start[: len(window.input_ids)], end[: len(window.input_ids)])
        for window, start, end in zip(windows, *sides, strict=True)
    ]
    rules = AnswerRules(with_impossible=task.name == "squad_v2")
    answers = choose_answers(prepared.questions, windows, logits, tokenizer, rules)
    without = sum(not answer.had_candidate for answer in answers)
    if without:
        logger.info("%d questions have no valid span; their answer is empty", without)
    return [
        {
            "id": answer.id,
            "answer": answer.text,
            "score": next((round(c.probability, 6) for c in answer.n_best if c.text == answer.text), 0.0),
            "null_odds": answer.null_odds,
            "answer_object": answer,
        }
        for answer in answers
    ]


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True), dtype=np.float64)
    shares: NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)
    return shares


DECODE: dict[str, Callable[[Task, Prepared, Rows, WordPiece], list[Record]]] = {
    "classify": _decode_labels,
    "regress": _decode_values,
    "span": _decode_answers,
}


def score(task: Task, prepared: Prepared, records: list[Record]) -> dict[str, float]:
    """Score records against the truth, by the metrics of the task; the first chooses the best checkpoint.

    Raises:
        UserError: if the split has no labels.
    """
    compared = COMPARE[task.kind][0](task, prepared, records)
    _say_degenerate(task, compared["predictions"], compared["references"])
    return measure(task, compared)


def measure(task: Task, compared: Compared) -> dict[str, float]:
    """The scores that the task names, for spans all that there are, to six decimals; a threshold stays as it is."""
    module, name = COMPARE[task.kind][1].split(".")
    metric = getattr(import_module(f"bertcli.metrics.{module}"), name)
    scores = metric(task.name if task.kind == "span" else None, keep_in_memory=True).compute(**compared)
    names = [*task.metrics, *(name for name in scores if task.kind == "span" and name not in task.metrics)]
    shown = {name: scores[name] for name in names if name in scores}
    return {name: score if name.endswith("_thresh") else round(score, 6) for name, score in shown.items()}


def _say_degenerate(task: Task, predicted: list[Any], true: list[Any]) -> None:
    """Say which scores are 0 because they are not defined, and that a model that says one thing has learnt nothing."""
    named = [name for metric, name in CORRELATIONS.items() if metric in task.metrics]
    for what, values in (("prediction", predicted), ("label", true)):
        if named and len(set(values)) == 1:
            logger.info("%s correlation is 0 because every %s is the same", " and ".join(named), what)
    if task.kind == "classify" and "f1" in task.metrics and 1 not in {*predicted, *true}:
        logger.info("F1 is 0 because no prediction and no label is `%s`", task.labels[1])
    if len({str(prediction) for prediction in predicted}) == 1:
        logger.info(
            "every prediction is the same: the model has not learnt the task (another seed or a lower --learning-rate may)"
        )


def _compare_labels(task: Task, prepared: Prepared, records: list[Record]) -> Compared:
    assert prepared.texts is not None
    names = dict.fromkeys([*task.labels, *(record["label"] for record in records)])  # a model may know more
    number = {name: index for index, name in enumerate(names)}
    true = _known(task, prepared, label_ids(prepared.texts, task.labels, task.file_labels))
    return {"predictions": [number[record["label"]] for record in records], "references": list(true)}


def _compare_values(task: Task, prepared: Prepared, records: list[Record]) -> Compared:
    assert prepared.texts is not None
    true = _known(task, prepared, label_values(prepared.texts))
    return {"predictions": [record["value"] for record in records], "references": list(true)}


def _compare_answers(task: Task, prepared: Prepared, records: list[Record]) -> Compared:
    from bertcli.metrics.squad import NO_ANSWER_ABOVE

    compared: Compared = {
        "predictions": [record["answer"] for record in records],
        "references": [prepared.answers[record["id"]] or [""] for record in records],
    }
    odds = [record.get("null_odds") for record in records]
    if any(value is not None for value in odds):
        compared["na_probs"] = [
            -math.inf if value is None else value for value in odds
        ]  # without odds the answer stands
        none = sum(
            odd > NO_ANSWER_ABOVE and row["answer"] != ""
            for odd, row in zip(compared["na_probs"], records, strict=True)
        )
        if none:
            logger.info("%d answers count as none: their no-answer score is above %g", none, NO_ANSWER_ABOVE)
    return compared


def _known(task: Task, prepared: Prepared, truth: Known | None) -> Known:
    if truth is None:
        raise UserError(
            f"The split `{prepared.split}` of {task.name} has no labels.", "Score the dev split: --split dev"
        )
    return truth


COMPARE: dict[str, tuple[Callable[[Task, Prepared, list[Record]], Compared], str]] = {
    "classify": (_compare_labels, "classification.Classification"),
    "regress": (_compare_values, "regression.Regression"),
    "span": (_compare_answers, "squad.Squad"),
}
