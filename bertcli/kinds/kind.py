"""The base class of kinds of task: what each kind defines, and what most of them share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.own_labels import Unit
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    from bertcli.metrics.metric import Metric
    from bertcli.models.model_with_loss import ModelWithLoss

PREDICTIONS = "predictions.jsonl"  # in the folder of a run


@dataclass(frozen=True)
class Encoder:
    """Tokenizer and limits with which examples are encoded."""

    tokenizer: t.Tokenizer
    rules: t.Rules


@dataclass(frozen=True)
class Split:
    """A split of a task: its examples, and the same encoded for a model."""

    name: str
    examples: Examples
    features: t.Features | None = None

    def __len__(self) -> int:
        """Number of examples, which may be less than the number of windows."""
        return len(self.examples)


class Kind:
    """A kind of task; each file here defines one subclass and its one value."""

    name: ClassVar[str]  # as `--kind` and config.yaml spell it
    architectures: ClassVar[tuple[str, ...]]  # how transformers ends the names of its models, its own first
    head: ClassVar[str] = ""  # the function of models/heads.py that gives the outputs
    problem_type: ClassVar[str] = ""  # as config.json spells it
    metrics: ClassVar[tuple[str, ...]] = ()  # of the user's own data; the first chooses the best checkpoint
    metric_class: ClassVar[str] = ""  # a module of metrics/ and the class in it
    inputs: ClassVar[tuple[str, ...]] = ()  # forms of input that `bert predict` takes
    needs: ClassVar[str] = "a text"  # the same in words
    says: ClassVar[str] = ""  # the key of a prediction that holds the answer
    options: ClassVar[tuple[str, ...]] = ()  # of `bert finetune` that other kinds do not have
    purpose: ClassVar[str] = ""  # what these options are for, in words
    compared_with: ClassVar[tuple[str, ...]] = ()  # further keys of a prediction that `compare` reads
    names_outputs: ClassVar[bool] = False  # whether the outputs are the labels, whose names a model then carries
    has_probabilities: ClassVar[bool] = True  # which order mistakes
    is_task: ClassVar[bool] = True  # whether there are tasks of it, with labels to learn
    pipeline: ClassVar[str] = "text-classification"  # the task as the Hub calls it
    official_file: ClassVar[str] = ""  # the name of the official form of predictions, where there is one
    reads_tables: ClassVar[bool] = False  # whether examples of the user's own are rows of a table
    own_columns: ClassVar[tuple[str, ...]] = ()  # options that choose columns of own files that are no tables
    has_rare_labels: ClassVar[bool] = False  # a run that has learnt most labels of a file can be scored on it
    reads_words: ClassVar[bool] = False  # whether a text may be given as its words
    has_windows: ClassVar[bool] = False  # whether long examples become several inputs
    needs_all_splits: ClassVar[bool] = False  # whether one split alone may not show how labels are spelled
    needs_float32: ClassVar[bool] = False  # to answer: bfloat16 keeps three digits
    has_linear_head: ClassVar[bool] = False  # on pooled states, which `fit_head` fits
    scores_all: ClassVar[bool] = False  # whether all that the metric gives is shown, not what the task names alone
    max_seq_length: ClassVar[int] = 512  # of a model whose run is not known
    max_query_length: ClassVar[int] = 0  # where a question stands before a context
    evidence_unit: ClassVar[str] = ""  # of `evidence`; empty where predictions are not explained
    sample: ClassVar[t.Row] = {"text": "a gripping, beautiful film"}  # a row as `bert predict` takes it
    example: ClassVar[str] = ""  # Python that prints the answer to `sample`, by `logits`, in an exported folder
    needs_teachers_tokens: ClassVar[bool] = False  # whether a teacher must have the same tokenizer
    tokens_at_once: ClassVar[int | None] = None  # in a pass of prediction, where fewer than the device takes

    # Reading

    def read(self, task: Task, split: str, path: Path) -> Examples:
        """Read an official file."""
        raise NotImplementedError

    def read_hub(self, task: Task, split: str, dataset: Any) -> Examples:
        """Convert the rows of a data set of the Hub."""
        raise NotImplementedError

    def recognizes(self, path: Path, label: str | None) -> bool:
        """Whether a file of the user's own is in a form of this kind alone; `label` names the column of its labels."""
        return False

    def read_own(self, name: str, files: dict[str, list[Path]], columns: dict[str, str | None]) -> t.OwnData:
        """Make a task of the user's own files, and the examples of each split; report columns, labels and sizes."""
        raise NotImplementedError

    def for_use(self, task: Task, examples: Examples, training: bool) -> Examples:
        """The examples in the form for training or prediction."""
        return examples

    def strata(self, examples: Examples) -> list[str] | None:
        """The labels by which a dev set is stratified, if any."""
        return None

    def labels_of(self, task: Task, examples: Examples) -> Iterable[str]:
        """The labels of all examples in one sequence, where they are names."""
        return ()

    def not_learnt(self, labels: Counter[str], learnt: Collection[str]) -> Counter[str]:
        """Those of the labels, with their counts, that a model which has learnt `learnt` cannot give."""
        return Counter({label: count for label, count in labels.items() if label not in learnt})

    # Encoding

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> t.Features:
        """Encode examples as inputs of a model, with their labels as numbers where they are known."""
        raise NotImplementedError

    def with_class_weights(self, task: Task, features: Any) -> Any:
        """The same features, with a total weight that is equal for all labels."""
        return features

    def unit(self, task: Task, examples: Examples) -> Unit | None:
        """The unit of the values to learn; None where labels are learnt."""
        return None

    def label_counts(self, task: Task, features: Any) -> list[str]:
        """The number of training examples of each label, in words."""
        return []

    def inputs_of_example(self, task: Task) -> int:
        """Number of model inputs that an example becomes, not counting windows."""
        return 1

    def inputs_that_are_cut(self, split: Split, rules: t.Rules) -> tuple[int, str]:
        """Number of inputs that can be truncated, and a description of those that are."""
        return len(split), f"inputs longer than {rules.max_seq_length} tokens"

    # The model

    def model_class(self, saved: t.Saved, config: dict[str, Any] | None) -> Any:
        """The class for a model of this kind: by its saved config.json, or with the entries `config` of a new head."""
        import transformers

        return getattr(transformers, f"AutoModelFor{self.architectures[0]}")

    def fit_head(self, states: t.Floats, targets: t.Labels, outputs: int, strength: float) -> t.LinearHead:
        """Fit a linear head to pooled states, [examples, H]."""
        raise NotImplementedError

    def model_config(self, task: Task) -> dict[str, Any]:
        """The entries of config.json for the labels of a task."""
        config: dict[str, Any] = {"num_labels": 1} if self.problem_type else {}
        if self.names_outputs:
            names = dict(enumerate(task.labels))
            config = {"num_labels": len(names), "id2label": names, "label2id": {name: i for i, name in names.items()}}
        return config | ({"problem_type": self.problem_type} if self.problem_type else {})

    def has_made(self, saved: t.Saved) -> bool:
        """Whether a saved model is of this kind; one without a problem type is a regression if it has one output."""
        problem_type = saved.problem_type or ("regression" if saved.num_labels == 1 else "single_label_classification")
        has_head = any(name in (saved.architectures or [""])[0] for name in self.architectures)
        return has_head and self.problem_type in ("", problem_type)

    def keeps_head(self, saved: t.Saved, config: dict[str, Any]) -> bool:
        """Whether the saved head is of this kind and of the labels to learn."""
        return self.has_made(saved) and saved.id2label == config.get("id2label", saved.id2label)

    def load_model(self, source: str, config: dict[str, Any] | None = None, seed: int = 0) -> t.Model:
        """Load a model; `config` is that of the labels to learn. Raises UserError if it is missing or cannot be opened."""
        from bertcli.models.loading import load_model, open_config

        saved = open_config(source)
        has_new_head = config is not None and not self.keeps_head(saved, config)
        return load_model(source, self.model_class(saved, config), config, has_new_head, seed)

    def with_loss(self, model: t.Model) -> ModelWithLoss:
        """The model with its head and loss, as it is trained and run."""
        from bertcli.models.model_with_loss import ModelWithLoss

        return ModelWithLoss(model, self.outputs, self.losses)

    def outputs(self, model: t.Model, batch: t.Batch) -> t.Outputs:
        """The outputs of the head, by name."""
        from bertcli.models import heads

        return cast("t.Outputs", getattr(heads, self.head)(model, batch))

    def raw_outputs(self, model: t.Model, batch: t.Batch) -> t.Outputs:
        """The outputs by name, before the most probable ones are chosen."""
        return self.outputs(model, batch)

    def losses(self, outputs: t.Outputs, batch: t.Batch) -> t.Outputs:
        """Losses summed over the batch, by name; `batch.counts` says what to divide each by."""
        from bertcli.models.heads import summed_cross_entropy

        return summed_cross_entropy(outputs, batch)

    # A teacher

    def numbers_of(self, features: Any, rows: t.Labels) -> t.Labels:
        """Which of all outputs, in the order of the examples, a batch of some rows has."""
        return rows

    def stack(self, arrays: list[t.Floats], lengths: t.Labels) -> t.Floats:
        """The outputs of a teacher for a batch whose sequences have these lengths, in one array."""
        import numpy as np

        return np.stack(arrays)

    def distance(self, outputs: t.Outputs, taught: t.Outputs, temperature: float) -> t.Logits:
        """How far outputs are from a teacher's, summed over the batch: the divergence of the softened logits."""
        from bertcli.models.cross_entropy import soft_divergence

        return soft_divergence(outputs["logits"], taught["logits"], temperature)

    def add_unlabelled(self, task: Task, examples: Examples, more: Examples) -> Examples:
        """Examples and then `more` without labels, which get any. Raises UserError if the kind learns from none."""
        raise UserError(f"--unlabelled is not for the kind `{self.name}`.", "Leave it out.")

    def evidence(self, logits: t.Logits, output: int) -> t.Logits:
        """The evidence for an output, [N], by the logits, [N, C], which `bert predict --explain` attributes to words."""
        raise NotImplementedError

    # Predictions

    def decode(self, task: Task, split: Split, outputs: t.ModelOutputs, tokenizer: t.Tokenizer) -> t.Predictions:
        """One prediction per example."""
        raise NotImplementedError

    def for_prediction(self, top_k: int, vocab_size: int) -> Kind:
        """The kind as `bert predict` runs it: `top_k` fills for each mask."""
        return self

    def check_input(self, row: t.Row, tokenizer: t.Tokenizer, longest: int, file: str | None) -> None:
        """Check a row given to `bert predict`. Raises UserError if the model cannot take it."""

    def input_examples(self, rows: Sequence[t.Row], tokenizer: t.Tokenizer) -> Examples:
        """The rows given to `bert predict`, as examples."""
        raise NotImplementedError

    def show(self, task: Task, row: t.Row, prediction: t.Prediction, examples: Examples, number: int) -> t.Prediction:
        """The prediction for example `number`, made of `row`, as `bert predict` shows it."""
        return prediction

    def files(self, task: Task, predictions: t.Predictions) -> dict[str, str]:
        """Names and contents of the prediction files of a split."""
        return {PREDICTIONS: "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in predictions)}

    def kept_predictions(self, folder: Path) -> t.Predictions | None:
        """The predictions that a run has kept, with their probabilities; None if it has none."""
        path = folder / PREDICTIONS
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else None
        return None if lines is None else [json.loads(line) for line in lines if line]

    def read_predictions(self, task: Task, split: Split, path: Path, na_probs: Path | None = None) -> t.Predictions:
        """Read one prediction per example from a file; `na_probs` is a file of no-answer scores."""
        raise NotImplementedError

    # Scores

    def metric(self, task: Task) -> Metric:
        """The metric, a module of `evaluate`."""
        module, name = self.metric_class.split(".")
        make = getattr(import_module(f"bertcli.metrics.{module}"), name)
        return cast("Metric", make(self.metric_version(task), keep_in_memory=True))

    def metric_version(self, task: Task) -> str | None:
        """The version of the metric, where it has several."""
        return None

    def compare(self, task: Task, examples: Examples, predictions: t.Predictions) -> t.Compared:
        """Predictions and right answers as the metric takes them."""
        raise NotImplementedError

    def flat(self, answers: list[Any]) -> list[Any]:
        """The compared answers as single values."""
        return answers

    def label_scores(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.LabelScores:
        """Scores of each label, and the confusion matrix: for each true label how often each was predicted."""
        return {}, []

    def in_words(self, task: Task, compared: t.Compared, metrics: dict[str, float]) -> str:
        """What the scores mean, in words for a reader who knows no metric."""
        raise NotImplementedError

    def transformers_call(self, inputs: Sequence[str]) -> str:
        """An expression that gives the outputs for some texts, of a `model` and a `tokenizer` of transformers."""
        return f'model(**tokenizer({", ".join(map(repr, inputs))}, return_tensors="pt"))[0]'

    def confidences(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.Confidences:
        """The probability of each decision, and whether it was right; empty where there are no probabilities."""
        return []

    def error_types(self, task: Task, compared: t.Compared) -> dict[str, int]:
        """Counts of right answers and of each type of error; empty where the confusion matrix shows them."""
        return {}

    def values(self, compared: t.Compared) -> list[tuple[float, float]]:
        """The true and the predicted value of each example, where these are numbers."""
        return []

    def mistakes(self, task: Task, examples: Examples, predictions: t.Predictions, compared: t.Compared) -> t.Mistakes:
        """The wrong predictions: number and text of the example, right answer and prediction."""
        raise NotImplementedError


def unlabelled(task: Task, split: Split) -> UserError:
    """The error for a split that cannot be scored."""
    hint = "Score the dev split: --split dev"
    if "dev" not in task.hub_splits:
        hint = f"Give the official files, which have them: --data-dir DIR; or: bert submit glue RUN ({task.name} is part of it)"
    return UserError(f"The split `{split.name}` of {task.name} has no labels.", hint)
