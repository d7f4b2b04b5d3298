"""The head fitted to the pre-trained encoder before the whole is trained: linear probing, then fine-tuning (Kumar et al. 2022)."""

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold, StratifiedKFold
from torch import nn
from transformers import PreTrainedModel

from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.kinds.types import Floats
from bertcli.lifecycle.scoring import measure
from bertcli.models.heads import pooled_states
from bertcli.models.model_with_loss import ModelWithLoss, run_model
from bertcli.tasks.task import Task
from bertcli.training.device import inference_tokens

STRENGTHS = (1.0, 10.0, 100.0)  # inverse strengths of regularization, of which the best in cross-validation is taken
FOLDS = 5
MOST = 5000  # examples that a head is fitted to; more change little and take longer


@dataclass(frozen=True)
class Probe:
    """A head fitted to frozen states, and its cross-validated scores."""

    weights: Floats  # [C, H]
    biases: Floats  # [C]
    metrics: dict[str, float]

    def give_to(self, model: PreTrainedModel) -> None:
        """Make it the head of a model."""
        head: nn.Linear = model.classifier
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(self.weights))
            head.bias.copy_(torch.from_numpy(self.biases))


def fit_probe(
    task: Task, kind: Kind, model: PreTrainedModel, split: Split, encoder: Encoder, device: torch.device, dtype: str
) -> Probe | None:
    """Fit the head of a model to the pooled states of a training split; None if its head is not one linear layer on them."""
    is_linear = isinstance(getattr(model, "classifier", None), nn.Linear)
    has_states = hasattr(model, "pooled") or getattr(model.base_model, "pooler", None) is not None
    if not (kind.has_linear_head and is_linear and has_states) or len(split) < FOLDS:
        return None
    rows = np.sort(np.random.default_rng(0).permutation(len(split))[:MOST])
    split = replace(split, examples=split.examples.take(rows.tolist()))
    features: Any = kind.encode(task, split.examples, encoder)
    reader = ModelWithLoss(model.to(device), pooled_states, lambda outputs, batch: outputs)
    states = np.stack(run_model(reader, features, device, inference_tokens(), dtype)["states"]).astype(np.float64)
    norms = np.linalg.norm(states, axis=1, keepdims=True)
    examples = (states / norms, features.labels, model.config.num_labels)
    scored = {strength: _cross_validated(task, kind, split, *examples, strength) for strength in STRENGTHS}
    best = max(scored, key=lambda strength: scored[strength][task.metrics[0]])
    weights, biases = kind.fit_head(*examples, best)
    return Probe(weights / float(norms.mean()), biases, scored[best])


def _cross_validated(
    task: Task, kind: Kind, split: Split, states: Floats, targets: Any, outputs: int, strength: float
) -> dict[str, float]:
    """The scores of heads fitted to all folds but one, each on that one."""
    counts = Counter(targets.tolist()) if targets.dtype.kind == "i" else Counter()
    largest = max(counts.values(), default=0)
    folds = StratifiedKFold if largest > 1 else KFold
    logits = np.zeros((len(targets), outputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some classes have fewer examples than there are folds
        cut = folds(min(FOLDS, max(2, largest or FOLDS)), shuffle=True, random_state=0).split(states, targets)
        for fitted, left in cut:
            weights, biases = kind.fit_head(states[fitted], targets[fitted], outputs, strength)
            logits[left] = states[left] @ weights.T + biases
    rows = kind.decode(task, split, {"logits": list(logits)}, None)  # type: ignore[arg-type]
    return measure(task, kind.compare(task, split.examples, rows))
