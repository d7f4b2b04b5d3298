"""A pre-training objective: a sum of parts that read the output of one encoder pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bertcli.data.pretraining.masking import draw_masks
from bertcli.families.family import Family

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.packing.batches import PackedBatch
    from bertcli.data.pretraining.instances import Cut, DrawMasks
    from bertcli.data.pretraining.shards import PretrainingExamples, RowLengths, UnpackedRows
    from bertcli.models.model_with_loss import ModelWithLoss

    Targets = dict[str, NDArray[np.int64]]
    See = Callable[["Part", Tensor, Tensor], None]  # a part, its labels, [R], and whether each answer is right, [R]

EVALUATION_TOKENS = 8192  # in one pass

# T tokens of the batch, N sequences, R predictions of a part (tokens or sequences), H hidden, C classes


@dataclass(frozen=True)
class Part:
    """A classification of some hidden states, with its own head and loss."""

    name: str  # its loss is logged as `{name}_loss`
    labels: str  # the target with the class of each prediction, [R]
    targets: Callable[[UnpackedRows], Targets]  # drawn from the rows, which may change in place
    rows: Callable[[PackedBatch], Tensor]  # the tokens whose hidden states it reads, [R]
    head: Callable[[PreTrainedModel, Tensor], Tensor]  # hidden states, [R, H], to logits, [R, C]
    loss: Callable[[Tensor, Tensor], Tensor]  # logits, [R, C], and labels, [R], to their summed cross entropy
    guess: Callable[[Mapping[str, Any]], int]  # the class that a baseline always predicts, by the data's manifest
    baselines: Callable[[float, Mapping[str, Any]], dict[str, float]]  # metrics of guessing, by the share of that class
    in_words: Callable[[Mapping[str, float]], str] = lambda metrics: ""  # its score, for a reader who knows no metric
    predicts_tokens: bool = False  # whether its classes are the tokens of the vocabulary
    verdict: Callable[[Mapping[str, float]], str] = lambda metrics: ""  # on a run's metrics, in a sentence


@dataclass(frozen=True)
class Objective:
    """A sum of parts, their instances and their model."""

    name: str
    parts: tuple[Part, ...]
    cut: Cut  # cuts documents into instances
    needs_pairs: bool = False
    ends_lines: bool = False  # whether each line of the text has [SEP] at its end
    draw_masks: DrawMasks = draw_masks  # the static ones
    family: Family | None = None  # of new models; None: the one that the data were made for
    model_class: str = "AutoModelForPreTraining"  # of transformers
    labels: Mapping[str, Any] = field(default_factory=dict)  # the classes in the model's config
    fits: Callable[[PreTrainedModel], bool] = lambda model: True  # whether a loaded model has the heads
    trains_every_weight: bool = True
    fills_masks: bool = True
    negatives: str = "random next"  # rows with the label 1, in words
    has_memory: bool = False  # whether it can read the text before a row
    memory: int = 0  # so many tokens of it
    ignored: tuple[str, ...] = ()  # options of data and masks that mean nothing to it

    def auto_class(self) -> Any:
        """The class of transformers that makes the model."""
        import transformers

        return getattr(transformers, self.model_class)

    def with_loss(self, model: PreTrainedModel) -> ModelWithLoss:
        """The model with the heads and losses of the parts."""
        from bertcli.models.model_with_loss import ModelWithLoss

        return ModelWithLoss(model, self.outputs, self.losses)

    def packable(self, examples: PretrainingExamples) -> ObjectiveExamples:
        """The examples with the targets of training."""
        return ObjectiveExamples(self, examples)

    def pack(self, examples: PretrainingExamples, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack rows with the targets of the step `key`; each part's loss is divided by its number of labels."""
        import torch

        from bertcli.data.packing.batches import pack

        read = examples.take(rows, key)
        targets: Targets = {}
        for part in self.parts:
            targets |= part.targets(read)
        batch = pack(read.input_ids, read.token_type_ids, read.lengths, rows)
        labels = {name: torch.from_numpy(values) for name, values in targets.items()}
        counts = {part.name: len(targets.get(part.labels, read.input_ids)) for part in self.parts}
        return replace(batch, labels=labels, counts=counts)

    def outputs(self, model: PreTrainedModel, batch: PackedBatch) -> dict[str, Tensor]:
        """The logits of each part, [R, C], from one pass of the encoder."""
        import torch

        from bertcli.models.encoder import encode

        rows = [part.rows(batch) for part in self.parts]
        hidden = encode(model, batch, torch.cat(rows))  # [R of all parts, H]
        states = torch.split(hidden, [len(of_part) for of_part in rows])
        return {part.name: part.head(model, of_part) for part, of_part in zip(self.parts, states, strict=True)}

    def losses(self, outputs: dict[str, Tensor], batch: PackedBatch) -> dict[str, Tensor]:
        """The summed loss of each part; `batch.counts` says what to divide each by."""
        labels = {**batch.labels, **outputs}  # some are made by a model
        return {part.name: part.loss(outputs[part.name], labels[part.labels]) for part in self.parts}

    def evaluate(
        self, model: ModelWithLoss, examples: PretrainingExamples, device: torch.device, see: See | None = None
    ) -> dict[str, float]:
        """Accuracy (times 100) and loss of each part, and its baselines; `see` is given the answers of each batch."""
        import numpy as np

        from bertcli.data.packing.batches import evaluation_batches

        model.eval()
        sums = {part.name: np.zeros(4) for part in self.parts}
        for batch in evaluation_batches(ObjectiveExamples(self, examples), EVALUATION_TOKENS):
            batch = batch.to(device)
            outputs = model.outputs(batch)
            for part in self.parts:
                logits, labels = outputs[part.name], {**batch.labels, **outputs}[part.labels]
                right = logits.argmax(-1) == labels
                guessed = (labels == part.guess(examples.manifest)).sum()
                sums[part.name] += [float(part.loss(logits, labels)), int(right.sum()), int(guessed), len(labels)]
                if see:
                    see(part, labels, right)
        metrics: dict[str, float] = {}
        for part in self.parts:
            loss, accuracy, share, _ = sums[part.name] / sums[part.name][-1]
            metrics |= {f"{part.name}_accuracy": 100 * accuracy, f"{part.name}_loss": loss}
            metrics |= part.baselines(share, examples.manifest)
        return {name: round(float(value), 4) for name, value in metrics.items()}

    def in_words(self, metrics: Mapping[str, float]) -> str:
        """The scores in one sentence that needs no knowledge of metrics."""
        said = [words for part in self.parts if metrics and (words := part.in_words(metrics))]
        return f"{', and '.join(said)}." if said else ""

    def verdicts(self, metrics: Mapping[str, float]) -> list[str]:
        """The verdict of each part that has one on the metrics of a finished run."""
        return [said for part in self.parts if metrics and (said := part.verdict(metrics))]


@dataclass(frozen=True)
class ObjectiveExamples:
    """Pre-training examples with the targets of an objective, ready to be packed."""

    objective: Objective
    examples: PretrainingExamples

    @property
    def lengths(self) -> RowLengths:
        """Tokens of each row."""
        return self.examples.lengths

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> NDArray[np.int64]:
        """The rows of the batch of one step."""
        return self.examples.rows_of_step(seed, step, batch_size)

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack rows with the targets of the step `key`."""
        return self.objective.pack(self.examples, rows, key)
