"""The answer to a question as a span of its context (BERT sections 4.2 and 4.3)."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

from bertcli import say
from bertcli.data.labelled import squad
from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.own_splits import sizes_of
from bertcli.data.labelled.prediction_table import finite, read_by_question
from bertcli.data.text.tables import check_file
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.tasks.task import Files, Task

SPAN_HEAD, JOINT = "span_head", "joint"  # in config.json: the head of models/own/joint_spans.py
BEYOND = -1e4  # the logit of a place beyond the end of a sequence, where -inf would make the divergence no number
# What is scored for a question that a file leaves out: no true answer equals it, not even an empty one.
NO_PREDICTION = "\N{REPLACEMENT CHARACTER}"


class Span(Kind):
    """Start and end over the tokens of windows, by run_squad.py's rules; scored by exact match and F1."""

    name = "span"
    architectures = ("QuestionAnswering",)
    head = "span_logits"  # start and end logits of every token, a row a sequence, [N, S]; -inf beyond the end of a sequence
    pipeline = "question-answering"
    metrics = ("f1", "exact_match")
    metric_class = "squad.Squad"
    inputs = ("question",)
    needs = "a question with its context"
    says = "answer"
    compared_with = ("id", "null_odds")
    sample: ClassVar[t.Row] = {"question": "Who wrote it?", "context": "It was written by Ada."}
    example = """start, end = logits[0], outputs[1][0]  # the best start and end in the context, the end not before the start
sums = np.triu(start[:, None] + end) - 1e9 * np.tril(np.ones((len(start), len(end))), -1)
outside = [place for place, part in enumerate(encodings[0].sequence_ids) if part != 1]
sums[outside] = sums[:, outside] = -1e9
first, last = np.unravel_index(sums.argmax(), sums.shape)
print(json.dumps({"answer": texts[0][1][encodings[0].offsets[first][0] : encodings[0].offsets[last][1]]}))"""
    official_file = "predictions.json"
    options = ("span_head", "max_query_length", "max_answer_length")
    purpose = "answers as spans"
    needs_teachers_tokens = True
    has_windows = True
    scores_all = True
    max_seq_length = 384
    max_query_length = 64

    def read(self, task: Task, split: str, path: Path) -> squad.Articles:
        return squad.Articles(squad.read_squad(path), origin=task.name)

    def read_hub(self, task: Task, split: str, dataset: Any) -> squad.Articles:
        return squad.Articles(squad.articles_of_hub(dataset), origin=task.name)

    def recognizes(self, path: Path, label: str | None) -> bool:
        return squad.is_whole(path) or squad.has_rows(path)

    def read_own(self, name: str, files: dict[str, list[Path]], columns: dict[str, str | None]) -> t.OwnData:
        parts = {split: squad.Articles(_contexts(paths), origin=name) for split, paths in files.items()}
        asked = [(split, each) for split, part in parts.items() for _, each in squad.questions_of(part.articles)]
        for (split, id_), count in Counter((split, str(question["id"])) for split, question in asked).most_common(1):
            if count > 1:
                raise UserError(f"`{name}` has two {split} questions with the id `{id_}`.", "Give each its own id.")
        empty = sum((bool(q.get("is_impossible")) or (split == "dev" and not q["answers"]) for split, q in asked))
        say(f"{name}: {sizes_of(parts, 'context')}, {len(asked):,} questions, {empty:,} without an answer; kind: span")
        task = Task(name, self.name, Files({}, {}), ("", None), self.metrics, max_seq_length=self.max_seq_length)
        return replace(task, with_impossible=empty > 0), dict(parts)

    def for_use(self, task: Task, examples: Examples, training: bool) -> squad.Questions:
        articles = cast(squad.Articles, examples).articles
        asked = squad.span_examples(articles, training, task.with_impossible)
        truths = squad.true_answers(articles)
        return squad.Questions(asked, truths, origin=examples.origin, skipped=len(truths) - len(asked))

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> t.Features:
        from bertcli.data.packing.span_features import encode_spans

        return encode_spans(cast(squad.Questions, examples).asked, encoder.tokenizer, encoder.rules, training)

    def model_class(self, saved: t.Saved, config: dict[str, Any] | None) -> Any:
        if (getattr(saved, SPAN_HEAD, None) if config is None else config.get(SPAN_HEAD)) != JOINT:
            return super().model_class(saved, config)
        from bertcli.models.own.joint_spans import CLASSES

        return CLASSES[saved.model_type]

    def outputs(self, model: t.Model, batch: t.Batch) -> t.Outputs:
        is_joint = getattr(model.config, SPAN_HEAD, None) == JOINT
        return cast("t.Outputs", model(batch)) if is_joint else super().outputs(model, batch)

    def inputs_that_are_cut(self, split: Split, rules: t.Rules) -> tuple[int, str]:
        return len(split), f"questions longer than {rules.max_query_length} tokens"

    def losses(self, outputs: t.Outputs, batch: t.Batch) -> t.Outputs:
        """Half of the summed cross entropies of start and end (run_squad.py)."""
        from torch.nn.functional import cross_entropy

        from bertcli.models.own.joint_spans import joint_span_losses

        if "no_answer" in outputs:
            return {"loss": joint_span_losses(outputs, batch)}
        true = {side: batch.labels[f"{side}_positions"] for side in ("start", "end")}
        sides = (cross_entropy(outputs[side], places, reduction="sum") for side, places in true.items())
        return {"loss": sum(sides) / 2}  # type: ignore[dict-item]

    def stack(self, arrays: list[t.Floats], lengths: t.Labels) -> t.Floats:
        import numpy as np

        padded = np.full((len(arrays), max(lengths)), -np.inf, dtype=np.float32)
        for row, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
            padded[row, :length] = array[:length]
        return padded

    def distance(self, outputs: t.Outputs, taught: t.Outputs, temperature: float) -> t.Logits:
        from bertcli.models.cross_entropy import soft_divergence

        if "no_answer" in {*outputs, *taught}:
            raise UserError(f"--span-head {JOINT} neither teaches nor is taught.", "Leave --span-head out.")
        sides = ((each[side].clamp(min=BEYOND) for each in (outputs, taught)) for side in ("start", "end"))
        first, last = (soft_divergence(own, theirs, temperature) for own, theirs in sides)
        return (first + last) / 2

    def decode(self, task: Task, split: Split, outputs: t.ModelOutputs, tokenizer: t.Tokenizer) -> t.Predictions:
        from bertcli.data.packing.span_answers import AnswerRules, choose_answers

        features = cast(Any, split.features)
        windows = features.windows
        logits = [
            (start[: len(window.input_ids)], end[..., : len(window.input_ids)])
            for window, start, end in zip(windows, outputs.get("start", []), outputs.get("end", []), strict=True)
        ]
        rules = AnswerRules(max_answer_length=features.max_answer_length, with_impossible=task.with_impossible)
        asked = cast(squad.Questions, split.examples).asked
        none = [float(value) for value in outputs.get("no_answer", ())]
        answers = choose_answers(asked, windows, logits, tokenizer, rules, none)
        if without := sum(not answer.had_candidate for answer in answers):
            say(f"{without} questions have no valid span; their answer is empty")
        scores = (next((c.probability for c in each.n_best if c.text == each.text), 0.0) for each in answers)
        rest = [{"null_odds": each.null_odds, "answer_object": each} for each in answers]
        found = zip(answers, scores, rest, strict=True)
        return [{"id": each.id, "answer": each.text, "score": round(score, 6), **more} for each, score, more in found]

    def input_examples(self, rows: Sequence[t.Row], tokenizer: t.Tokenizer) -> squad.Questions:
        asked = [
            squad.SpanExample(str(n), row["question"], squad.split_words(row["context"])[0])
            for n, row in enumerate(rows)
        ]
        return squad.Questions(asked, {}, origin="the input")

    def show(self, task: Task, row: t.Row, prediction: t.Prediction, examples: Examples, number: int) -> t.Prediction:
        answer, context = prediction["answer_object"], row["context"]
        if not answer.had_candidate:  # then the script of SQuAD 1.1 answers with the word `empty`
            return {"answer": "", "score": 0.0, "start": None, "end": None}
        word = next((c.first_word for c in answer.n_best if c.text == answer.text), -1)
        place = None
        if answer.text and word >= 0:  # it is of the words from this one on, with one space or more between them
            spelt = re.compile(re.escape(answer.text).replace("\\ ", f"[{squad.SEPARATORS}]+"))
            place = spelt.search(context, squad.split_words(context)[1].index(word))
        start, end = place.span() if place else (None, None)
        return {"answer": prediction["answer"], "score": prediction["score"], "start": start, "end": end}

    def files(self, task: Task, predictions: t.Predictions) -> dict[str, str]:
        answers = [each["answer_object"] for each in predictions]
        keys = ("text", "probability", "start_logit", "end_logit")
        n_best = {answer.id: [{key: getattr(c, key) for key in keys} for c in answer.n_best] for answer in answers}
        files = {"predictions.json": {answer.id: answer.text for answer in answers}, "nbest_predictions.json": n_best}
        if task.with_impossible:
            odds = {answer.id: answer.null_odds for answer in answers if answer.null_odds is not None}
            files["null_odds.json"] = odds
        return {name: json.dumps(values, indent=4) + "\n" for name, values in files.items()}

    def kept_predictions(self, folder: Path) -> t.Predictions | None:
        paths = [folder / name for name in ("predictions.json", "nbest_predictions.json", "null_odds.json")]
        if not all(path.exists() for path in paths[:2]):
            return None
        answers, n_best, odds = (json.loads(path.read_text("utf-8")) if path.exists() else {} for path in paths)
        scores = {
            id_: next((each["probability"] for each in n_best.get(id_, ()) if each["text"] == text), 0.0)
            for id_, text in answers.items()
        }
        return [
            {"id": id_, "answer": text, "score": round(scores[id_], 6), "null_odds": odds.get(id_)}
            for id_, text in answers.items()
        ]

    def read_predictions(self, task: Task, split: Split, path: Path, na_probs: Path | None = None) -> t.Predictions:
        answers = read_by_question(path, _text, "text", "answer")
        asked = [question.id for question in cast(squad.Questions, split.examples).asked]
        known, given = set(asked), set(answers)
        if known and not known & given:
            raise UserError(f"`{path}` answers none of the questions of this split.", "Check --split and the task.")
        if known - given:
            say(f"{len(known - given):,} questions have no prediction; they score 0")
        if given - known:
            say(f"{len(given - known):,} predictions for unknown questions are ignored")
        predictions = [{"id": id_, "answer": answers.get(id_, NO_PREDICTION)} for id_ in asked]
        return _with_null_odds(predictions, na_probs) if na_probs else predictions

    def metric_version(self, task: Task) -> str | None:
        return "squad_v2" if task.with_impossible else "squad"

    def compare(self, task: Task, examples: Examples, predictions: t.Predictions) -> t.Compared:
        from bertcli.metrics.squad import NO_ANSWER_ABOVE

        true = cast(squad.Questions, examples).answers
        compared: t.Compared = {"predictions": [each["answer"] for each in predictions]}
        compared["references"] = [true[each["id"]] or [""] for each in predictions]
        given = [each.get("null_odds") for each in predictions]
        if any(value is not None for value in given):
            odds = [-math.inf if value is None else value for value in given]  # without odds the answer stands
            pairs = zip(odds, predictions, strict=True)
            if none := sum(odd > NO_ANSWER_ABOVE and each["answer"] != "" for odd, each in pairs):
                say(f"{none} answers count as none: their no-answer score is above {NO_ANSWER_ABOVE:g}")
            compared["na_probs"] = odds
        return compared

    def in_words(self, task: Task, compared: t.Compared, metrics: dict[str, float]) -> str:
        exact, overlap = metrics["exact_match"], metrics["f1"]
        words = f"It answers about {exact:.0f} of 100 new questions with exactly the right words"
        return f"{words}; on average an answer shares {overlap:.0f} % of its words with the right one (F1)"

    def confidences(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.Confidences:
        exact, _ = cast(Any, self.metric(task)).answer_scores(**compared)
        return [(each["score"], share == 1) for each, share in zip(predictions, exact, strict=True) if "score" in each]

    def error_types(self, task: Task, compared: t.Compared) -> dict[str, int]:
        exact, overlaps = cast(Any, self.metric(task)).answer_scores(**compared)
        rows = zip(compared["predictions"], compared["references"], exact, overlaps, strict=True)
        return dict(Counter(_outcome_of(*row) for row in rows).most_common())

    def mistakes(self, task: Task, examples: Examples, predictions: t.Predictions, compared: t.Compared) -> t.Mistakes:
        """Answers by their F1, then by their probability."""
        questions = {question.id: question.question for question in cast(squad.Questions, examples).asked}
        _, f1 = cast(Any, self.metric(task)).answer_scores(**compared)
        for prediction, truths, share in zip(predictions, compared["references"], f1, strict=True):
            if share < 1:
                given = None if prediction["answer"] == NO_PREDICTION else prediction["answer"]
                id_, score = prediction["id"], prediction.get("score")
                asked = {"id": id_, "question": questions[id_], "f1": round(100 * share, 6)}
                shown = {"gold": list(dict.fromkeys(truths)), "predicted": given, "probability": score}
                yield (-share, score or 0.0), asked | shown


def _contexts(paths: list[Path]) -> list[dict[str, Any]]:
    """Each context as an article of its own."""
    read = (squad.read_rows(path) if squad.has_rows(path) else squad.read_squad(path) for path in paths)
    return [{"paragraphs": [context]} for article in chain.from_iterable(read) for context in article["paragraphs"]]


def _outcome_of(given: str, truths: list[str], exact: float, overlap: float) -> str:
    if exact == 1:
        return "right"
    if not any(truths):
        return "an answer where there is none"
    if not given:
        return "no answer where there is one"
    if not overlap:
        return "another place"
    return "too many words" if len(given.split()) > max(len(truth.split()) for truth in truths) else "too few words"


def _with_null_odds(predictions: t.Predictions, path: Path) -> t.Predictions:
    """Add the no-answer scores, and put the predictions into the order of their file, which decides between equal ones."""
    check_file(path, "Give --na-probs a file.")
    odds = read_by_question(path, finite, "number", "null_odds")
    without = sum(each["id"] not in odds and each["answer"] not in ("", NO_PREDICTION) for each in predictions)
    if without:
        what = f"`{path}` has no number for {without:,} of the questions that are answered."
        raise UserError(what, "Give the null_odds.json that was written beside the predictions.")
    place = {id_: number for number, id_ in enumerate(odds)}
    known = {each["id"]: odds.get(each["id"]) for each in predictions if each["answer"] != NO_PREDICTION}
    ordered = sorted(predictions, key=lambda each: place.get(each["id"], -1))
    return [{**each, "null_odds": known.get(each["id"])} for each in ordered]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


SPAN = Span()
