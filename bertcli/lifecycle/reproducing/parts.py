"""The parts of a reproduction: a vocabulary, pre-training data, models, and fine-tunings of them, each a call of a command's core."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from bertcli.config.distillation import DistillConfig
from bertcli.config.recipes import recipes_folder, with_recipe
from bertcli.config.reproduce import ReproduceConfig
from bertcli.data.checksums import digest_of
from bertcli.data.pretraining.phases import parse_phases
from bertcli.data.text.documents import find_text_files
from bertcli.errors import UserError
from bertcli.families.bert import BERT
from bertcli.kinds import KINDS
from bertcli.tasks import get_task
from bertcli.tasks.experiments.experiment import Column, Experiment, System
from bertcli.tasks.paper import FIGURE_5

ONCE = 10**9  # steps between evaluations of a fine-tuning: one, at its end
DEV_PER_LIMIT = 10  # dev examples for each training example of --limit
DOC_STRIDE = 128  # between windows over a long context, as the paper's; half of shorter windows
KEPT = sorted({int(share.split()[0]) / 100 for share in FIGURE_5.columns} - {1.0})  # of the steps: models that are kept
MASKING_SHARE = 0.15
DATA = "data"  # folder of pre-training data in that of a reproduction
NOT_NAMED = {"data_dir", "text"}  # options that a machine may have otherwise for the same part


@dataclass(frozen=True)
class Part:
    """A call of a command's core, whose result is a folder."""

    path: str  # in the folder of the reproduction
    title: str
    command: str  # a function of bertcli
    options: dict[str, Any]
    needs: dict[str, str] = field(default_factory=dict)  # option -> paths in the reproduction's folder, with commas
    after: tuple[str, ...] = ()  # the parts that these are of


@dataclass(frozen=True)
class Row:
    """A row of our table: a system, and the model that is named, where it is not pre-trained."""

    name: str
    system: System
    paper: str  # the row of the paper's table whose scores stand beside it
    model: str = ""
    beside: str = ""  # the row that it is compared with


@dataclass(frozen=True)
class Parts:
    """The parts of an experiment in an order in which they can be run, and those that each cell is scored by."""

    all: dict[str, Part]
    cells: dict[tuple[str, str], list[str]]  # row, head of column -> a part for each pair of seeds


@cache
def _content_of(text: str) -> list[str]:
    """The name of a text, and digests of its files, which are the same on another machine."""
    return [Path(text).name, *map(digest_of, find_text_files([text]))]


def rows_of(experiment: Experiment, models: Sequence[str]) -> list[Row]:
    """The rows: a system each, or for each of the models."""
    if experiment.pretrains:
        return [Row(each.name, each, each.name, beside=each.beside) for each in experiment.systems]
    rows = []
    for model in models:
        for system in experiment.systems:
            beside = next((each for each in experiment.systems if each.name == system.beside), None)
            names = [f"{model}, {each.words or each.name}" for each in (system, beside) if each]
            if not experiment.systems[1:]:
                names = [model, *([models[0]] if model != models[0] else [])]
            rows.append(Row(names[0], system, experiment.paper_row(system, model), model, *names[1:]))
    return rows


def parts_of(config: ReproduceConfig, experiment: Experiment, rows: Sequence[Row], data_dir: str | None) -> Parts:
    """What has to be run for an experiment, each part once, whichever rows and columns need it."""
    _check_points(config, experiment)
    planner = _Planner(config, data_dir, experiment.equal_compute)
    cells = {}
    for column in experiment.columns:
        for row in rows:
            if column.metric != "average" and column.paper not in row.system.leaves_out:
                cells[row.name, column.head] = list(planner.parts_of_cell(row, column))
    return Parts(planner.parts, cells)


def _check_points(config: ReproduceConfig, experiment: Experiment) -> None:
    """Raise UserError if the columns are not scored after different steps, as in the paper."""
    scored = {0: 0.0, config.steps: 1.0}  # by the step
    for column in sorted(experiment.columns, key=lambda each: each.at):
        step = round(column.at * config.steps)
        if scored.setdefault(step, column.at) != column.at:
            own = "has no step" if not step else f"has one step at {scored[step]:.0%} and"
            what = f"--steps {config.steps} {own} at {column.at:.0%} of them, where `{column.head}` is scored."
            raise UserError(what, f"Give more: --steps {max(10, 2 * config.steps)}")


@dataclass
class _Planner:
    config: ReproduceConfig
    data_dir: str | None
    equal_compute: bool = False
    parts: dict[str, Part] = field(default_factory=dict)

    def parts_of_cell(self, row: Row, column: Column) -> Iterator[str]:
        """The parts whose scores a cell shows."""
        config, models = self.config, [""]
        if row.system.pretrain is not None:
            models = [self._model(row.system, seed) for seed in range(config.pretrain_seeds)]
        if not column.task:
            yield from models
            return
        for model in models:
            for seed in range(config.seeds):
                finetuned = self._finetuned(row, column, model, seed)
                yield finetuned if column.split == "dev" else self._scored(finetuned, column)

    def _add(self, kind: str, title: str, command: str, options: dict[str, Any], **needs: str) -> str:
        """Add a part, unless it is there; return its path, which its options and those of what it needs decide."""
        named = {name: value for name, value in options.items() if name not in NOT_NAMED}
        texts = [_content_of(text) for text in options.get("text", ())]
        path = f"{kind}-{sha256(json.dumps([named, needs, texts], sort_keys=True).encode()).hexdigest()[:8]}"
        needed = tuple(path for need in needs.values() for path in need.split(","))
        after = tuple(part for part in self.parts if any(path.startswith(part) for path in needed))
        self.parts.setdefault(path, Part(path, title, command, options, dict(needs), after))
        return path

    def _vocabulary(self, system: System) -> str:
        family, own = _of_family(system), system.vocabulary
        options = {"text": self._text, "vocab_size": self.config.vocab_size, **family, **own}
        named = f" for {system.family}" * bool(family) + "".join(f", {option}" for option in own)
        return self._add("vocabulary", f"learn a vocabulary{named}", "build_vocab", options)

    @property
    def _text(self) -> list[str]:
        return self.config.text or [str(recipes_folder() / "demo" / "books")]

    @property
    def _held_out_text(self) -> list[str]:
        return self.config.held_out or ([] if self.config.text else [str(recipes_folder() / "demo" / "held-out")])

    def _data(self, text: list[str], title: str, system: System, length: int = 0, **more: Any) -> str:
        config = self.config
        title, length = f"{title}{f' of length {length}' if length else ''}", length or config.max_seq_length
        options: dict[str, Any] = {
            "text": text,
            "max_seq_length": length,
            "dupe_factor": config.dupe_factor,
            "masking": "dynamic",
            **({"split_sentences": True} if config.split_sentences else {}),
            **(_of_family(system) or {"max_predictions_per_seq": max(1, round(length * MASKING_SHARE))}),
            **system.data,
            **more,
        }
        kind = "pairs" if options.get("next_sentence", True) else "single-texts"
        kind = options.get("family", kind)
        if config.tokenizer:
            options["tokenizer"] = config.tokenizer
        needs = {} if config.tokenizer else {"tokenizer": self._vocabulary(system)}
        return self._add(f"{DATA}/{kind}", f"{title}: {kind}", "make_pretraining_data", options, **needs)

    def _model(self, system: System, seed: int) -> str:
        config = self.config
        options: dict[str, Any] = {
            "size": config.size,
            **({"flops": config.flops} if self.equal_compute else {"steps": config.steps}),
            **({"phases": config.phases} if config.phases else {}),
            "seed": seed,
            "precision": config.precision,
            **_in_shape(dict(system.pretrain or {}), config.size),
        }
        options = with_recipe(config.pretrain_recipe, options)
        if kept := self._kept_steps():
            options["keep_steps"] = ",".join(map(str, kept))
        data = (self._data(self._text, "make data", system, length) for length in lengths_of(config.phases))
        needs = {"data": ",".join(data)}
        if self._held_out_text:
            needs["eval_data"] = self._data(self._held_out_text, "make held-out data", system, dupe_factor=1)
        name = f"{system.name}{f', seed {seed}' if config.pretrain_seeds > 1 else ''}"
        if not system.teacher:
            kind = f"pretrained/{options['objective']}-{config.size}"
            return self._add(kind, f"pre-train {name}", "pretrain", options, **needs)
        known = DistillConfig().values().keys() - {"size"}  # a student has that of its teacher's layers
        options = {name: value for name, value in options.items() if name in known}
        needs["teacher"] = self._model(system.teacher, seed)
        return self._add(f"distilled/{config.size}", f"distill {name}", "distill", options, **needs)

    def _kept_steps(self) -> list[int]:
        steps = {round(share * self.config.steps) for share in KEPT} - {0, self.config.steps}
        return [] if self.equal_compute else sorted(steps)

    def _finetuned(self, row: Row, column: Column, model: str, seed: int) -> str:
        config, task = self.config, get_task(column.task)
        options: dict[str, Any] = {
            "task": task.name,
            "seed": seed,
            "epochs": config.epochs,
            "learning_rate": config.learning_rate,
            "limit": config.limit,
            "limit_dev": config.limit and DEV_PER_LIMIT * config.limit,
            "grid": config.grid,
            "eval_steps": ONCE,
            "baseline": False,
            "data_dir": self.data_dir,
            "precision": config.precision,
            **row.system.finetune,
            **column.finetune,
        }
        if options["epochs"] is None and not (config.grid or options.get("frozen")):
            options["epochs"] = task.epochs  # also for few examples
        title = f"fine-tune {row.name} on {task.name}"
        if options.get("frozen"):  # which the grid is not for
            title, options["grid"] = f"train a BiLSTM on {row.name}, frozen, on {task.name}", None
        kind = f"finetuned/{task.name.replace('/', '-')}"
        if not model:
            return self._add(kind, title, "finetune", {**options, "from_": row.model})
        length = options["max_seq_length"] = min(task.max_seq_length, config.max_seq_length)
        if longest := KINDS[task.kind].max_query_length:
            options |= {"max_query_length": min(longest, length // 2), "doc_stride": min(DOC_STRIDE, length // 2)}
        start = model if column.at == 1 else f"{model}/models/step-{round(column.at * config.steps)}"
        return self._add(kind, title, "finetune", options, from_=start)

    def _scored(self, finetuned: str, column: Column) -> str:
        options = {"task": column.task, "split": column.split, "data_dir": self.data_dir}
        title = f"{self.parts[finetuned].title}: score {column.split}"
        return self._add("scored/test", title, "evaluate", options, model=finetuned)


def _of_family(system: System) -> dict[str, Any]:
    """The option that names the family of a system; none for BERT."""
    return {} if system.family == BERT.key else {"family": system.family}


def _in_shape(options: dict[str, Any], size: str) -> dict[str, Any]:
    """The options with a shape of the paper scaled from base to another size: layers in proportion, heads as wide as its."""
    if "layers" not in options:
        return options
    base, ours = BERT.sizes["base"], BERT.sizes[size]
    heads = max(1, round(options["heads"] * ours.heads / base.heads))
    layers = max(1, round(options["layers"] * ours.layers / base.layers))
    width = ours.hidden // ours.heads
    # Of Table 6 one row has as few as three heads, which are wider.
    hidden = ours.hidden if options["hidden_size"] == base.hidden else heads * width
    shape = {"layers": layers, "hidden_size": hidden, "heads": heads}
    is_size = (layers, hidden, heads) == (ours.layers, ours.hidden, ours.heads)
    return {name: value for name, value in options.items() if name not in shape} | ({} if is_size else shape)


def lengths_of(phases: str | None) -> list[int]:
    """The lengths of `128:0.9,512:0.1`; 0, for that of the reproduction, where there are no phases."""
    return [length or 0 for length, _ in parse_phases(phases, 10**9)] if phases else [0]
