"""Distillation at a task: a fine-tuning whose targets are the answers of a fine-tuned teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from bertcli import say
from bertcli.config.distillation import HIDDEN, LOGITS, VECTORS, DistillConfig
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.examples import Examples
from bertcli.data.packing.batches import Packable, PackedBatch
from bertcli.data.packing.ragged import Ints
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.lifecycle.distilling.layers import chosen_layers
from bertcli.lifecycle.distilling.students import keep_layers
from bertcli.lifecycle.distilling.teachers import check_weights, find_teacher, targets_of
from bertcli.lifecycle.finetuning.run import Finetuning, StartModel
from bertcli.lifecycle.finetuning.start_model import model_of
from bertcli.lifecycle.predicting.inputs import read_inputs
from bertcli.lifecycle.scoring.scores import score
from bertcli.lifecycle.scoring.task_model import TaskModel, load_task_model
from bertcli.lifecycle.sources import Source, encode_split
from bertcli.models.encoder import encode
from bertcli.models.heads import mean_states, means_of
from bertcli.models.loading import load_model
from bertcli.models.model_with_loss import Distance, ModelWithLoss, Outputs, Student, run_model
from bertcli.objectives.distillation import Teacher, cosine_distance
from bertcli.training.device import inference_tokens
from bertcli.training.run_folder import RunFolder

SOFT_WEIGHT = 0.5
TAUGHT = "teacher_"  # before the name of an output, among the labels of a batch
Arrays = Mapping[str, list[NDArray[np.float32]]]

# N sequences, T tokens, H hidden


@dataclass(frozen=True)
class _TaughtFeatures:
    """Encoded examples with the outputs of a teacher, the labelled ones first."""

    features: Any
    kind: Kind
    outputs: Arrays
    labelled: int  # outputs of labelled examples

    @property
    def lengths(self) -> Any:
        """Tokens a row, [rows]."""
        return self.features.lengths

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> Ints:
        """The rows of the batch of one step."""
        return cast(Packable, self.features).rows_of_step(seed, step, batch_size)

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack rows with what the teacher says of them, and which of its outputs are of labelled examples."""
        batch: PackedBatch = self.features.pack(rows, key)
        numbers = self.kind.numbers_of(self.features, rows)
        said = {name: [outputs[each] for each in numbers] for name, outputs in self.outputs.items()}
        lengths = np.array(batch.lengths)
        taught = {f"{TAUGHT}{name}": torch.from_numpy(self.kind.stack(each, lengths)) for name, each in said.items()}
        is_labelled = torch.from_numpy(numbers < self.labelled)
        count = float(batch.counts["loss"]) if is_labelled.all() else self._weight(batch, is_labelled)
        counts = {"soft_targets": len(numbers), "labels": count, "hidden": len(batch.input_ids)}
        labels = {**batch.labels, **taught, "is_labelled": is_labelled}
        return replace(batch, labels=labels, counts={**counts, "vectors": len(numbers)})

    def _weight(self, batch: PackedBatch, is_labelled: Tensor) -> float:
        return float(batch.labels.get("weights", torch.ones(len(is_labelled)))[is_labelled].double().sum())


@dataclass(frozen=True)
class _TaskLoss:
    """The parts of the loss of a student at a task, with their weights."""

    kind: Kind
    weights: Mapping[str, float]  # by the name of the part
    temperature: float
    teacher: Teacher | None = None  # of hidden states, which it gives for each batch

    def parts(self, student: Student, batch: PackedBatch) -> Outputs:
        """The weighted sum of each part over the batch; `batch.counts` says what to divide each by."""
        model, found = student.model, dict[str, Tensor]()
        outputs = self.kind.outputs(model, batch)
        if self.weights.get("soft_targets"):
            taught = {name: batch.labels[f"{TAUGHT}{name}"] for name in outputs}
            found["soft_targets"] = self.kind.distance(outputs, taught, self.temperature)
        if self.weights.get("labels"):
            found["labels"] = self.kind.losses(*_labelled(outputs, batch))["loss"]
        if self.weights.get("hidden") or self.weights.get("vectors"):
            hidden = encode(model, batch)  # [T, H]
        if self.teacher and self.weights.get("hidden"):
            found["hidden"] = cosine_distance(student.project("hidden", hidden), self.teacher.read(batch).hidden)
        if self.weights.get("vectors"):
            means = student.project("vectors", means_of(hidden, batch.lengths))  # [N, H]
            found["vectors"] = cosine_distance(means, batch.labels[f"{TAUGHT}states"])
        return {name: self.weights[name] * value for name, value in found.items()}


def _labelled(outputs: Outputs, batch: PackedBatch) -> tuple[Outputs, PackedBatch]:
    """The outputs and labels of the labelled examples."""
    chosen = batch.labels["is_labelled"]
    if chosen.all():
        return outputs, batch
    labels = {name: value[chosen] for name, value in batch.labels.items() if name in ("labels", "weights")}
    return {name: value[chosen] for name, value in outputs.items()}, replace(batch, labels=labels)


def _student_of(start: str, config: Any, source: Source, tokenizer: WordPiece) -> PreTrainedModel:
    """The model to start from; of the teacher, some of its layers."""
    model = model_of(start, config, source, tokenizer)
    if config.from_ != config.teacher:
        return model
    return keep_layers(model, chosen_layers(model.config.num_hidden_layers, config))


@dataclass(frozen=True)
class Distilling(Finetuning):
    """A fine-tuning with a teacher."""

    teacher: TaskModel = cast(TaskModel, None)  # set by `prepare`
    teacher_folder: str = ""
    teacher_digest: str = ""
    unlabelled: Examples | None = None
    command: ClassVar[str] = "distill"
    start_model: ClassVar[StartModel] = staticmethod(_student_of)

    @classmethod
    def prepare(cls, config: Any, source: Source, start: str, splits: list[Split], resumed: Path | None = None) -> Self:
        """As of a fine-tuning, and load the teacher. Raises UserError if it is of another task or has other tokens."""
        made = super().prepare(config, source, start, splits, resumed)
        folder, digest = find_teacher(config, RunFolder(resumed.parent).config if resumed else {})
        teacher = load_task_model(source.task, folder, config.precision, fast=True)
        if set(teacher.task.labels) != set(source.task.labels):
            what = f"The teacher `{config.teacher}` has other labels than {source.task.name}."
            raise UserError(what, "Give a teacher of the same task.")
        made = replace(made, teacher=teacher, teacher_folder=folder, teacher_digest=digest)
        made.check_tokens()
        return replace(made, unlabelled=made.read_unlabelled())

    @property
    def options(self) -> DistillConfig:
        """The options, those of distillation among them."""
        return cast(DistillConfig, self.config)

    @property
    def targets(self) -> set[str]:
        """What is learnt from the teacher."""
        return targets_of(self.options, False)

    def check_tokens(self) -> None:
        """Raise UserError if what is learnt is of tokens, and the teacher has others, or of texts, and there are none."""
        of_tokens = HIDDEN in self.targets or self.kind.needs_teachers_tokens
        if of_tokens and self.teacher.tokenizer.digest != self.tokenizer.digest:
            what = "The student has another tokenizer than the teacher, so their tokens cannot be compared."
            hint = "Give a student of the teacher's tokens, such as --layers 2"
            raise UserError(what, f"{hint}; or leave out --targets hidden." if HIDDEN in self.targets else f"{hint}.")
        if VECTORS in self.targets and not self.kind.has_linear_head:
            what = f"--targets {VECTORS} is for texts with labels or values; {self.task.name} is of the kind `{self.task.kind}`."
            raise UserError(what, f"Leave out {VECTORS}.")

    def read_unlabelled(self) -> Examples | None:
        """The texts of --unlabelled, with the columns that the teacher was trained on."""
        if not self.options.unlabelled:
            return None
        model, own = self.options.teacher, self.train.examples
        self.kind.add_unlabelled(self.task, own, own)  # raises UserError where the kind takes none
        inputs = {name: read_inputs(PredictConfig(file=name, model=model)) for name in self.options.unlabelled}
        for name, each in inputs.items():
            if each.form in ("question", "choices"):
                hint = f"Give texts as {self.task.name} has them."
                raise UserError(f"`{name}` has {each.form.removesuffix('s')}s, not texts.", hint)
        rows = [row for each in inputs.values() for row in each.rows if str(row["text"]).strip()]
        examples = self.kind.input_examples(rows, self.teacher.tokenizer)
        say(f"unlabelled: {len(examples):,} examples, for which the teacher alone answers")
        return examples

    @cached_property
    def all_examples(self) -> Examples:
        """The labelled examples, and then the others."""
        if self.unlabelled is None:
            return self.train.examples
        return self.kind.add_unlabelled(self.task, self.train.examples, self.unlabelled)

    @property
    def data_digests(self) -> dict[str, str]:
        """The digest of each split and of the unlabelled texts."""
        return {**super().data_digests, **({} if self.unlabelled is None else {"unlabelled": self.unlabelled.digest})}

    @property
    def trained_on(self) -> int:
        """The number of examples that are trained on, unlabelled ones too."""
        return len(self.all_examples)

    def to_train(self) -> tuple[ModelWithLoss, Any]:
        """The student with its distance to the teacher, and the encoded examples with the outputs of the teacher."""
        return self._student(), self._taught

    @cached_property
    def _taught(self) -> _TaughtFeatures:
        task, kind, features = self.task, self.kind, cast(Any, self.train.features)
        outputs: dict[str, list[NDArray[np.float32]]] = {}
        if self.unlabelled is not None:
            features = kind.encode(task, self.all_examples, Encoder(self.tokenizer, self.rules), training=True)
            if self.config.class_weights:
                features = replace(cast(Any, features), class_weights=cast(Any, self.train.features).class_weights)
        read = features if kind.needs_teachers_tokens else self._read_by_teacher()
        if LOGITS in self.targets:
            outputs |= {name: self._taught_of(rows) for name, rows in self.teacher.outputs(read).items()}
        if VECTORS in self.targets:
            reader = ModelWithLoss(self.teacher.model.model, mean_states)
            outputs |= run_model(reader, read, self.teacher.device, inference_tokens(), self.teacher.dtype)
        return _TaughtFeatures(self.as_learnt(features), kind, outputs, self._labelled_outputs())

    def _taught_of(self, rows: list[Any]) -> list[Any]:
        """The outputs of the teacher in the order of the student's labels, values as they are learnt."""
        columns = [self.teacher.task.labels.index(label) for label in self.task.labels] or ...
        return [self.unit.around_zero(row) if self.unit else row[columns] for row in rows]

    def _read_by_teacher(self) -> Any:
        split = Split("train", self.all_examples)
        teacher = self.teacher
        return encode_split(teacher.task, split, teacher.tokenizer, teacher.rules, training=True).features

    def _labelled_outputs(self) -> int:
        """How many outputs the labelled examples have; they come first."""
        features = cast(Any, self.train.features)
        return len(self.kind.numbers_of(features, np.arange(len(features.lengths))))

    def _student(self) -> Student:
        options = self.options
        soft = SOFT_WEIGHT if options.soft_weight is None else options.soft_weight
        weights = {"soft_targets": soft * (LOGITS in self.targets), "labels": options.label_weight}
        weights["hidden"] = options.hidden_weight * (HIDDEN in self.targets)
        weights["vectors"] = options.vector_weight * (VECTORS in self.targets)
        check_weights(weights)
        reads = Teacher(load_model(self.teacher_folder), self.teacher.dtype, False) if weights["hidden"] else None
        if reads:
            reads.place(self.teacher.device)
        loss = _TaskLoss(self.kind, {k: v for k, v in weights.items() if v}, options.temperature, reads)
        projected = [name for name in ("hidden", "vectors") if weights[name]]
        distance = Distance(loss.parts, projected, int(self.teacher.model.model.config.hidden_size), self.config.seed)
        return Student(self.model, self.kind.outputs, self.kind.losses, distance)

    @cached_property
    def teacher_words(self) -> str:  # type: ignore[override]
        """The teacher, and its scores on dev."""
        if not self.dev:
            return f"teacher: {self.options.teacher}"
        split = Split(self.dev[0].name, self.dev[0].examples)
        scores = score(self.task, split, self.teacher.predict(split))
        words = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        return f"teacher: {self.options.teacher}, dev {words}"

    def _resolved(self) -> dict[str, Any]:
        return {**super()._resolved(), "teacher_digest": self.teacher_digest}
