"""Records of a model's outputs, and their scores: one function a kind."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.metrics import confusion_matrix

from bertcli import say
from bertcli.data.labelled.conll import Sentences
from bertcli.data.labelled.official_files import TextExamples
from bertcli.data.labelled.predictions import in_other_case
from bertcli.data.labelled.squad import Questions
from bertcli.data.packing.span_answers import AnswerRules, choose_answers
from bertcli.data.packing.span_features import SpanFeatures, WindowRules
from bertcli.data.packing.text_features import LABELS
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.kernels.prepacked import prepack
from bertcli.kinds.architecture import kind_of, load, with_loss
from bertcli.lifecycle.sources import Prepared, encode_split
from bertcli.metrics.counts import label_scores
from bertcli.models.encoder import longest_input
from bertcli.models.inference import RowOutputs, run_model
from bertcli.models.loading import check_length, check_vocabulary
from bertcli.models.model_with_loss import ModelWithLoss
from bertcli.models.packed import is_packed
from bertcli.models.working_copy import cast_weights
from bertcli.tasks.task import Task
from bertcli.training.device import inference_device, inference_tokens, resolve_precision, training_precision
from bertcli.training.memory import keep_freed_memory
from bertcli.training.run_folder import saved_config

Record = dict[str, Any]
Compared = dict[str, list[Any]]  # what a metric takes: `predictions` and `references`, an entry an example
CORRELATIONS = {"matthews_correlation": "Matthews", "pearson": "Pearson", "spearmanr": "Spearman"}
THRESHOLD = 0.5  # of the probability from which on a label is given, where an example may have several


@dataclass(frozen=True)
class Scorer:
    """A fine-tuned model, ready to be run on the examples of its kind."""

    task: Task
    objective: ModelWithLoss
    tokenizer: WordPiece
    rules: WindowRules
    device: torch.device
    dtype: str = "float32"

    def predict(self, prepared: Prepared) -> list[Record]:
        """One record an example, in input order; a split that is not encoded is."""
        if prepared.features is None:
            prepared = encode_split(self.task, prepared, self.tokenizer, self.rules)
        assert prepared.features is not None
        outputs = run_model(self.objective, prepared.features, self.device, inference_tokens(), self.dtype)
        return decode(self.task, prepared, outputs, self.tokenizer)


def load_scorer(task: Task, model: str, precision: str, fast: bool = False) -> Scorer:
    """Load a fine-tuned model for a task; its labels, by name and order, are the model's, its lengths those of its run.

    Where it is to be `fast`, a CPU multiplies prepacked weights, in bfloat16 where it can: labels hardly change, scores do a bit.

    Raises:
        UserError: if the model is of another kind, or has other labels.
    """
    keep_freed_memory()
    loaded = load(task.kind, model)
    if kind_of(loaded.config) != task.kind:
        raise UserError(
            f"The model `{model}` ({', '.join(loaded.config.architectures or [])}) is not of the kind `{task.kind}`.",
            f"Give a model of the task: --model RUN, or make one: bert finetune {task.learnt_as or task.name}",
        )
    if task.names_outputs:
        task = replace(task, labels=_model_labels(loaded.config.id2label, task, model))
    tokenizer, saved = load_tokenizer(model), saved_config(model)
    rules = WindowRules(
        saved.get("max_seq_length") or min(task.max_seq_length, longest_input(loaded)),
        saved.get("doc_stride") or 128,
        (saved.get("max_query_length") or 64) if task.kind == "span" else 0,
    )
    check_vocabulary(loaded, tokenizer, model)
    check_length(loaded, rules.max_seq_length)
    device = inference_device()
    dtype = training_precision(precision, loaded.config.hidden_size) if fast else resolve_precision(precision)
    objective = with_loss(loaded, task.kind).to(device)
    if dtype == "bfloat16" and device.type == "cpu":
        cast_weights(objective, torch.bfloat16)  # once, not in each product
    if fast and device.type == "cpu" and is_packed(loaded):
        prepack(loaded)
    return Scorer(task, objective, tokenizer, rules, device, dtype)


def _model_labels(id2label: dict[int, str], task: Task, model: str) -> tuple[str, ...]:
    """The model's label names in its own order, in the task's case; LABEL_0 ..., which say nothing, are in the task's order."""
    given = [id2label[index] for index in range(len(id2label))]
    spelled = in_other_case(given, task.labels, model)
    names = tuple(spelled.get(name, name) for name in given)
    if not task.labels or set(names) == set(task.labels):
        return names
    if len(names) == len(task.labels) and all(name.startswith("LABEL_") for name in names):
        say(f"the labels of {model} have no names; taken in the order {', '.join(task.labels)}")
        return task.labels
    if set(task.labels) <= set(names) or (not task.hub[0] and set(task.labels) & set(names)):
        return names  # where an own file has another label, its line is named when it is encoded
    raise UserError(
        f"The model `{model}` knows the labels {', '.join(names[:8])}, not those of {task.name}.",
        f"Give a model of the task: --model RUN, or make one: bert finetune {task.learnt_as or task.name}",
    )


def decode(task: Task, prepared: Prepared, outputs: RowOutputs, tokenizer: WordPiece) -> list[Record]:
    """A record an example of what a model gave for all rows."""
    if task.kind == "span":
        return _answers(task, prepared, outputs, tokenizer)
    rows = (row.astype(np.float64) for row in outputs.get("logits", []))
    if task.kind == "tag":
        assert isinstance(prepared.examples, Sentences)
        return [_tags(task.labels, list(islice(rows, len(words)))) for words in prepared.examples.words]
    return [DECODE[task.kind](task.labels, row) for row in rows]


def _label(labels: tuple[str, ...], logits: NDArray[np.float64]) -> Record:
    """The most probable label, with the probabilities of all."""
    shares = _rounded(softmax(logits))
    best = int(logits.argmax())
    return {"label": labels[best], "score": shares[best], "scores": dict(zip(labels, shares, strict=True))}


def _value(labels: tuple[str, ...], logits: NDArray[np.float64]) -> Record:
    return {"value": float(logits[0])}


def _label_set(labels: tuple[str, ...], logits: NDArray[np.float64]) -> Record:
    """The labels that are more probable than not, with the probabilities of all."""
    shares = expit(logits)
    given = [name for name, share in zip(labels, shares, strict=True) if share >= THRESHOLD]
    return {"labels": given, "scores": dict(zip(labels, _rounded(shares), strict=True))}


def _choice(labels: tuple[str, ...], logits: NDArray[np.float64]) -> Record:
    """The number of the most probable choice, from 0, with the probabilities of all."""
    shares, best = _rounded(softmax(logits)), int(logits.argmax())
    return {"choice": best, "score": shares[best], "scores": shares}


DECODE: dict[str, Callable[[tuple[str, ...], NDArray[np.float64]], Record]] = {
    "classify": _label,
    "regress": _value,
    "multilabel": _label_set,
    "choose": _choice,
}


def _tags(labels: tuple[str, ...], words: list[NDArray[np.float64]]) -> Record:
    """The most probable tag of each word of a sentence, with its probability."""
    tags = [labels[int(logits.argmax())] for logits in words]
    return {"tags": tags, "scores": [round(float(softmax(logits).max()), 6) for logits in words]}


def _rounded(shares: NDArray[np.float64]) -> list[float]:
    return [round(share, 6) for share in shares.tolist()]


def _answers(task: Task, prepared: Prepared, outputs: RowOutputs, tokenizer: WordPiece) -> list[Record]:
    assert isinstance(prepared.features, SpanFeatures)
    assert isinstance(prepared.examples, Questions)
    windows = prepared.features.windows
    sides = (outputs.get("start", []), outputs.get("end", []))
    logits = [
        (start[: len(window.input_ids)], end[: len(window.input_ids)])
        for window, start, end in zip(windows, *sides, strict=True)
    ]
    rules = AnswerRules(with_impossible=task.with_impossible)
    answers = choose_answers(prepared.examples.asked, windows, logits, tokenizer, rules)
    without = sum(not answer.had_candidate for answer in answers)
    if without:
        say(f"{without} questions have no valid span; their answer is empty")
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


def score(task: Task, prepared: Prepared, records: list[Record]) -> dict[str, float]:
    """Score records against the truth, by the metrics of the task; the first chooses the best checkpoint.

    Raises:
        UserError: if the split has no labels.
    """
    return measure(task, compare(task, prepared, records))


def compare(task: Task, prepared: Prepared, records: list[Record]) -> Compared:
    """Put records beside the truth as the metrics of the kind take them.

    Raises:
        UserError: if the split has no labels.
    """
    check_labelled(task, prepared)
    compared = _compare_answers(prepared, records) if task.kind == "span" else _compare(task, prepared, records)
    _say_degenerate(task, compared["predictions"], compared["references"])
    return compared


def check_labelled(task: Task, prepared: Prepared) -> None:
    """Check that a split can be scored.

    Raises:
        UserError: if it has no labels.
    """
    examples = prepared.examples
    if (examples.tags if isinstance(examples, Sentences) else getattr(examples, "labels", ())) is None:
        hint = "Score the dev split: --split dev"
        if "dev" not in task.hub_splits:
            hint = f"Give the official files, which have them: --data-dir DIR; or: bert submit glue RUN ({task.name} is part of it)"
        raise UserError(f"The split `{prepared.split}` of {task.name} has no labels.", hint)


def measure(task: Task, compared: Compared) -> dict[str, float]:
    """The scores that the task names, for spans all that there are, to six decimals; a threshold stays as it is."""
    scores = metric_of(task).compute(**compared)
    names = [*task.metrics, *(name for name in scores if task.kind == "span" and name not in task.metrics)]
    shown = {name: scores[name] for name in names if name in scores}
    return {name: score if name.endswith("_thresh") else round(score, 6) for name, score in shown.items()}


def metric_of(task: Task) -> Any:
    """The metric that scores tasks of the kind; one of `evaluate`'s modules."""
    module, name = METRICS[task.kind].split(".")
    version = ("squad_v2" if task.with_impossible else "squad") if task.kind == "span" else None
    return getattr(import_module(f"bertcli.metrics.{module}"), name)(version, keep_in_memory=True)


METRICS = {
    "classify": "classification.Classification",
    "regress": "regression.Regression",
    "multilabel": "multilabel.MultiLabel",
    "choose": "classification.Classification",
    "tag": "entities.Entities",
    "span": "squad.Squad",
}


def score_labels(
    task: Task, records: list[Record], compared: Compared
) -> tuple[dict[str, dict[str, float]], list[list[int]]]:
    """Precision, recall, F1 and support of each label, or type of entity, and the confusion of classes.

    The confusion has a row for each true label, and in it how often each label was predicted; other kinds have none.
    """
    if task.kind == "tag":
        return label_scores(*metric_of(task).counts(**compared)), []
    if task.kind == "multilabel":
        return label_scores(metric_of(task).counts(**compared), _label_names(task, records)), []
    if task.kind != "classify":
        return {}, []
    names = _label_names(task, records)
    confusion = confusion_matrix(compared["references"], compared["predictions"], labels=range(len(names)))
    return label_scores(metric_of(task).counts(**compared, labels=len(names)), names), confusion.tolist()


def _say_degenerate(task: Task, predicted: list[Any], true: list[Any]) -> None:
    """Say which scores are 0 because they are not defined, and that a model that says one thing has learnt nothing."""
    if task.kind == "tag":
        predicted = list(chain.from_iterable(predicted))
    named = [name for metric, name in CORRELATIONS.items() if metric in task.metrics]
    for what, values in (("prediction", predicted), ("label", true)):
        if named and len(set(values)) == 1:
            say(f"{' and '.join(named)} correlation is 0 because every {what} is the same")
    if task.kind == "classify" and "f1" in task.metrics and 1 not in {*predicted, *true}:
        say(f"F1 is 0 because no prediction and no label is `{task.labels[1]}`")
    if len(predicted) > 1 and len({str(prediction) for prediction in predicted}) == 1:
        say(
            "every prediction is the same: the model has not learnt the task (another seed or a lower --learning-rate may)"
        )


def _label_names(task: Task, records: list[Record]) -> list[str]:
    """The labels of the task, and those that only the model knows."""
    given = (label for record in records for label in record.get("labels", [record.get("label")]))
    return list(dict.fromkeys([*task.labels, *given]))


def _compare(task: Task, prepared: Prepared, records: list[Record]) -> Compared:
    if task.kind == "tag":
        assert isinstance(prepared.examples, Sentences)
        return {"predictions": [record["tags"] for record in records], "references": list(prepared.examples.tags or [])}
    assert isinstance(prepared.examples, TextExamples)
    true: list[Any] = list(LABELS[task.kind](prepared.examples, task))  # type: ignore[arg-type]
    if task.kind in ("regress", "choose"):
        return {"predictions": [record.get("value", record.get("choice")) for record in records], "references": true}
    names = _label_names(task, records)
    if task.kind == "classify":
        number = {name: index for index, name in enumerate(names)}
        return {"predictions": [number[record["label"]] for record in records], "references": true}
    true = [[*row, *[0] * (len(names) - len(row))] for row in true]
    return {
        "predictions": [[int(name in record["labels"]) for name in names] for record in records],
        "references": true,
    }


def _compare_answers(prepared: Prepared, records: list[Record]) -> Compared:
    from bertcli.metrics.squad import NO_ANSWER_ABOVE

    assert isinstance(prepared.examples, Questions)
    compared: Compared = {
        "predictions": [record["answer"] for record in records],
        "references": [prepared.examples.answers[record["id"]] or [""] for record in records],
    }
    given = [record.get("null_odds") for record in records]
    if any(value is not None for value in given):
        odds = [-math.inf if value is None else value for value in given]  # without odds the answer stands
        none = sum(odd > NO_ANSWER_ABOVE and row["answer"] != "" for odd, row in zip(odds, records, strict=True))
        if none:
            say(f"{none} answers count as none: their no-answer score is above {NO_ANSWER_ABOVE:g}")
        compared["na_probs"] = odds
    return compared
