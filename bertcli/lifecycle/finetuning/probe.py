"""The head fitted to the pre-trained encoder before the whole is trained: linear probing, then fine-tuning (Kumar et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from bertcli.data.labelled.examples import TextExamples
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.kinds.types import Floats, Predictions
from bertcli.lifecycle.scoring.cross_validation import FOLDS, choose_and_cross_validate
from bertcli.lifecycle.scoring.scores import measure
from bertcli.lifecycle.scoring.task_model import TaskModel
from bertcli.models.heads import mean_states
from bertcli.models.model_with_loss import ModelWithLoss, run_model
from bertcli.models.own.bilstm import has_bilstm
from bertcli.training.device import inference_tokens
from bertcli.training.progress import Progress

STRENGTHS = (1.0, 10.0, 100.0)  # inverse strengths of regularization, of which the best in cross-validation is taken
UNPENALIZED = 10.0  # deviation of a feature whose weight regularization leaves free
MOST = 5000  # examples that a head is fitted to; more change little and take longer


@dataclass(frozen=True)
class Probe:
    """A head fitted to frozen states, and its cross-validated scores."""

    weights: Floats  # [C, H]
    biases: Floats  # [C]
    metrics: dict[str, float]
    predictions: Predictions  # cross-validated

    def give_to(self, model: PreTrainedModel) -> None:
        """Make it the head of a model."""
        head: nn.Linear = model.classifier
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(self.weights))
            head.bias.copy_(torch.from_numpy(self.biases))


def takes_probe(kind: Kind, model: PreTrainedModel) -> bool:
    """Whether the head of a model is linear on pooled states of its encoder, to which it can be fitted."""
    return kind.has_linear_head and hasattr(model, "pooled") and not has_bilstm(model)


def fit_probe(model: TaskModel, split: Split, similarity: Floats | None = None) -> Probe | None:
    """Fit the head of a model to the pooled states of a training split; None where none are its input.

    Of pairs, `similarity`, [H], are the weights of a head that tells how near the two texts are.
    """
    kind, inner = model.kind, model.model.model
    if not takes_probe(kind, inner) or len(split) < FOLDS:
        return None
    rows = np.sort(np.random.default_rng(0).permutation(len(split))[:MOST])
    examples = cast(TextExamples, split.examples).take(rows.tolist())
    features: Any = kind.encode(model.task, examples, Encoder(model.tokenizer, model.rules))
    reader = ModelWithLoss(inner, mean_states)
    with Progress("reading the examples", float(features.lengths.sum()), "tokens") as progress:
        read = run_model(reader, features, model.device, inference_tokens(), model.dtype, progress.advance)["states"]
    norms = np.linalg.norm(read, axis=1, keepdims=True)
    states = (np.stack(read) / norms).astype(np.float64)
    if similarity is not None:
        near = states @ similarity
        scale = UNPENALIZED / (near.std() or 1.0)
        states = np.column_stack((states, scale * (near - near.mean())))
    best, predicted = choose_and_cross_validate(model.task, examples, states, STRENGTHS)
    weights, biases = kind.fit_head(states, features.labels, inner.config.num_labels, best)
    if similarity is not None:
        weights, of_nearness = weights[:, :-1], scale * weights[:, -1:]
        weights, biases = weights + of_nearness * similarity, biases - of_nearness[:, 0] * near.mean()
    metrics = measure(model.task, kind.compare(model.task, examples, predicted))
    return Probe(weights / float(norms.mean()), biases, metrics, predicted)
