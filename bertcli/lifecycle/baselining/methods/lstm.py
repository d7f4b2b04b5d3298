"""An LSTM in one direction or both over the words of texts, or of sentences to tag."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from bertcli.config.baselines import STATIC, BaselineConfig
from bertcli.data.labelled.examples import Examples, Sentences, TextExamples
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split
from bertcli.kinds.text import TextKind
from bertcli.kinds.types import Labels, Predictions
from bertcli.lifecycle.baselining.methods.linear_texts import TEXT_KINDS, WORD_KINDS, inputs_of, per_example
from bertcli.lifecycle.baselining.methods.method import Baseline, Fitting, Floats, Method
from bertcli.lifecycle.baselining.methods.word_vectors import SIZE, check_gensim, train_vectors
from bertcli.lifecycle.baselining.methods.words import words_of
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    from bertcli.lifecycle.baselining.methods.recurrent import Recurrent, WordIds

UNITS = 128  # of each direction
MIN_FREQUENCY = 2  # of a word with a vector of its own
UNKNOWN = ("lower", "upper", "capitalized", "digits", "other")  # first vectors: of other words, by how they are written

# N inputs, W words of all sentences, C labels, P parameters


@dataclass(frozen=True)
class WordLstm(Baseline):
    """The words that have vectors, and all weights of the network as one array."""

    json_types: ClassVar = {"words": list, "parts": int}
    needs_dev: ClassVar = True
    is_bidirectional: ClassVar[bool] = False
    is_tagger: ClassVar[bool] = False
    words: list[str]
    parts: int  # texts of an input: 1, or 2 for pairs
    parameters: Floats  # [P]

    @classmethod
    def check(cls, config: BaselineConfig) -> None:
        """Raise UserError if a text is missing, or gensim where it starts from static vectors."""
        super().check(config)
        if config.vectors == STATIC:
            check_gensim()

    @classmethod
    def fit(cls, setup: Fitting) -> Self:
        """Train it by Adam; the best epoch on the dev set is kept."""
        from bertcli.lifecycle.baselining.methods.recurrent import train
        from bertcli.models.heads import answer_in

        examples = setup.train.examples
        counts = Counter(chain.from_iterable(chain.from_iterable(cls.inputs(examples))))
        kept = [word for word, count in counts.items() if count >= MIN_FREQUENCY]
        words = sorted(kept, key=lambda word: (-counts[word], word))
        parts = len(next(iter(cls.inputs(examples))))
        unfitted = cls(words, parts, np.zeros(0, dtype=np.float32))
        network = unfitted.network(setup.task, setup.config.seed, setup.config.dropout)
        if setup.config.vectors == STATIC:
            found = train_vectors(setup)
            own = [row for row, word in enumerate(words) if word.lower() in found.rows]
            table = found.table[[found.rows[words[row].lower()] for row in own]]
            network.set_vectors([len(UNKNOWN) + row for row in own], table)

        def score_on_dev() -> dict[str, float]:
            from bertcli import quietly
            from bertcli.lifecycle.scoring.scores import score

            fitted = cls(words, parts, network.flat())
            with quietly():
                return score(setup.task, setup.dev[0], fitted.predict(setup.task, setup.dev[0].examples))

        unit = setup.kind.unit(setup.task, examples)
        targets = [unit.around_zero(each) if unit else each for each in cls.targets(setup, setup.train)]
        network.set_flat(train(network, unfitted.ids(examples), targets, setup, score_on_dev))
        if unit:
            answer_in(unit, network)
        return cls(words, parts, network.flat())

    @classmethod
    @abstractmethod
    def inputs(cls, examples: Examples) -> Iterable[list[list[str]]]:
        """The words of each input, of one text or two."""

    @classmethod
    @abstractmethod
    def targets(cls, setup: Fitting, split: Split) -> list[Any]:
        """The target of each example, a number or an array."""

    def network(self, task: Task, seed: int = 0, dropout: float = 0.0) -> Recurrent:
        """The network with new weights, drawn by the seed."""
        from bertcli.lifecycle.baselining.methods.recurrent import Recurrent, Shape

        outputs = len(task.labels) if KINDS[task.kind].names_outputs else 1
        sizes = (SIZE, UNITS, self.is_bidirectional, self.is_tagger, self.parts, outputs)
        return Recurrent(Shape(len(UNKNOWN) + len(self.words), *sizes), seed, dropout)

    def ids(self, examples: Examples) -> WordIds:
        """The words as numbers: for each input, its one text or two; inputs by example."""
        numbered = [[self._numbers(own) for own in parts] for parts in self.inputs(examples)]
        choices = getattr(examples, "choices", None)
        counts = [len(each) for each in choices] if choices is not None else [1] * len(examples)
        return [numbered[start:end] for start, end in pairwise(np.cumsum([0, *counts]).tolist())]

    def _numbers(self, words: list[str]) -> Any:
        rows = [self._rows[word] if word in self._rows else _unknown(word) for word in words]
        return np.array(rows or [_unknown("")], dtype=np.int64)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words, start=len(UNKNOWN))}

    def outputs(self, task: Task, examples: Examples) -> list[Any]:
        """The outputs of each example in order, [inputs, C], or [words, C]."""
        network = self.network(task)
        network.set_flat(self.parameters)
        return network.run(self.ids(examples))

    def is_sound(self, task: Task) -> bool:
        """Whether there are as many parameters as the network has."""
        return self.parts in (1, 2) and self.network(task).flat().shape == self.parameters.shape

    def notes(self, task: Task) -> list[str]:
        """The size of the network."""
        units = f"{UNITS} units in each direction, {len(self.parameters):,} parameters"
        return [f"{len(self.words):,} words with vectors of {SIZE} numbers, {units}."]


class TextLstm(WordLstm):
    """The largest value of each unit over the words of a text, and a linear head."""

    @classmethod
    def inputs(cls, examples: Examples) -> Iterable[list[list[str]]]:
        """The words of one text or two, in lower case."""
        return ([words_of(text) for text in parts] for parts in inputs_of(cast(TextExamples, examples)))

    @classmethod
    def targets(cls, setup: Fitting, split: Split) -> list[Any]:
        """The targets of the kind."""
        return list(cast(Labels, cast(TextKind, setup.kind).targets(setup.task, cast(TextExamples, split.examples))))

    def predict(self, task: Task, examples: Examples) -> Predictions:
        """One prediction per example."""
        kind, texts = cast(TextKind, KINDS[task.kind]), cast(TextExamples, examples)
        if not len(texts):
            return []
        logits = np.concatenate(self.outputs(task, examples)).astype(np.float64)
        return [kind.predict(task.labels, each) for each in per_example(texts, logits)]


class TagLstm(WordLstm):
    """A linear head on the states of each word."""

    is_tagger: ClassVar = True

    @classmethod
    def inputs(cls, examples: Examples) -> Iterable[list[list[str]]]:
        """The words of each sentence, as they are written."""
        return ([words] for words in cast(Sentences, examples).words)

    @classmethod
    def targets(cls, setup: Fitting, split: Split) -> list[Any]:
        """The number of each tag."""
        number = {label: index for index, label in enumerate(setup.task.labels)}
        return [np.array([number[tag] for tag in own]) for own in cast(Sentences, split.examples).tags or ()]

    def predict(self, task: Task, examples: Examples) -> Predictions:
        """The tags of each sentence, each with its probability."""
        logits = list(chain.from_iterable(self.outputs(task, examples)))
        return KINDS[task.kind].decode(task, Split("", examples), {"logits": logits}, cast(Any, None))


class BothWaysTextLstm(TextLstm):
    """The same in both directions."""

    is_bidirectional: ClassVar = True


class BothWaysTagLstm(TagLstm):
    """The same in both directions."""

    is_bidirectional: ClassVar = True


def _unknown(word: str) -> int:
    """The vector of a word that has none of its own."""
    if any(map(str.isdigit, word)):
        return UNKNOWN.index("digits")
    if word.islower() or word.isupper():
        return UNKNOWN.index("lower" if word.islower() else "upper")
    return UNKNOWN.index("capitalized" if word[:1].isupper() else "other")


FORWARD = "An LSTM that reads the words from left to right."
BOTH_WAYS = "Two LSTMs that read the words in both directions."
LSTM = Method("lstm", {**dict.fromkeys(TEXT_KINDS, TextLstm), **dict.fromkeys(WORD_KINDS, TagLstm)}, FORWARD)
BILSTM = Method(
    "bilstm", {**dict.fromkeys(TEXT_KINDS, BothWaysTextLstm), **dict.fromkeys(WORD_KINDS, BothWaysTagLstm)}, BOTH_WAYS
)
