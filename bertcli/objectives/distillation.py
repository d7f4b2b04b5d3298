"""Distillation at pre-training: a student learns from a teacher's logits and hidden states (Sanh et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bertcli.objectives.objective import Objective, ObjectiveExamples

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.packing.batches import PackedBatch
    from bertcli.data.pretraining.retokenized import TeacherTokens
    from bertcli.models.model_with_loss import Student

# T tokens of the batch, N sequences, P positions that are compared, M masked tokens, H hidden, V vocabulary of the student


@dataclass(frozen=True)
class Taught:
    """What a teacher gives for a batch."""

    hidden: Tensor  # [T, H] of its own tokens
    lengths: Sequence[int]  # N
    order: Tensor | None = None  # [N] which of its sequences is each of the student's
    places: Tensor | None = None  # [P] its tokens that are compared; None: all
    logits: Tensor | None = None  # [T, V]

    @property
    def compared(self) -> Tensor:
        """The states that are compared with the student's, [P, H]."""
        return self.hidden if self.places is None else self.hidden[self.places]

    @property
    def vectors(self) -> Tensor:
        """The mean of the states of each sequence, [N, H], in the student's order."""
        from bertcli.models.heads import means_of

        means = means_of(self.hidden, self.lengths)
        return means if self.order is None else means[self.order]

    def logits_at(self, rows: Tensor | slice) -> Tensor:
        """The logits at some tokens, [P, V]."""
        assert self.logits is not None
        return self.logits[rows]


class Teacher:
    """A model that is read, not trained. `columns`, [V], are its ids of the student's tokens, where these are others."""

    def __init__(
        self,
        model: PreTrainedModel,
        dtype: str,
        has_logits: bool,
        reads_whole: bool = False,
        columns: Tensor | None = None,
    ) -> None:
        import torch

        from bertcli.models.packed import prepare_layers
        from bertcli.models.working_copy import cast_weights

        self.model, self.dtype = model.eval().requires_grad_(False), dtype
        self.has_logits, self.reads_whole, self.columns = has_logits, reads_whole, columns
        prepare_layers(self.model)
        if dtype == "bfloat16":
            cast_weights(self.model, torch.bfloat16)

    @property
    def width(self) -> int:
        """Hidden units."""
        return int(self.model.config.hidden_size)

    def place(self, device: torch.device) -> None:
        """Move it to a device; on a CPU its weights are put in the order that it multiplies them in."""
        from bertcli.kernels import prepack
        from bertcli.models.packed import is_packed

        self.model.to(device)
        if device.type == "cpu" and is_packed(self.model):
            prepack(self.model)

    def read(self, batch: PackedBatch) -> Taught:
        """Read a batch of the student, with its masks or whole; in the teacher's own tokens where the batch has them."""
        import torch

        from bertcli.models.encoder import encode, encode_and_predict, in_precision

        own, order = self._own(batch)
        with torch.no_grad(), in_precision(self.model, self.dtype):
            if not self.has_logits:
                return Taught(encode(self.model, own), own.lengths, order, batch.labels.get("teacher_places"))
            hidden, logits = encode_and_predict(self.model, own)
        if self.columns is not None:
            logits = logits[:, self.columns.to(logits.device)]
        return Taught(hidden, own.lengths, logits=logits)

    def _own(self, batch: PackedBatch) -> tuple[PackedBatch, Tensor | None]:
        """The batch as the teacher reads it, and the order of its sequences."""
        if "teacher_ids" in batch.labels:
            names = ("ids", "types", "positions", "order")
            ids, types, positions, order = (batch.labels[f"teacher_{name}"] for name in names)
            lengths = tuple(batch.labels["teacher_lengths"].tolist())
            return replace(batch, input_ids=ids, token_type_ids=types, position_ids=positions, lengths=lengths), order
        ids = batch.input_ids
        if self.reads_whole:
            ids = ids.index_copy(0, batch.labels["masked_lm_positions"], batch.labels["masked_lm_ids"])
        if self.columns is not None:
            ids = self.columns.to(ids.device)[ids]
        return replace(batch, input_ids=ids), None


@dataclass(frozen=True)
class Weights:
    """The weight of each part of the loss, as the README of the authors' code sets them; one of 0 is not computed."""

    soft_targets: float = 5.0  # Kullback-Leibler divergence of softened logits, times temperature²
    masked_lm: float = 2.0  # or of next tokens, of a teacher that reads from left to right
    hidden: float = 1.0  # cosine distance of the last hidden states
    squared: float = 0.0  # squared difference of logits
    vectors: float = 0.0  # cosine distance of the means of hidden states


@dataclass(frozen=True)
class Distillation(Objective):
    """The weighted sum of what is learnt from a teacher and of masked-LM, or of next tokens, which alone is evaluated."""

    teacher: Teacher = field(kw_only=True)
    weights: Weights = Weights()
    temperature: float = 2.0
    only_masked: bool = False  # whether logits are learnt at masked positions alone
    tokens: TeacherTokens | None = None  # how the teacher reads the texts, where its vocabulary is another
    seed: int = 0  # of the projections

    def __deepcopy__(self, memo: object) -> Distillation:
        """The same: copies of a student share the teacher."""
        return self

    def with_loss(self, model: PreTrainedModel) -> Student:
        """The student with its projections to the width of the teacher, which it has where the widths differ."""
        from bertcli.models.model_with_loss import Distance, Student

        projected = [name for name in ("hidden", "vectors") if getattr(self.weights, name)]
        distance = Distance(self._parts, projected, self.teacher.width, self.seed)
        return Student(model, self.outputs, self.losses, distance)

    def packable(self, examples: Any) -> ObjectiveExamples:
        """The examples with what the teacher reads, and the count of each part of the loss."""
        return _TaughtExamples(self, examples)

    def counts(self, batch: PackedBatch) -> dict[str, float]:
        """What each part of the loss is divided by."""
        masked, tokens = len(batch.labels[self.parts[0].labels]), len(batch.input_ids)
        compared = len(batch.labels["student_places"]) if "student_places" in batch.labels else tokens
        soft = masked if self.only_masked else tokens
        counts = {"soft_targets": soft, "masked_lm": masked, "hidden": compared, "squared": soft}
        counts["vectors"] = len(batch.lengths)
        return {name: float(count) for name, count in counts.items() if getattr(self.weights, name)}

    def _parts(self, student: Student, batch: PackedBatch) -> dict[str, Tensor]:
        """The weighted sums of the parts over the batch; `batch.counts` says what to divide each by."""
        from bertcli.families import family_of
        from bertcli.models.cross_entropy import soft_divergence
        from bertcli.models.encoder import encode
        from bertcli.models.heads import means_of

        model, weights = student.model, self.weights
        has_logits = bool(weights.soft_targets or weights.squared)
        taught = self.teacher.read(batch)
        hidden = encode(model, batch)  # [T, H]
        masked = self.parts[0].rows(batch)
        rows = masked if self.only_masked or not has_logits else slice(None)
        logits = family_of(model.config.model_type).predict_tokens(model, hidden[rows])  # [P, V] or [M, V]
        found: dict[str, Tensor] = {}
        if weights.soft_targets:
            found["soft_targets"] = soft_divergence(logits, taught.logits_at(rows), self.temperature)
        if weights.masked_lm:
            of_masked = logits if rows is masked else logits[masked]
            found["masked_lm"] = self.parts[0].loss(of_masked, batch.labels[self.parts[0].labels])
        if weights.hidden:
            own = hidden[batch.labels["student_places"]] if "student_places" in batch.labels else hidden
            found["hidden"] = cosine_distance(student.project("hidden", own), taught.compared)
        if weights.squared:
            found["squared"] = squared_distance(logits, taught.logits_at(rows))
        if weights.vectors:
            means = means_of(hidden, batch.lengths)  # [N, H]
            found["vectors"] = cosine_distance(student.project("vectors", means), taught.vectors)
        return {name: getattr(weights, name) * value for name, value in found.items()}


@dataclass(frozen=True)
class _TaughtExamples(ObjectiveExamples):
    objective: Distillation

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack rows with their masks, and with the same texts in the teacher's tokens where these are others."""
        batch = super().pack(rows, key)
        if self.objective.tokens:
            batch = replace(batch, labels=batch.labels | self.objective.tokens.read(batch))
        return replace(batch, counts=self.objective.counts(batch))


def cosine_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """The sum over positions of 1 less the cosine of states, [P, H]."""
    from torch.nn.functional import cosine_similarity

    return (1 - cosine_similarity(student.float(), teacher.float(), eps=1e-6)).sum()


def squared_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """The sum of the squared differences of logits, [P, V]."""
    return (student.float() - teacher.float()).square().sum()
