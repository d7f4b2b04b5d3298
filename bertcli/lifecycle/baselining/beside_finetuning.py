"""What a fine-tuned model is compared with: the guess, and a bag of words with a linear head."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bertcli import say
from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.kinds import KINDS
from bertcli.kinds.types import Predictions
from bertcli.lifecycle.baselining.methods.bag_of_words import bag_of_words
from bertcli.lifecycle.baselining.methods.linear_texts import STRENGTH, texts_of
from bertcli.lifecycle.scoring.cross_validation import cross_validate, fit_and_predict, targets_of
from bertcli.lifecycle.scoring.scores import measure, resampled
from bertcli.metrics.metric import paired_difference
from bertcli.tasks.task import Task
from bertcli.training.result import BAG_OF_WORDS, GUESS

MOST_CHARACTERS = 5_000_000  # of the training texts, so that it takes seconds; of more, examples are drawn


def score_baselines(task: Task, train: Examples, dev: Examples | None, ours: Predictions) -> dict[str, dict[str, Any]]:
    """The scores of two baselines, by name, and the difference of our predictions on the same examples.

    They are the methods `majority` and `bag-of-words` of `bert baseline`, scored on dev, or cross-validated where there is none. Nothing for kinds without a linear head.
    """
    kind = KINDS[task.kind]
    if not kind.has_linear_head:
        return {}
    scored, metric = dev or train, task.metrics[0]
    own = kind.compare(task, scored, ours)
    own_score, own_resampled = measure(task, own)[metric], resampled(task, own)[metric]
    found = {}
    for name, predictions in predict_baselines(task, train, dev).items():
        compared = kind.compare(task, scored, predictions)
        scores = measure(task, compared)
        difference = paired_difference(own_score - scores[metric], own_resampled - resampled(task, compared)[metric])
        found[name] = {"metrics": scores, **difference}
    return found


def predict_baselines(task: Task, train: Examples, dev: Examples | None) -> dict[str, Predictions]:
    """The predictions of the guess and of the bag of words, for dev, or cross-validated where there is none."""
    train, dev = cast(TextExamples, train), cast(TextExamples | None, dev)
    sample = _sample(task, train) if dev else train
    nothing, of_scored = np.zeros((len(sample), 1)), np.zeros((len(dev or sample), 1))
    guess = fit_and_predict(task, nothing, targets_of(task, sample), of_scored, STRENGTH)  # means of folds correlate

    def by_words(fitted: Any, left: Any) -> Predictions:
        return _by_words(task, sample.take(fitted.tolist()), sample.take(left.tolist()))

    return {GUESS: guess, BAG_OF_WORDS: _by_words(task, sample, dev) if dev else cross_validate(task, sample, by_words)}


def _by_words(task: Task, train: TextExamples, scored: TextExamples) -> Predictions:
    words = bag_of_words()
    bag = words.fit_transform(texts_of(train)).tocsr()
    return fit_and_predict(task, bag, targets_of(task, train), words.transform(texts_of(scored)), STRENGTH)


def _sample(task: Task, train: TextExamples) -> TextExamples:
    lengths = np.array(list(map(len, texts_of(train))))
    rows = np.random.default_rng(0).permutation(len(train))
    rows = rows[np.cumsum(lengths[rows]) - lengths[rows] < MOST_CHARACTERS]
    if len(rows) < len(train):
        say(f"{task.name}: the bag of words learns from {len(rows):,} of {len(train):,} examples, drawn at random")
    return train.take(sorted(rows.tolist()))
