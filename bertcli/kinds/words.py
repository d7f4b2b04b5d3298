"""What the kinds that label words share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, ClassVar, cast

from bertcli import number_of, say
from bertcli.data.labelled import conll
from bertcli.data.labelled.examples import Examples, Sentences
from bertcli.data.labelled.own_labels import listed
from bertcli.data.labelled.own_splits import sizes_of
from bertcli.data.labelled.prediction_table import check_order
from bertcli.data.text.files import ending_of, lines_of
from bertcli.data.text.tables import LIST_ENDINGS, are_numbers, json_value, read_table, stream_table
from bertcli.errors import UserError
from bertcli.families import family_of
from bertcli.kinds import types as t
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.kinds.text import check_count
from bertcli.tasks.task import Files, Task


class WordKind(Kind):
    """Softmax over the tags of each word, read off its first piece."""

    architectures = ("TokenClassification",)
    head = "word_logits"  # tag logits of each word, read off its first piece, [W, C]
    pipeline = "token-classification"
    inputs = ("text", "mask")
    needs = "one text"
    says = "tags"
    marks: ClassVar[str]  # the key of what is shown of a text
    options = ("frozen",)
    own_columns = ("label",)
    purpose = "token labelling"
    names_outputs = True
    sample: ClassVar[t.Row] = {"text": " Ada Lovelace lived in London"}  # words are read as after a space
    example = """words = {}  # start, end and tag of each, the tag being that of its first token
for place, (word, (start, end)) in enumerate(zip(encodings[0].word_ids, encodings[0].offsets)):
    words.setdefault(word, [start, end, labels[logits[0, place].argmax()]])[1] = end
print(json.dumps([[texts[0][start:end].strip(), tag] for word, (start, end, tag) in words.items() if word is not None]))"""
    has_probabilities = False
    has_windows = True
    reads_words = True

    def read(self, task: Task, split: str, path: Path) -> Sentences:
        return conll.read_conll(path)

    def read_hub(self, task: Task, split: str, dataset: Any) -> Sentences:
        return conll.sentences_of_hub(dataset)

    def recognizes(self, path: Path, label: str | None) -> bool:
        if ending_of(path) in LIST_ENDINGS:
            return conll.list_columns(next(stream_table(path)[1])[1], label) is not None
        return conll.has_columns_of_words(path)

    def check_tags(self, sentences: Sentences) -> None:
        """Raise UserError if there is a tag that is none of the kind's."""

    def read_own(self, name: str, files: dict[str, list[Path]], columns: dict[str, str | None]) -> t.OwnData:
        label = columns.get("label")
        parts = {split: _all_sentences(paths, label) for split, paths in files.items()}
        for part in parts.values():
            self.check_tags(part)
        tags = sorted({tag for part in parts.values() for sentence in part.tags or () for tag in sentence})
        if are_numbers(chain.from_iterable(next(iter(parts.values())).words)):
            what = f"Every word of `{name}` is a number: its first column numbers the words."
            raise UserError(what, f"Leave that column out: cut -f2- {name} > words.conll")
        first = next(iter(files.values()))[0]
        lists = f"lists of words and {label or 'tags'}" if ending_of(first) in LIST_ENDINGS else ""
        where = lists or conll.columns_of(first, label).shown
        known = f"{number_of(len(tags), 'tag')}{listed(tags)}"
        say(f"{name}: {sizes_of(parts, 'sentence')}; {where}; kind: {self.name}, {known}")
        own = Files({}, {"label": label} if label else {})
        return Task(name, self.name, own, ("", None), self.metrics, tuple(tags)), dict(parts)

    def labels_of(self, task: Task, examples: Examples) -> Iterable[str]:
        return chain.from_iterable(cast(Sentences, examples).tags or ())

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> t.Features:
        from bertcli.data.packing.tag_features import encode_sentences

        return encode_sentences(cast(Sentences, examples), encoder.tokenizer, encoder.rules, task.labels)

    def model_class(self, saved: t.Saved, config: dict[str, Any] | None) -> Any:
        from bertcli.models.own.frozen import FrozenBertForTokenClassification, saved_layers

        if (saved_layers(saved) if config is None else config.get("frozen_layers")) is None:
            return super().model_class(saved, config)
        if not family_of(saved.model_type).is_original:
            what = f"--frozen reads the layers of a BERT; this model is a {saved.model_type}."
            raise UserError(what, "Give --from a BERT, or leave --frozen out.")
        return FrozenBertForTokenClassification

    def keeps_head(self, saved: t.Saved, config: dict[str, Any]) -> bool:
        from bertcli.models.own.frozen import saved_layers

        return super().keeps_head(saved, config) and saved_layers(saved) == config.get("frozen_layers")

    def numbers_of(self, features: Any, rows: t.Labels) -> t.Labels:
        import numpy as np

        counts = features.places.lengths
        last = np.cumsum(counts)
        return np.concatenate([np.arange(last[row] - counts[row], last[row]) for row in rows])

    def add_unlabelled(self, task: Task, examples: Examples, more: Examples) -> Examples:
        own, others = cast(Sentences, examples), cast(Sentences, more)
        tags = [[task.labels[0]] * len(words) for words in others.words]
        return Sentences([*own.words, *others.words], [*(own.tags or ()), *tags], origin=own.origin)

    def decode(self, task: Task, split: Split, outputs: t.ModelOutputs, tokenizer: t.Tokenizer) -> t.Predictions:
        from scipy.special import softmax

        rows = (row.astype("float64") for row in outputs.get("logits", []))
        words = ((task.labels[row.argmax()], round(float(softmax(row).max()), 6)) for row in rows)
        sentences = [list(islice(words, len(own))) for own in cast(Sentences, split.examples).words]
        return [{"tags": [tag for tag, _ in own], "scores": [score for _, score in own]} for own in sentences]

    def input_examples(self, rows: Sequence[t.Row], tokenizer: t.Tokenizer) -> Sentences:
        texts = [row["text"] for row in rows]
        places = zip(map(_places_of_given, rows), _word_places(texts, tokenizer), strict=True)
        characters = [given or found for given, found in places]
        words = [[text[a:b] for a, b in places] for text, places in zip(texts, characters, strict=True)]
        return _WordsOfTexts(words, characters=characters, origin="the input")

    def spans(self, tags: list[str]) -> Iterable[t.Span]:
        """What the tags of a sentence mark."""
        raise NotImplementedError

    def show(self, task: Task, row: t.Row, prediction: t.Prediction, examples: Examples, number: int) -> t.Prediction:
        found, places = [], cast(_WordsOfTexts, examples).characters[number]
        for label, first, last in self.spans(prediction["tags"]):
            start, end = places[first][0], places[last][1]
            scores = prediction["scores"][first : last + 1]
            score = round(sum(scores) / len(scores), 6)
            found.append({"text": row["text"][start:end], "label": label, "start": start, "end": end, "score": score})
        return ({"tags": prediction["tags"]} if _places_of_given(row) else {}) | {self.marks: found}

    def read_predictions(self, task: Task, split: Split, path: Path, na_probs: Path | None = None) -> t.Predictions:
        is_table = ending_of(path) in LIST_ENDINGS or "tags" in re.split("[,\t]", next(lines_of(path), "").rstrip())
        tags = _tags_of_table(path, split) if is_table else _tags_of_columns(path, task, split)
        if strange := self.not_learnt(Counter(chain.from_iterable(tags)), task.labels):
            what = ", ".join(f"`{tag}` ({count:,})" for tag, count in strange.most_common(5))
            say(f"{path}: tags of unknown types count as errors: {what}")
        predictions = [{"tags": own} for own in tags]
        check_count(task, split, path, predictions)
        return predictions

    def compare(self, task: Task, examples: Examples, predictions: t.Predictions) -> t.Compared:
        tags = [each["tags"] for each in predictions]
        return {"predictions": tags, "references": list(cast(Sentences, examples).tags or [])}

    def flat(self, answers: list[Any]) -> list[Any]:
        return list(chain.from_iterable(answers))

    def label_scores(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.LabelScores:
        from bertcli.metrics.counts import label_scores

        return label_scores(*self.metric(task).counts(**compared)), []

    def confidences(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.Confidences:
        pairs = zip(predictions, compared["references"], strict=True)
        words = (zip(each.get("scores", ()), each["tags"], truths, strict=False) for each, truths in pairs)
        return [(score, given == true) for sentence in words for score, given, true in sentence]


@dataclass(frozen=True)
class _WordsOfTexts(Sentences):
    """The words of texts, with the start and the end of each in characters."""

    characters: list[list[tuple[int, int]]] = field(kw_only=True)


def _places_of_given(row: t.Row) -> list[tuple[int, int]]:
    """Start and end of each word of a text that was given as a list of words."""
    lists = (cell for cell in row.get("columns", {}).values() if isinstance(cell, list))
    lists = (cell for cell in lists if all(isinstance(word, str) for word in cell))
    words: list[str] = next((cell for cell in lists if " ".join(cell) == row["text"]), [])
    ends = accumulate(map(len, words), lambda end, length: end + 1 + length)
    return [(end - len(word), end) for end, word in zip(ends, words, strict=True)]


def _word_places(texts: list[str], tokenizer: t.Tokenizer) -> list[list[tuple[int, int]]]:
    """Start and end of each word; a space before it, which some tokenizers count in, is not part of it."""
    found = []
    for text, encoding in zip(texts, tokenizer.encode(texts), strict=True):
        spans: dict[int | None, tuple[int, int]] = {}
        for word, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
            spans[word] = (spans[word][0] if word in spans else start, end)
        found.append([(end - len(text[start:end].lstrip()), end) for start, end in spans.values()])
    return found


def _all_sentences(paths: list[Path], label: str | None) -> Sentences:
    files = [conll.read_sentences(path, label) for path in paths]
    columns = ([each.words, each.tags or [], each.places or []] for each in files)
    words, tags, places = (list[Any](chain.from_iterable(column)) for column in zip(*columns, strict=True))
    skipped = sum(each.skipped for each in files)
    return Sentences(words, tags, origin=", ".join(map(str, paths)), places=places, skipped=skipped)


def _tags_of_columns(path: Path, task: Task, split: Split) -> list[list[str]]:
    given, asked = conll.read_conll(path), cast(Sentences, split.examples).words
    pairs = enumerate(zip(given.words, asked, strict=False), 1)
    other = next((number for number, (words, wanted) in pairs if words != wanted), None)
    if other and len(given) == len(asked):
        what = f"Sentence {other} of `{path}` has other words than the {split.name} split of {task.name}."
        raise UserError(what, "Give the sentences of the split, in its order.")
    return given.tags or []


def _tags_of_table(path: Path, split: Split) -> list[list[str]]:
    check_order(table := read_table(path), cast(Sentences, split.examples).words)
    column = "tags_2" if "tags_2" in table.names else "tags"  # `predict` names its own so beside those of the input
    if column not in table.names:
        raise UserError(f"`{path}` has no `tags`.", f"It has {', '.join(table.names)}.")
    cells = (row.get(column) for row in table.cells)
    lists: list[Any] = [json_value(cell) if isinstance(cell, str) else cell for cell in cells]
    strange = next((number for number, tags in enumerate(lists) if not isinstance(tags, list)), None)
    if strange is not None:
        raise UserError(f"{table.place(strange)} has no list of tags.", 'Give one tag a word: {"tags": ["B-PER", "O"]}')
    return [[str(tag) for tag in tags] for tags in lists]
