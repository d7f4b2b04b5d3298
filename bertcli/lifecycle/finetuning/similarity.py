"""What a sentence encoder learns without labels before it is trained on pairs: to predict the cosine of two texts."""

from __future__ import annotations

from itertools import chain
from math import inf
from typing import Any

import numpy as np
from accelerate import Accelerator

from bertcli import say
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.text_features import TextFeatures, encode_texts
from bertcli.kinds.regression import REGRESSION
from bertcli.kinds.types import Floats
from bertcli.lifecycle.scoring.task_model import TaskModel
from bertcli.lifecycle.similarity.encoder import TextEncoder
from bertcli.models.heads import mean_states, sequence_logits
from bertcli.models.model_with_loss import ModelWithLoss
from bertcli.training.loop import Training
from bertcli.training.plan import Plan
from bertcli.training.progress import Progress
from bertcli.training.run_folder import RunFolder

STEPS, WARMUP_STEPS, BATCH_SIZE = 120, 12, 32
FEWEST_LAYERS = 6  # bert-books, which has four, did not learn it in so few steps
MOST_TEXTS, MOST_PARTS = 4096, 12  # texts that pairs are drawn from; shortened copies of each, where texts are few
NEAREST, SHARE_NEAR = 24, 0.9  # most pairs are of a text and one of those nearest to it; the rest are random


def learn_similarity(
    model: TaskModel,
    examples: TextExamples,
    learning_rate: float,
    seed: int,
    training: tuple[RunFolder, Accelerator, str],
) -> Floats:
    """Train a model with a new head to predict, from two texts in one input, the cosine of their vectors; return the head, [H].

    A sentence encoder was trained on single texts. Few labelled pairs are not enough to learn how to compare two in one
    input, but its own vectors, of any number of pairs, are. `training`: the run's folder, the Accelerator, the precision.
    """
    learning: Any = {"learning_rate": learning_rate, "warmup_steps": WARMUP_STEPS, "optimizer": "adamw", "seed": seed}
    keeping: Any = {"eval_steps": STEPS, "save_steps": STEPS, "save_minutes": inf}
    plan = Plan(steps=STEPS, batch_size=BATCH_SIZE, **learning, **keeping)
    say(f"pairs: first {STEPS} steps without labels, to predict the cosine of the two texts' vectors")
    features = _pairs_with_cosines(model, examples, np.random.default_rng(seed))
    reader = ModelWithLoss(model.model.model, sequence_logits, REGRESSION.losses)
    with Progress("learning similarity", STEPS) as progress:
        Training(reader, features, plan, *training).make_steps(STEPS, progress.advance)
    similarity: Floats = reader.model.classifier.weight[0].detach().cpu().double().numpy()
    return similarity


def _pairs_with_cosines(model: TaskModel, examples: TextExamples, random: np.random.Generator) -> TextFeatures:
    """The pairs of all steps, encoded, with the cosines of their vectors as labels."""
    longest, reader = model.rules.max_seq_length, ModelWithLoss(model.model.model, mean_states)
    whole = [*dict.fromkeys(chain(examples.texts, examples.pairs or ()))]
    parts = [_part_of(text, random) for text in whole for _ in range(min(MOST_PARTS, MOST_TEXTS // len(whole)))]
    texts = random.permutation(np.array([*whole, *parts], dtype=object))[:MOST_TEXTS]
    vectors = TextEncoder(reader, model.tokenizer, longest, model.device, model.dtype).encode(texts.tolist())
    cosines = vectors @ vectors.T  # [N, N]
    near = np.argsort(-cosines, axis=1)[:, 1 : 1 + NEAREST]
    count = STEPS * BATCH_SIZE
    first, second = random.integers(len(texts), size=(2, count))
    is_near = random.random(count) < SHARE_NEAR
    second = np.where(is_near, near[first, random.integers(near.shape[1], size=count)], second)
    pairs = TextExamples(texts[first].tolist(), texts[second].tolist(), origin="pairs of the texts")
    return encode_texts(pairs, model.tokenizer, longest, cosines[first, second].astype(np.float32))


def _part_of(text: str, random: np.random.Generator) -> str:
    """A text without some of its words."""
    words = text.split()
    kept = random.random(len(words)) < random.uniform(0.3, 0.9)
    return " ".join(word for word, is_kept in zip(words, kept, strict=True) if is_kept) or text
