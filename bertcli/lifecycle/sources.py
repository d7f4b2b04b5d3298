"""Where the examples of a task come from: its official files, the Hub, or the user's own files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from bertcli import number_of, quietly, say
from bertcli.config.baselines import BaselineConfig
from bertcli.config.training import FinetuneConfig
from bertcli.config.use import EvaluateConfig
from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.official_files import data_folder, find_file, load_from_hub, split_file
from bertcli.data.labelled.own_splits import DEV_SHARE, looks_like_file, say_overlap
from bertcli.data.labelled.prediction_table import has_lists_of_labels
from bertcli.data.text.coverage import Unknown, count_unknown
from bertcli.errors import UserError, flag_of
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.kinds.multilabel import MULTILABEL
from bertcli.lifecycle.own_files import Columns, for_training, own_task
from bertcli.lifecycle.workspace import saved_config
from bertcli.tasks import get_task
from bertcli.tasks.task import INPUT, Files, Task

if TYPE_CHECKING:
    from bertcli.data.packing.windows import WindowRules
    from bertcli.data.text.tokenization import WordPiece
    from bertcli.kinds.types import Features


class Lost(NamedTuple):
    """What a model does not read of a part of a split: how many inputs were cut, and which tokens are unknown."""

    inputs: int
    of_inputs: int  # which can be cut
    name: str  # of those
    windows: int = 0  # of the whole part, where its examples have windows
    unknown: Unknown = Unknown()


COLUMNS = ("text", "text_pair", "label", "label_form")
SMALLEST_TRAINING_SET, SMALLEST_DEV_SET = 10, 100
WORTH_READING = 0.05  # share of the tokens that are cut


@dataclass(frozen=True)
class Source:
    """A task with its data: a folder of official files, the Hub where there is none, or own examples."""

    task: Task
    data_dir: str | None = None
    own: dict[str, Examples] | None = None  # by split, of the user's own files
    seed: int = 0

    @property
    def kind(self) -> Kind:
        """The kind of the task."""
        return KINDS[self.task.kind]

    @property
    def resolved(self) -> dict[str, Any]:
        """What was filled in of the task and its data, for config.yaml."""
        own = {name: str(value) for name, value in self.task.files.columns.items()} | {"split_seed": self.seed}
        own |= {"label_form": form} if (form := self.task.files.label_form) else {}
        known = {"task": self.task.name, "data_dir": self.data_dir, **(own if self.own is not None else {})}
        return {**known, "kind": self.task.kind, "best_by": self.task.metrics[0]}

    @property
    def dev_splits(self) -> list[str]:
        """The dev splits that are there: a second one, such as MNLI's mismatched, may be missing."""
        if self.own is not None:
            return ["dev"] if "dev" in self.own else []
        if self.data_dir is None:
            return list(self.task.dev_splits)
        first, *others = self.task.dev_splits
        there = [split for split in others if find_file(self.task, split, Path(self.data_dir))]
        for split in set(others) - set(there):
            say(f"there is no {split} split in {self.data_dir}; scored without it")
        return [first, *there]

    @property
    def is_small(self) -> bool:
        """Whether own texts with labels or values have no dev set, and are too few to cut one that says much."""
        if self.own is None or "dev" in self.own or not self.kind.has_linear_head:
            return False
        return SMALLEST_TRAINING_SET <= len(self.own["train"]) < SMALLEST_DEV_SET / DEV_SHARE

    def for_training(self, trains_on_all: bool) -> Source:
        """The same, with a dev set cut off own data that have none, unless all are trained on."""
        return replace(self, own=for_training(self.task, self.own, self.seed, trains_on_all)) if self.own else self

    def read(self, split: str, training: bool = False, limit: int | None = None) -> Split:
        """Read the examples of a split; with `limit`, as many as that, drawn by the seed."""
        if self.own is not None:
            examples = self.own[split]
        elif self.data_dir is None:
            examples = self.kind.read_hub(self.task, split, load_from_hub(self.task, split))
        else:
            examples = self.kind.read(self.task, split, split_file(self.task, split, Path(self.data_dir)))
        examples = self.kind.for_use(self.task, examples, training)
        if limit is not None and limit < len(examples):
            import numpy as np

            rows = np.random.default_rng(self.seed).permutation(len(examples))[:limit]
            examples = examples.take(sorted(rows.tolist()))
        return Split(split, examples)

    def read_dev(self, split: str, limit: int | None = None) -> Split:
        """Read a dev split; with `limit`, as many examples as that, the same ones whatever the seed of a run."""
        return replace(self, seed=0).read(split, limit=limit)

    def read_to_train(self, limit: int | None, limit_dev: int | None = None) -> list[Split]:
        """The training set and the dev sets; of own data, what these have in common is said."""
        splits = [self.read("train", True, limit), *(self.read_dev(split, limit_dev) for split in self.dev_splits)]
        if self.own is not None:
            parts = self.own | {each.name: each.examples for each in splits}
            labels = {split: list(self.kind.labels_of(self.task, part)) for split, part in parts.items()}
            say_overlap(self.task.name, parts, labels)
        return splits


def check_options(config: FinetuneConfig | BaselineConfig | EvaluateConfig) -> None:
    """Refuse an unknown task, options of own files for a task with a name, and the folder of official files for own ones."""
    is_own = looks_like_file(config.task)
    if not is_own:
        get_task(config.task, "`bert tasks` lists them; no file or folder here has this name.")
    options = ("data_dir",) if is_own else ("text", "text_pair", "label", "kind")
    if given := next((option for option in options if getattr(config, option)), None):
        own = f"of official files; `{config.task}` is your own"
        whose = own if is_own else f"for your own files, not for {config.task}"
        raise UserError(f"{flag_of(given)} is {whose}.", "Leave it out.")


def source_of(config: EvaluateConfig, saved: dict[str, Any]) -> Source:
    """The data to score on; for own files, the run's configuration fills in options that are not given."""
    if not looks_like_file(config.task):
        data_dir = config.data_dir or saved.get("data_dir")
        if data_dir and not config.data_dir:
            say(f"data: {data_dir} (the run's)")
        return find_source(config.task, data_dir)
    columns = {key: getattr(config, key, None) or saved.get(key) for key in COLUMNS}
    kind = config.kind or saved.get("kind")
    if config.predictions and not kind and has_lists_of_labels(Path(config.predictions)):
        kind = MULTILABEL.name
    own = {"scored": config.split, "learnt": is_of(saved, config.task) and has_dev(saved)}
    return find_source(config.task, None, columns, kind, split_seed(saved), **own)


def input_task(source: str, kind: Kind) -> Task:
    """The task of inputs that are of none, read as the run of a model has read its own."""
    saved = saved_config(source)
    task = replace(INPUT, kind=kind.name, max_seq_length=kind.max_seq_length)
    files, with_impossible = Files(label_form=saved.get("label_form", "")), saved.get("with_impossible", False)
    return replace(task, files=files, with_impossible=with_impossible)


def split_seed(saved: dict[str, Any]) -> int:
    """The seed that drew the dev set of a run; those of older versions did not tell it from their own."""
    return int(saved.get("split_seed", saved.get("seed", 0)))


def is_of(saved: dict[str, Any], name: str) -> bool:
    """Whether a run was trained on these files."""
    return os.path.realpath(str(saved.get("task", ""))) == os.path.realpath(name)


def has_dev(saved: dict[str, Any]) -> bool:
    """Whether a run left a dev set out; else it was trained on all examples."""
    return "dev" in (saved.get("data_digests") or ["dev"])


def run_data(saved: dict[str, Any]) -> Source:
    """The data of a run, read again as it read them. Raises UserError if they cannot be read."""
    columns = {key: saved.get(key) for key in COLUMNS}
    with quietly():
        source = find_source(saved["task"], saved.get("data_dir"), columns, saved["kind"], split_seed(saved))
        return source.for_training(not has_dev(saved))


def count_learnt(saved: dict[str, Any], split: Split) -> int:
    """How many examples are among those of own files that a run was trained on, as far as these are as they were."""
    digest = saved.get("data_digests", {}).get("train")
    if digest == split.examples.digest:
        return len(split)
    if not digest or not looks_like_file(saved["task"]):
        return 0
    try:
        with quietly():
            learnt = run_data(saved).read("train", True, saved.get("limit")).examples
    except UserError:
        return 0
    known = set(learnt.inputs()) if learnt.digest == digest else ()
    return sum(each in known for each in split.examples.inputs())


def learnt_before(saved: dict[str, Any], split: Split, task: str | None, dev: str | None) -> str:
    """A remark if what a run starts from, or its teacher, has learnt from examples of a split that is scored.

    `saved`: the options of the run. A file that has changed cannot be compared: with `task`, its name, a start that has learnt
    from it is named too, unless it left out the same dev set, by its digest `dev`; None where the run is cross-validated.
    """
    for start in filter(None, map(saved.get, ("from", "teacher"))):
        path = Path(start) if (Path(start) / "config.yaml").exists() else Path(start).parent
        earlier = saved_config(str(path / "model"))
        is_same = task is not None and os.path.realpath(earlier.get("task", "")) == os.path.realpath(task)
        is_other_dev = is_same and (dev is None or earlier.get("data_digests", {}).get("dev") != dev)
        if is_other_dev or count_learnt(earlier, split):
            return f"{path} has learnt from examples that are scored here: the scores say little of new ones"
        if remark := learnt_before(earlier, split, task, dev):
            return remark
    return ""


@dataclass(frozen=True)
class Setup:
    """A request with its data: the training set, and the dev sets that are scored; without one, the training set is cross-validated."""

    config: Any
    source: Source
    train: Split
    dev: list[Split]

    @property
    def task(self) -> Task:
        """The task."""
        return self.source.task

    @property
    def kind(self) -> Kind:
        """The kind of the task."""
        return self.source.kind

    @property
    def scored(self) -> list[Split]:
        """The splits that are scored."""
        return self.dev or [self.train]


def find_source(
    name: str, data_dir: str | None, columns: Columns | None = None, kind: str | None = None, seed: int = 0, **own: Any
) -> Source:
    """The task of a name, or of own files, which `own_task` reads."""
    if looks_like_file(name):
        task, parts = own_task(str(Path(name)), columns or {}, kind, seed, **own)
        return Source(task, own=parts, seed=seed)
    task, folder = get_task(name), data_folder(data_dir)
    return Source(task, str(folder.resolve()) if folder else None, seed=seed)


def encode_split(task: Task, split: Split, tokenizer: WordPiece, rules: WindowRules, training: bool = False) -> Split:
    """Encode a split."""
    return replace(split, features=KINDS[task.kind].encode(task, split.examples, Encoder(tokenizer, rules), training))


def describe_split(split: Split, parts: list[Lost]) -> str:
    """The size of a split, where it is from, and what was cut or is unknown of its parts."""
    return "; ".join(filter(None, (size_of(split, sum(part.windows for part in parts)), lost_of(split, parts))))


def lost_in(task: Task, split: Split, rules: WindowRules, tokenizer: WordPiece) -> Lost:
    """How many inputs of an encoded split were cut, how many windows it has, and its unknown tokens."""
    kind, features = KINDS[task.kind], cast(Any, split.features)
    windows = len(features.input_ids) if kind.has_windows or rules.in_windows else 0
    unknown = count_unknown(features.input_ids.values, tokenizer)
    return Lost(features.truncated, *kind.inputs_that_are_cut(split, rules), windows, unknown)


def size_of(split: Split, windows: int = 0) -> str:
    """The size of a split and where it is from."""
    in_windows = f", {windows:,} windows" if windows else ""
    return f"{split.name}: {number_of(len(split), split.examples.unit)}{in_windows} from {split.examples.origin}"


def lost_of(split: Split, parts: list[Lost]) -> str:
    """How many inputs of the parts of a split were cut, and the share of unknown tokens, in words; nothing for none."""
    cut, inputs = sum(part.inputs for part in parts), sum(part.of_inputs for part in parts)
    noun, _, how_long = parts[0].name.partition(" ")  # "" of what is never cut
    shown = f"{number_of(cut, noun.removesuffix('s'))} {how_long}"
    cut_words = f"{shown}, cut ({100 * cut / max(1, inputs):.1f} %)" if cut else ""
    words = "; ".join(filter(None, (cut_words, str(sum((part.unknown for part in parts), Unknown())))))
    return f"{split.name}: {words}" if words else ""


def advise_lengths(kind: Kind, split: Split, rules: WindowRules) -> str:
    """Which option keeps what is lost: answers that are too long to be predicted, or a large part of the texts."""
    features = cast(Any, split.features)
    if kind.max_query_length and features.long_answers:
        what = f"{features.long_answers:,} {split.name} answers are longer than {rules.max_answer_length} tokens"
        return f"{what}, the maximum length of a prediction; --max-answer-length raises it"
    share = features.cut_share if kind.has_linear_head and not rules.in_windows else 0.0
    if share < WORTH_READING:
        return ""
    cost = f"takes about {1 / (1 - share):.1f} times as long"
    return f"{100 * share:.0f} % of the {split.name} tokens are cut: --long-texts windows reads them too, and {cost}"


def show_examples(task: Task, split: Split, tokenizer: WordPiece, rules: WindowRules, count: int = 2) -> Iterator[str]:
    """The first examples as their tokens, with the right answer of each."""
    import torch

    from bertcli.data.packing.batches import evaluation_batches

    for row in range(min(count, len(split))):
        one = encode_split(task, replace(split, examples=split.examples.take([row])), tokenizer, rules)
        (batch,) = evaluation_batches(cast("Features", one.features), 10**6)
        sequences = torch.split(batch.input_ids, list(batch.lengths))
        order = batch.labels.get("choice_sequences", torch.arange(len(sequences))).flatten()
        tokens = " ".join(tokenizer.tokens[id_] for place in order for id_ in sequences[place].tolist())
        yield f"example {row + 1}: {tokens}"
        yield f"answer {row + 1}: {split.examples.answer(row)}"
