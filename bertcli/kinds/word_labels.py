"""A label for each word, such as its part of speech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import cast

from bertcli.data.labelled.examples import Examples, Sentences
from bertcli.kinds import types as t
from bertcli.kinds.words import WordKind
from bertcli.tasks.task import Task


class WordLabels(WordKind):
    """Labels that are not of entities; scored by the proportion of words whose label is right."""

    name = "label-words"
    metrics = ("accuracy", "macro_f1")
    metric_class = "entities.WordLabels"
    marks = "words"
    has_rare_labels = True

    def spans(self, tags: list[str]) -> Iterable[t.Span]:
        return [(tag, word, word) for word, tag in enumerate(tags)]

    def label_scores(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.LabelScores:
        scores, _ = super().label_scores(task, predictions, compared)
        true, given = (self.flat(compared[side]) for side in ("references", "predictions"))
        counts = Counter(zip(true, given, strict=True))
        return scores, [[counts[label, other] for other in scores] for label in scores]

    def in_words(self, task: Task, compared: t.Compared, metrics: dict[str, float]) -> str:
        return f"It labels about {metrics['accuracy']:.0f} of 100 words of new sentences right"

    def mistakes(self, task: Task, examples: Examples, predictions: t.Predictions, compared: t.Compared) -> t.Mistakes:
        rows = zip(cast(Sentences, examples).words, compared["references"], predictions, strict=True)
        for row, (words, true, prediction) in enumerate(rows):
            given = prediction["tags"]
            wrong = [word for word, tag in enumerate(true) if given[word] != tag]
            if wrong:
                shown = [[f"{side[word]}: {words[word]}" for word in wrong] for side in (true, given)]
                named = {"gold": shown[0], "predicted": shown[1], "wrong_words": len(wrong)}
                yield len(wrong), {"example": row + 1, "text": " ".join(words), **named}


WORD_LABELS = WordLabels()
