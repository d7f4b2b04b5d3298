"""The worst mistakes: the surest wrong predictions, the largest errors, the sentences and answers most wrong."""

from collections.abc import Iterator
from typing import Any

from bertcli import say
from bertcli.data.labelled.conll import Sentences
from bertcli.data.labelled.official_files import TextExamples
from bertcli.data.labelled.predictions import NO_PREDICTION
from bertcli.data.labelled.squad import Questions
from bertcli.lifecycle.sources import Prepared
from bertcli.tasks.task import Task

Record = dict[str, Any]
Compared = dict[str, list[Any]]
Found = Iterator[tuple[Any, Record]]  # how bad a mistake is, greater is worse, and the mistake
Wrong = tuple[float | None, Record]  # how bad a prediction is, nothing for a right one, and what is said of it


def worst_mistakes(
    task: Task, prepared: Prepared, records: list[Record], compared: Compared, count: int
) -> list[Record]:
    """The `count` worst mistakes, each with its number in the split, its text, what is true and what was predicted.

    Without probabilities, equally wrong predictions stay in the order of the split, which is said.
    """
    if not count:
        return []
    find = {"tag": _tags, "span": _answers}.get(task.kind, _texts)
    found = sorted(find(task, prepared, records, compared), key=lambda pair: pair[0], reverse=True)
    has_scores = any("score" in record or "scores" in record for record in records)
    if found and task.kind not in ("regress", "tag") and not has_scores:
        say("no probabilities are given: mistakes that are equally wrong are in the order of the split")
    return [mistake for _, mistake in found[:count]]


def _texts(task: Task, prepared: Prepared, records: list[Record], compared: Compared) -> Found:
    """Examples of texts, by their numbers from 1; in the user's own file also by their lines."""
    texts = prepared.examples
    assert isinstance(texts, TextExamples)
    for row, (record, true) in enumerate(zip(records, compared["references"], strict=True)):
        badness, said = WRONG[task.kind](task, (texts.choices or [[]] * len(texts))[row], record, true)
        if badness is not None:
            place = {"place": texts.places[row]} if texts.places is not None else {}
            pair = {"text_pair": texts.pairs[row]} if texts.pairs is not None else {}
            yield badness, {"example": row + 1, **place, "text": texts.texts[row], **pair, **said}


def _said(record: Record, gold: Any, predicted: Any) -> Record:
    return {"gold": gold, "predicted": predicted, "probability": record.get("score")}


def _label(task: Task, choices: list[str], record: Record, true: Any) -> Wrong:
    is_wrong = record["label"] != task.labels[true]
    return record.get("score", 0.0) if is_wrong else None, _said(record, task.labels[true], record["label"])


def _choice(task: Task, choices: list[str], record: Record, true: Any) -> Wrong:
    is_wrong = record["choice"] != true
    return record.get("score", 0.0) if is_wrong else None, _said(record, choices[true], choices[record["choice"]])


def _value(task: Task, choices: list[str], record: Record, true: Any) -> Wrong:
    error = record["value"] - float(true)
    said = {"gold": round(float(true), 6), "predicted": round(record["value"], 6), "error": round(error, 6)}
    return abs(error) or None, said


def _label_set(task: Task, choices: list[str], record: Record, true: Any) -> Wrong:
    """The probability is that of the surest of an example's wrong decisions."""
    gold = [name for name, has in zip(task.labels, true, strict=False) if has]
    scores, wrong = record.get("scores"), set(gold) ^ set(record["labels"])
    sure = max(abs((name in gold) - scores.get(name, 0.0)) for name in wrong) if scores and wrong else None
    said = {"gold": gold, "predicted": record["labels"], "probability": sure}
    return (sure if scores else len(wrong)) if wrong else None, said


WRONG = {"classify": _label, "choose": _choice, "regress": _value, "multilabel": _label_set}


def _tags(task: Task, prepared: Prepared, records: list[Record], compared: Compared) -> Found:
    from bertcli.metrics.entities import entities

    assert isinstance(prepared.examples, Sentences)
    rows = zip(prepared.examples.words, compared["references"], records, strict=True)
    for row, (words, true, record) in enumerate(rows):
        gold, predicted = list(entities(true)), list(entities(record["tags"]))
        wrong = set(gold) ^ set(predicted)
        said = [[f"{kind}: {' '.join(words[a : b + 1])}" for kind, a, b in side] for side in (gold, predicted)]
        if wrong:
            named = {"gold": said[0], "predicted": said[1], "wrong_entities": len(wrong)}
            yield len(wrong), {"example": row + 1, "text": " ".join(words), **named}


def _answers(task: Task, prepared: Prepared, records: list[Record], compared: Compared) -> Found:
    from bertcli.metrics.squad import Squad

    assert isinstance(prepared.examples, Questions)
    questions = {question.id: question.question for question in prepared.examples.asked}
    version = "squad_v2" if task.with_impossible else "squad"
    _, f1 = Squad(version, keep_in_memory=True).answer_scores(**compared)
    for record, truths, share in zip(records, compared["references"], f1, strict=True):
        if share < 1:
            given = None if record["answer"] == NO_PREDICTION else record["answer"]
            asked = {"id": record["id"], "question": questions[record["id"]], "f1": round(100 * share, 6)}
            yield (-share, record.get("score", 0.0)), asked | _said(record, list(dict.fromkeys(truths)), given)
