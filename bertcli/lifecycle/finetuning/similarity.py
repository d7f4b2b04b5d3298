"""What a sentence encoder learns without labels before it is trained on pairs: to predict the cosine of two texts."""

from __future__ import annotations

from itertools import chain
from math import inf
from typing import Any, cast

import numpy as np
from accelerate import Accelerator

from bertcli import say
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.text_features import TextFeatures, encode_texts
from bertcli.kinds.kind import Split
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

STEPS, BATCH_SIZE, MANY_PAIRS = 120, 32, 1_000  # labelled pairs, from which on so few steps suffice
MOST_STEPS, TOKENS = 500, 600_000  # of fewer pairs: as many steps as have about so many tokens, up to the most
FEWEST_LAYERS, FEWEST_OF_FEW = 6, 4  # bert-books, which has four, does not learn it in 120 steps, but in 500
MOST_TEXTS, MOST_PARTS = 4096, 12  # texts that pairs are drawn from; shortened copies of each, where texts are few
NEAREST, SHARE_NEAR = 24, 0.9  # most pairs are of a text and one of those nearest to it; the rest are random


def learn_similarity(
    model: TaskModel, split: Split, learning_rate: float, seed: int, training: tuple[RunFolder, Accelerator, str]
) -> Floats:
    """Train a model with a new head to predict, from two texts in one input, the cosine of their vectors; return the head, [H].

    A sentence encoder was trained on single texts. Few labelled pairs are not enough to learn how to compare two in one
    input, but its own vectors, of any number of pairs, are. `training`: the run's folder, the Accelerator, the precision.
    """
    tokens = BATCH_SIZE * float(np.mean(cast(TextFeatures, split.features).lengths))
    steps = STEPS if len(split) >= MANY_PAIRS else max(STEPS, min(MOST_STEPS, int(TOKENS / tokens)))
    learning: Any = {"learning_rate": learning_rate, "warmup_steps": steps // 10, "optimizer": "adamw", "seed": seed}
    keeping: Any = {"eval_steps": steps, "save_steps": steps, "save_minutes": inf}
    plan = Plan(steps=steps, batch_size=BATCH_SIZE, **learning, **keeping)
    say(f"pairs: first {steps} steps without labels, to predict the cosine of the two texts' vectors")
    features = _with_cosines(model, cast(TextExamples, split.examples), steps * BATCH_SIZE, np.random.default_rng(seed))
    reader = ModelWithLoss(model.model.model, sequence_logits, REGRESSION.losses)
    with Progress("learning similarity", steps) as progress:
        Training(reader, features, plan, *training).make_steps(steps, progress.advance)
    return cast(Floats, reader.model.classifier.weight[0].detach().cpu().double().numpy())


def fewest_layers(pairs: int) -> int:
    """The layers of a model that learns it beside so many labelled pairs."""
    return FEWEST_OF_FEW if pairs < MANY_PAIRS else FEWEST_LAYERS


def _with_cosines(model: TaskModel, examples: TextExamples, count: int, draw: np.random.Generator) -> TextFeatures:
    """So many pairs, encoded, with the cosines of their vectors as labels."""
    longest, reader = model.rules.max_seq_length, ModelWithLoss(model.model.model, mean_states)
    whole = [*dict.fromkeys(chain(examples.texts, examples.pairs or ()))]
    parts = [_part_of(text, draw) for text in whole for _ in range(min(MOST_PARTS, MOST_TEXTS // len(whole)))]
    texts = draw.permutation(np.array([*whole, *parts], dtype=object))[:MOST_TEXTS]
    vectors = TextEncoder(reader, model.tokenizer, longest, model.device, model.dtype).encode(texts.tolist())
    cosines = vectors @ vectors.T  # [N, N]
    near = np.argsort(-cosines, axis=1)[:, 1 : 1 + NEAREST]
    first, second = draw.integers(len(texts), size=(2, count))
    is_near = draw.random(count) < SHARE_NEAR
    second = np.where(is_near, near[first, draw.integers(near.shape[1], size=count)], second)
    pairs = TextExamples(texts[first].tolist(), texts[second].tolist(), origin="pairs of the texts")
    return encode_texts(pairs, model.tokenizer, longest, cosines[first, second].astype(np.float32))


def _part_of(text: str, random: np.random.Generator) -> str:
    """A text without some of its words."""
    words = text.split()
    kept = random.random(len(words)) < random.uniform(0.3, 0.9)
    return " ".join(word for word, is_kept in zip(words, kept, strict=True) if is_kept) or text
