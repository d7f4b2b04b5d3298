"""What a kind of task is: everything that differs between kinds, each its own functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from bertcli.data.labelled.examples import Examples
from bertcli.errors import UserError
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import PretrainedConfig, PreTrainedModel

    from bertcli.data.packing.batches import PackedBatch
    from bertcli.data.packing.windows import WindowRules
    from bertcli.data.text.tokenization import WordPiece
    from bertcli.metrics.metric import Metric
    from bertcli.models.model_with_loss import ModelWithLoss, Outputs

Prediction = dict[str, Any]  # what a model says of an example, by the keys that `bert predict --json` prints
Compared = dict[str, list[Any]]  # what a metric takes: `predictions` and `references`, an entry an example
ModelOutputs = dict[str, list[Any]]  # each output of the head as arrays, in the order of the examples
Mistakes = Iterator[tuple[Any, Prediction]]  # how bad each is, greater is worse, and what is shown of it
Wrong = tuple[float | None, Prediction]  # how wrong a prediction is, None if it is right, and what is shown of it
LabelScores = tuple[dict[str, dict[str, float]], list[list[int]]]  # precision ... by label, and the confusion matrix


class Features(Protocol):
    """Encoded examples, which can be packed."""

    @property
    def truncated(self) -> int:
        """How many inputs were too long and were cut."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens an input, [inputs]."""

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen inputs."""


@dataclass(frozen=True)
class Encoder:
    """What makes inputs of examples."""

    tokenizer: WordPiece
    rules: WindowRules


@dataclass(frozen=True)
class Split:
    """A split of a task: its examples, and the same encoded for a model."""

    name: str
    examples: Examples
    features: Features | None = None

    def __len__(self) -> int:
        """Number of examples, which may be less than the number of windows."""
        return len(self.examples)


class Kind:
    """A kind of task; each file of this room holds the one value of a subclass."""

    name: ClassVar[str]  # as `--kind` and config.yaml spell it
    architectures: ClassVar[tuple[str, ...]]  # how transformers ends the names of its models, its own first
    problem_type: ClassVar[str] = ""  # as config.json spells it
    metrics: ClassVar[tuple[str, ...]] = ()  # of the user's own data; the first chooses the best checkpoint
    metric_class: ClassVar[str] = ""  # a module of metrics/ and the class in it
    inputs: ClassVar[tuple[str, ...]] = ()  # forms of input that `bert predict` takes
    needs: ClassVar[str] = "a text"  # the same in words
    says: ClassVar[str] = ""  # the key of a prediction that holds the answer
    options: ClassVar[tuple[str, ...]] = ()  # of `bert finetune` that other kinds do not have
    purpose: ClassVar[str] = ""  # what these options are for, in words
    names_outputs: ClassVar[bool] = (
        False  # whether the outputs of a model are the labels, so that it carries their names
    )
    has_probabilities: ClassVar[bool] = True  # which order mistakes
    is_task: ClassVar[bool] = True  # whether there are tasks of it, with labels to learn
    official_file: ClassVar[str] = ""  # the name of the official form of predictions, where there is one
    can_collapse: ClassVar[bool] = True  # whether one answer for all shows that nothing was learnt
    has_windows: ClassVar[bool] = False  # whether long examples become several inputs
    needs_all_splits: ClassVar[bool] = False  # whether one split alone may not show how labels are spelled
    scores_all: ClassVar[bool] = False  # whether all that the metric gives is shown, not what the task names alone
    max_seq_length: ClassVar[int] = 512  # of a model whose run is not known
    max_query_length: ClassVar[int] = 0  # where a question stands before a context
    tokens_at_once: ClassVar[int | None] = (
        None  # in one pass of a model that predicts, where fewer than the device takes
    )

    # Reading

    def read(self, task: Task, split: str, path: Path) -> Examples:
        """Read an official file."""
        raise NotImplementedError

    def read_hub(self, task: Task, split: str, dataset: Any) -> Examples:
        """Take the rows of a data set of the Hub."""
        raise NotImplementedError

    def recognizes(self, path: Path) -> bool:
        """Whether a file of the user's own is in a form of this kind alone."""
        return False

    def read_own(self, name: str, files: dict[str, list[Path]], columns: dict[str, str | None]) -> OwnData:
        """Make a task of the user's own files, and the examples of each split; columns, labels and sizes are said."""
        raise NotImplementedError

    def for_use(self, task: Task, examples: Examples, training: bool) -> Examples:
        """The examples as they are trained on, or predicted."""
        return examples

    def strata(self, examples: Examples) -> list[str] | None:
        """What a dev set should hold the same shares of."""
        return None

    def labels_of(self, task: Task, examples: Examples) -> Iterable[str]:
        """The labels of all examples, end to end, where they are names."""
        return ()

    # Encoding

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> Features:
        """Encode examples as inputs of a model, with their labels as numbers where they are known."""
        raise NotImplementedError

    def with_class_weights(self, task: Task, features: Any) -> Any:
        """The same features, with rare labels weighing as much as frequent ones."""
        return features

    def label_counts(self, task: Task, features: Any) -> list[str]:
        """The number of training examples of each label, in words."""
        return []

    def inputs_that_are_cut(self, split: Split, rules: WindowRules) -> tuple[int, str]:
        """How many inputs may be cut where they are too long, and which those are, in words."""
        return len(split), f"inputs longer than {rules.max_seq_length} tokens"

    # The model

    def model_class(self, saved: PretrainedConfig | None, config: dict[str, Any] | None) -> Any:
        """The class of transformers for a model of this kind, as saved, or with what config.json says of a new one."""
        import transformers

        return getattr(transformers, f"AutoModelFor{self.architectures[0]}")

    def model_config(self, task: Task) -> dict[str, Any]:
        """What config.json says of the labels to learn."""
        config: dict[str, Any] = {"num_labels": 1} if self.problem_type else {}
        if self.names_outputs:
            names = dict(enumerate(task.labels))
            config = {"num_labels": len(names), "id2label": names, "label2id": {name: i for i, name in names.items()}}
        return config | ({"problem_type": self.problem_type} if self.problem_type else {})

    def has_made(self, saved: PretrainedConfig) -> bool:
        """Whether a saved model is of this kind."""
        return any(name in (saved.architectures or [""])[0] for name in self.architectures)

    def keeps_head(self, saved: PretrainedConfig, config: dict[str, Any]) -> bool:
        """Whether the saved head is of this kind and of the labels to learn."""
        return self.has_made(saved) and saved.id2label == config.get("id2label", saved.id2label)

    def load_model(self, source: str, config: dict[str, Any] | None = None, seed: int = 0) -> PreTrainedModel:
        """Load a model; `config` is what config.json says of labels to learn.

        Raises UserError if there is none or it cannot be opened.
        """
        from bertcli.models.loading import load_model, open_config

        saved = open_config(source)
        has_new_head = config is not None and not self.keeps_head(saved, config)
        return load_model(source, self.model_class(saved, config), config, has_new_head, seed)

    def with_loss(self, model: PreTrainedModel) -> ModelWithLoss:
        """The model with its head and loss, as it is trained and run."""
        from bertcli.models.model_with_loss import ModelWithLoss

        return ModelWithLoss(model, self.outputs, self.losses)

    def outputs(self, model: PreTrainedModel, batch: PackedBatch) -> Outputs:
        """The outputs of the head, by name."""
        raise NotImplementedError

    def losses(self, outputs: Outputs, batch: PackedBatch) -> Outputs:
        """Losses summed over the batch, by name; `batch.counts` says what to divide each by."""
        raise NotImplementedError

    # Predictions

    def decode(self, task: Task, split: Split, outputs: ModelOutputs, tokenizer: WordPiece) -> list[Prediction]:
        """One prediction an example."""
        raise NotImplementedError

    def for_prediction(self, top_k: int, vocab_size: int) -> Kind:
        """The kind as `bert predict` runs it: `top_k` fills for each mask."""
        return self

    def check_input(self, row: dict[str, Any], tokenizer: WordPiece, longest: int, file: str | None) -> None:
        """Check a row that `bert predict` was given. Raises UserError if a model could not take it."""

    def input_examples(self, rows: Sequence[dict[str, Any]], tokenizer: WordPiece) -> Examples:
        """The rows that `bert predict` was given as examples."""
        raise NotImplementedError

    def show(self, row: dict[str, Any], prediction: Prediction, examples: Examples, number: int) -> Prediction:
        """A prediction as `bert predict` shows it, of example `number`, which a row was made."""
        return prediction

    def files(self, task: Task, predictions: list[Prediction]) -> dict[str, str]:
        """Names and texts of the files that hold the predictions of a split."""
        return {"predictions.jsonl": "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in predictions)}

    def read_predictions(self, task: Task, split: Split, path: Path, na_probs: Path | None = None) -> list[Prediction]:
        """Read one prediction an example from a file; `na_probs` is a file of no-answer scores."""
        raise NotImplementedError

    # Scores

    def metric(self, task: Task) -> Metric:
        """The metric, a module of `evaluate`."""
        from importlib import import_module

        module, name = self.metric_class.split(".")
        metric: Metric = getattr(import_module(f"bertcli.metrics.{module}"), name)(
            self.metric_version(task), keep_in_memory=True
        )
        return metric

    def metric_version(self, task: Task) -> str | None:
        """Which of the metric's rules count."""
        return None

    def compare(self, task: Task, examples: Examples, predictions: list[Prediction]) -> Compared:
        """Predictions and right answers as the metric takes them."""
        raise NotImplementedError

    def flat(self, answers: list[Any]) -> list[Any]:
        """Answers, a list of those that are compared, as single values."""
        return answers

    def label_scores(self, task: Task, predictions: list[Prediction], compared: Compared) -> LabelScores:
        """Scores of each label, and the confusion matrix: for each true label how often each was predicted."""
        return {}, []

    def mistakes(self, task: Task, examples: Examples, predictions: list[Prediction], compared: Compared) -> Mistakes:
        """The wrong predictions, with the number and the text of each example, the right answer and the one given."""
        raise NotImplementedError


OwnData = tuple[Task, dict[str, Examples]]
Reader = Callable[[Path], Examples]


def mistake(prediction: Prediction, gold: Any, predicted: Any) -> Prediction:
    """What is shown of a mistake beside its example."""
    return {"gold": gold, "predicted": predicted, "probability": prediction.get("score")}


def unlabelled(task: Task, split: Split) -> UserError:
    """The error for a split that cannot be scored."""
    hint = "Score the dev split: --split dev"
    if "dev" not in task.hub_splits:
        hint = f"Give the official files, which have them: --data-dir DIR; or: bert submit glue RUN ({task.name} is part of it)"
    return UserError(f"The split `{split.name}` of {task.name} has no labels.", hint)
