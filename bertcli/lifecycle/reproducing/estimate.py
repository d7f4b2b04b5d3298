"""How long the parts of a reproduction take: measured where one like it is done, else by a short calibration on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from bertcli import quietly
from bertcli.config.recipes import shipped_model
from bertcli.data.packing.windows import WindowRules
from bertcli.data.pretraining.phases import parse_phases
from bertcli.data.remote import status_of
from bertcli.data.text.documents import find_text_files
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.families.bert import BERT
from bertcli.families.family import ModelSize
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split
from bertcli.lifecycle.defaults import FROZEN_EPOCHS
from bertcli.lifecycle.reproducing.parts import DEV_PER_LIMIT, MASKING_SHARE, Part
from bertcli.lifecycle.reproducing.running import is_done, result_of
from bertcli.lifecycle.sources import encode_split, find_source
from bertcli.lifecycle.workspace import resolve_model
from bertcli.tasks import get_task
from bertcli.tasks.paper import FINETUNING_GRID

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LEAST, MOST = 0.6, 2.0  # of what is estimated, as a range: other work, overhead, and texts of other lengths
SECONDS_OF_RUN = 4.0  # to open models and data, and to write reports
SECONDS_PER_MEGABYTE = {"build_vocab": 0.7, "make_pretraining_data": 0.4}  # of text, and for data of each pass over it
COMPRESSED = 3.0  # size of text beside that of its file
FILLED = 0.9  # mean length of what is pre-trained on, as a share of the longest
FLOPS_PER_WEIGHT = 6  # of forward and backward, for each token
PASSES = 3.0  # of inference that take as long as one of training
SAMPLE = 200
CALIBRATION_FLOPS, CALIBRATION_ROWS, CALIBRATION_LENGTH = 2e11, 16, 128  # of a pass, and of its rows at most


class Speed(NamedTuple):
    """How fast a model trains on this machine, its weights without embeddings and heads, and its width."""

    tokens_per_second: float
    weights: float
    hidden_size: int

    def with_weights(self, more: float) -> float:
        """Tokens per second with so many weights more, of heads, for each token."""
        return self.tokens_per_second / (1 + more / self.weights)


@dataclass(frozen=True)
class Planned:
    """Parts of the same title: how many there are, how many of them are done, and the seconds of each."""

    title: str
    command: str
    count: int
    done: int
    seconds: float
    is_measured: bool = False  # on one that is done, else estimated

    @property
    def seconds_left(self) -> tuple[float, float]:
        """The least and the most that those which are not done may take."""
        left = (self.count - self.done) * self.seconds
        return left * LEAST, left * MOST


@dataclass
class Estimator:
    """Seconds of parts."""

    folder: Path
    parts: Mapping[str, Part]
    data_dir: str | None
    vocab_size: int
    speeds: dict[str, Speed] = field(default_factory=dict)  # by the model

    def plan(self) -> list[Planned]:
        """All parts, those of one title together."""
        titles: dict[str, list[Part]] = {}
        for part in self.parts.values():
            titles.setdefault(part.title, []).append(part)
        return [self._planned(title, group) for title, group in titles.items()]

    def _planned(self, title: str, group: Sequence[Part]) -> Planned:
        done = [part for part in group if is_done(self.folder, part)]
        if done:
            seconds = fmean(result_of(self.folder, part.path)["seconds"] for part in done)
        else:
            seconds = fmean(map(self._estimated, group))
        return Planned(title, group[0].command, len(group), len(done), round(seconds, 1), bool(done))

    def _estimated(self, part: Part) -> float:
        options = part.options
        if part.command in SECONDS_PER_MEGABYTE:
            size: float = _megabytes(tuple(options["text"])) * options.get("dupe_factor", 1)
            return SECONDS_PER_MEGABYTE[part.command] * size
        if part.command in ("pretrain", "distill"):
            return SECONDS_OF_RUN + self._of_pretraining(part)
        if part.command == "evaluate":
            finetuned = self.parts[part.needs["model"]]
            dev = tokens_of(options["task"], options["split"], self.data_dir, _rules(finetuned))
            return SECONDS_OF_RUN + dev / self._speed(finetuned).tokens_per_second / PASSES
        return SECONDS_OF_RUN + self._of_finetuning(part)

    def _of_pretraining(self, part: Part) -> float:
        """The seconds of a pre-training; the weights of the vocabulary are used for each token that is predicted."""
        options, speed = part.options, self._speed(part)
        if flops := options.get("flops"):
            return float(flops) / (FLOPS_PER_WEIGHT * speed.weights * speed.tokens_per_second)
        lengths = [self.parts[data].options["max_seq_length"] for data in part.needs["data"].split(",")]
        phases = parse_phases(options.get("phases") or f"{lengths[0]}:1", options["steps"])
        of_row = sum(length * len(steps) for length, (_, steps) in zip(lengths, phases, strict=True))
        tokens: float = options.get("batch_size", 256) * of_row * FILLED
        width = options.get("hidden_size", BERT.sizes[options["size"]].hidden)
        share = MASKING_SHARE if "mlm" in options["objective"] else 1.0
        return tokens / speed.with_weights(share * width * self.vocab_size)

    def _of_finetuning(self, part: Part) -> float:
        """The seconds of a fine-tuning; of a frozen model those of the BiLSTM on its states, which are computed once."""
        options, rules, speed = part.options, _rules(part), self._speed(part)
        train, dev = (tokens_of(options["task"], split, self.data_dir, rules) for split in ("train", "dev"))
        if limit := options["limit"]:
            train = min(train, limit * tokens_of(options["task"], "train", self.data_dir, rules, each=True))
            dev = min(dev, DEV_PER_LIMIT * limit * tokens_of(options["task"], "dev", self.data_dir, rules, each=True))
        grid = {name: values for name, values in FINETUNING_GRID.items() if options["grid"] and not options.get(name)}
        epochs, runs = options["epochs"] or fmean(grid.get("epochs", [FROZEN_EPOCHS])), prod(map(len, grid.values()))
        if options.get("frozen"):
            joined = 4 if options["frozen_layers"].startswith("concat") else 1
            lstm = (32 + 8 * joined) * speed.hidden_size**2  # weights of its two layers in two directions
            return (train * epochs + dev / PASSES) / speed.tokens_per_second * lstm / speed.weights
        return runs * (train * epochs + dev / PASSES) / speed.tokens_per_second

    def _speed(self, part: Part) -> Speed:
        """The training speed of the model of a part, calibrated once for each model."""
        while "size" not in part.options and (start := part.needs.get("from_") or part.needs.get("teacher")):
            part = self.parts[start.partition("/models/")[0]]
        shape = {name: part.options[name] for name in ("layers", "hidden_size", "heads") if name in part.options}
        model = str(part.options.get("from_") or [part.options["size"], shape])
        if model not in self.speeds:
            start = part.options.get("from_")
            with quietly():
                self.speeds[model] = training_speed(start, part.options.get("size", ""), **shape)
        return self.speeds[model]


def _rules(part: Part) -> WindowRules:
    names = ("max_seq_length", "doc_stride", "max_query_length")
    task = get_task(part.options["task"])
    own = {"max_seq_length": task.max_seq_length, "max_query_length": KINDS[task.kind].max_query_length}
    return WindowRules(**own | {name: part.options[name] for name in names if name in part.options})


@cache
def _megabytes(text: tuple[str, ...]) -> float:
    paths = find_text_files(list(text))
    return sum(float(status_of(path).st_size) * (COMPRESSED if path.suffix != ".txt" else 1) for path in paths) / 1e6


@cache
def tokens_of(task: str, split: str, data_dir: str | None, rules: WindowRules, each: bool = False) -> float:
    """The tokens of a split as a model reads them, or of each example, by a sample that is encoded."""
    examples = _examples(task, split, data_dir)
    rows = list(range(0, len(examples), max(1, len(examples) // SAMPLE)))
    with quietly():
        sample = Split(split, examples.examples.take(rows))
        features = cast(Any, encode_split(get_task(task), sample, _tokenizer(), rules).features)
    import numpy as np

    mean = float(features.lengths[np.arange(len(features.lengths))].sum()) / len(rows)
    return mean if each else mean * len(examples)


@cache
def _examples(task: str, split: str, data_dir: str | None) -> Split:
    with quietly():
        return find_source(task, data_dir).read(split, training=split == "train")


@cache
def _tokenizer() -> Any:
    return load_tokenizer(shipped_model())


def training_speed(start: str | None, size: str, layers: int = 0, hidden_size: int = 0, heads: int = 0) -> Speed:
    """The speed of forward and backward passes of a model on this machine, after one that warms it up."""
    import numpy as np
    import torch

    from bertcli.data.packing.batches import pack
    from bertcli.models.encoder import encode
    from bertcli.models.loading import load_model
    from bertcli.models.model_with_loss import ModelWithLoss
    from bertcli.models.working_copy import WorkingCopy
    from bertcli.training.device import inference_device, training_precision

    if start:
        model = load_model(resolve_model(start))
    else:
        model = _new_model(ModelSize(layers, hidden_size, heads) if layers else BERT.sizes[size])
    dtype = getattr(torch, training_precision("auto", model.config.hidden_size))
    with_loss = ModelWithLoss(
        model, lambda own, batch: {"states": encode(own, batch)}, lambda out, batch: {"loss": out["states"].sum()}
    ).to(inference_device())
    module = WorkingCopy(with_loss, dtype).module
    weights = model.num_parameters(exclude_embeddings=True)
    rows = int(CALIBRATION_FLOPS / (FLOPS_PER_WEIGHT * weights * CALIBRATION_LENGTH))
    lengths = [CALIBRATION_LENGTH] * min(max(rows, 1), CALIBRATION_ROWS)
    ids = torch.randint(model.config.vocab_size, (sum(lengths),)).numpy()
    batch = pack(ids, None, np.array(lengths), np.arange(len(lengths))).to(inference_device())
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        module(batch)["loss"].float().backward()
        seconds.append(time.perf_counter() - started)
    return Speed(sum(lengths) / min(seconds[1:]), weights, model.config.hidden_size)


def _new_model(size: ModelSize) -> PreTrainedModel:
    from transformers import AutoConfig, AutoModel

    from bertcli.models.packed import PACKED

    config = AutoConfig.for_model(BERT.model_types[0], **BERT.settings(size), vocab_size=8000)
    return cast("PreTrainedModel", AutoModel.from_config(config, attn_implementation=PACKED, trust_remote_code=False))
