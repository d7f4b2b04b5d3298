"""Tags of entities, one a word (BERT section 5.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import cast

from bertcli.data.labelled import conll
from bertcli.data.labelled.examples import Examples, Sentences
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.kinds.words import WordKind
from bertcli.tasks.task import Task


class Tagging(WordKind):
    """The words of entities, by the schemes of CoNLL; scored by entities, as conlleval does."""

    name = "tag"
    metrics = ("f1", "precision", "recall")
    metric_class = "entities.Entities"
    marks = "entities"

    def recognizes(self, path: Path, label: str | None) -> bool:
        return super().recognizes(path, label) and conll.are_of_entities(conll.first_tags(path, label))

    def check_tags(self, sentences: Sentences) -> None:
        for place, own in zip(sentences.places or (), sentences.tags or (), strict=True):
            if strange := [tag for tag in own if not conll.TAG.fullmatch(tag)]:
                what = f"{place}: the sentence has the tag `{strange[0]}`, which is not of an entity."
                how = "Tags are O, B-TYPE, I-TYPE, E-TYPE (or L-), S-TYPE (or U-); for others: --kind label-words"
                raise UserError(what, how)

    def has_made(self, saved: t.Saved) -> bool:
        names = [*saved.id2label.values()]
        return super().has_made(saved) and (conll.are_of_entities(names) or names[0].startswith("LABEL_"))

    def not_learnt(self, labels: Counter[str], learnt: Collection[str]) -> Counter[str]:
        types = {"", *(tag.partition("-")[2] for tag in learnt)}
        return Counter({label: count for label, count in labels.items() if label.partition("-")[2] not in types})

    def spans(self, tags: list[str]) -> Iterable[t.Span]:
        from bertcli.metrics.tags import entities

        return entities(tags)

    def in_words(self, task: Task, compared: t.Compared, metrics: dict[str, float]) -> str:
        found, right = metrics["recall"], metrics["precision"]
        return f"It finds about {found:.0f} of 100 entities in new sentences, and {right:.0f} of 100 that it marks are right"

    def error_types(self, task: Task, compared: t.Compared) -> dict[str, int]:
        from bertcli.metrics.tags import entity_outcomes

        pairs = zip(compared["predictions"], compared["references"], strict=True)
        return dict(Counter(outcome for given, true in pairs for outcome in entity_outcomes(given, true)).most_common())

    def mistakes(self, task: Task, examples: Examples, predictions: t.Predictions, compared: t.Compared) -> t.Mistakes:
        rows = zip(cast(Sentences, examples).words, compared["references"], predictions, strict=True)
        for row, (words, true, prediction) in enumerate(rows):
            gold, predicted = list(self.spans(true)), list(self.spans(prediction["tags"]))
            wrong = set(gold) ^ set(predicted)
            shown = [[f"{kind}: {' '.join(words[a : b + 1])}" for kind, a, b in side] for side in (gold, predicted)]
            if wrong:
                named = {"gold": shown[0], "predicted": shown[1], "wrong_entities": len(wrong)}
                yield len(wrong), {"example": row + 1, "text": " ".join(words), **named}


TAGGING = Tagging()
