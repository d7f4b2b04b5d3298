"""Train a pre-trained BERT on one task."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from accelerate import Accelerator
from transformers import PreTrainedModel

from bertcli import say
from bertcli.config.recipes import SHIPPED, shipped_model
from bertcli.config.training import FinetuneConfig, FrozenLayers
from bertcli.data.atomic import replacing
from bertcli.data.labelled.own_splits import listed, looks_like_file, run_name
from bertcli.data.packing.span_features import WindowRules
from bertcli.data.packing.tag_features import TagFeatures
from bertcli.data.packing.text_features import TextFeatures, balanced_weights
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.kinds.architecture import PROBLEM_TYPES, build, load, with_loss
from bertcli.lifecycle.make_pretraining_data import newest_vocabulary
from bertcli.lifecycle.prediction_files import files_of_split
from bertcli.lifecycle.scoring import Record, Scorer, score
from bertcli.lifecycle.sources import Prepared, Source, check_options, dev_splits, encode_split, find_source, read_split
from bertcli.lifecycle.start import begin, check_batch_size, enter
from bertcli.lifecycle.sweep import Setting, name_of, run_sweep, settings_of
from bertcli.models.frozen import with_states
from bertcli.models.loading import check_length, check_vocabulary, open_config, save_model
from bertcli.models.packed import is_packed
from bertcli.reports.model_card import write_reports
from bertcli.tasks import get_task, is_task
from bertcli.tasks.conll2003 import CONLL2003, FROZEN_SCORES
from bertcli.tasks.task import Task
from bertcli.training.device import (
    describe_device,
    disconnect,
    make_accelerator,
    micro_batch_tokens,
    resolve_precision,
    training_precision,
)
from bertcli.training.loop import Plan, Training
from bertcli.training.processes import is_launched, launch
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder, find_runs, resolve_model

LEARNING_RATES = {128: 1e-3, 256: 3e-4, 512: 1e-4}  # of models with at most so many hidden units
FROZEN_LAYERS: FrozenLayers = "concat-last-four"  # the best of the paper's Table 7, which says neither rate nor epochs
FROZEN_LEARNING_RATE, FROZEN_EPOCHS = 1e-3, 10.0


@dataclass(frozen=True)
class _Setup:
    """Everything a fine-tuning run needs, checked before its folder is made."""

    config: FinetuneConfig
    source: Source
    start: str
    train: Prepared
    dev: list[Prepared]
    tokenizer: WordPiece
    model: PreTrainedModel
    rules: WindowRules

    @property
    def task(self) -> Task:
        """The task that is learnt."""
        return self.source.task

    @property
    def data_digests(self) -> dict[str, str]:
        """By which changed data are known."""
        return {part.split: part.examples.digest for part in (self.train, *self.dev)}

    @property
    def precision(self) -> str:
        """What is trained in."""
        if self.config.frozen:
            return resolve_precision(self.config.precision)
        return training_precision(self.config.precision, self.model.config.hidden_size)


def finetune(task: FinetuneConfig | str, **options: Any) -> TrainingResult:
    """Fine-tune a model on a task or on the user's own file and write a run folder.

    The best checkpoint on the dev set, by the task's first metric, is kept in `model/`; with `seeds` or a `grid`, that
    of the best run, and each run has a folder of its own within. All of them see the same examples, drawn by `seed`.

    Raises:
        UserError: if there is no model to start from or no data, or something does not fit.
        Interrupted: after Ctrl-C, the checkpoint saved.
    """
    asked = FinetuneConfig.build(task, options)
    if not asked.resume:
        check_options(asked)
    if is_task(asked.task):
        asked = replace(asked, task=get_task(asked.task).name)  # one name of a run, however the task was spelled
    config, folder = begin("finetune", asked, _run_name(asked.task))
    if not config.task:
        raise UserError("Which task? None was given.", "Name one: bert finetune glue/sst2; `bert tasks` lists them.")
    settings = settings_of(config)
    setup = _prepare(config)
    if config.resume and folder.config.get("data_digests", setup.data_digests) != setup.data_digests:
        raise UserError(
            f"The data of the run in `{folder.path}` have changed since it was begun.",
            "Put them back, or start a new run.",
        )
    if config.processes > 1 and not is_launched() and not config.dry_run:
        return launch("finetune", config, folder.path)
    result = _sweep(setup, settings, folder) if settings else _run(setup, folder)
    disconnect()
    return result


def _run(setup: _Setup, folder: RunFolder) -> TrainingResult:
    config = setup.config
    unused = not is_packed(setup.model)  # weights of attention that is not ours may not all be read
    accelerator = make_accelerator(setup.precision, config.track, folder.path, unused)
    plan = _plan(setup)
    _show_card(setup, plan, accelerator)
    if config.dry_run:
        return TrainingResult(task=setup.task.name, seed=config.seed)
    return _train(setup, plan, accelerator, folder)


def _sweep(setup: _Setup, settings: list[Setting], folder: RunFolder) -> TrainingResult:
    """Train a run for each setting, on the same examples."""
    config, metric = setup.config, setup.task.metrics[0]
    say(f"{len(settings)} runs, the best by dev {metric} is kept: {', '.join(map(name_of, settings))}")
    if config.dry_run:
        return _run(replace(setup, config=replace(config, **settings[0])), folder)
    accelerator = make_accelerator(setup.precision, None, folder.path)
    enter(folder, "finetune", config, _resolved(setup), accelerator)

    def train(own: FinetuneConfig, part: RunFolder) -> TrainingResult:
        accelerator.free_memory()  # of the run before
        return _run(replace(setup, config=own, model=_model(setup.start, own, setup.task, setup.tokenizer)), part)

    result = run_sweep(config, folder, settings, metric, accelerator, train)
    _finish(setup, result, folder, accelerator)
    return result


def _run_name(task: str) -> str:
    return run_name(task) if looks_like_file(task) else task.replace("/", "-").lower()


def _prepare(config: FinetuneConfig) -> _Setup:
    columns = {"text": config.text, "text_pair": config.text_pair, "label": config.label}
    source = find_source(config.task, config.data_dir, columns, config.kind, config.seed)
    task = source.task
    if task.learnt_as:
        raise UserError(
            f"{task.name} has no training data; models of {task.learnt_as} are scored on it.",
            f"Make one: bert finetune {task.learnt_as}; then: bert evaluate {task.name}",
        )
    check_batch_size(config.batch_size or task.batch_size, config.processes)
    if task.warning:
        say(f"note on {task.name}: {task.warning}")
    if config.class_weights and task.kind != "classify":
        raise UserError(
            f"--class-weights {config.class_weights} is for classification; {task.name} is of the kind `{task.kind}`.",
            "Leave --class-weights out.",
        )
    if config.frozen_layers and not config.frozen:
        raise UserError(
            "--frozen-layers belongs to --frozen.", f"Give both: --frozen --frozen-layers {config.frozen_layers}"
        )
    if config.frozen and task.kind != "tag":
        raise UserError(
            f"--frozen is for token labelling; {task.name} is of the kind `{task.kind}`.", "Leave --frozen out."
        )
    if config.frozen:
        config = replace(config, frozen_layers=config.frozen_layers or FROZEN_LAYERS)
        source = replace(source, task=replace(task, learning_rate=FROZEN_LEARNING_RATE, epochs=FROZEN_EPOCHS))
    start = _start(config)
    if start != "scratch":
        open_config(start)  # before its tokenizer, which is less to the point where there is neither
    tokenizer = load_tokenizer(config.tokenizer or (_vocabulary() if start == "scratch" else start))
    rules = WindowRules(
        config.max_seq_length or task.max_seq_length,
        config.doc_stride,
        config.max_query_length if task.kind == "span" else 0,
    )
    train = read_split(source, "train", training=True, limit=config.limit)
    dev = [read_split(source, split) for split in dev_splits(source)]
    model = _model(start, config, task, tokenizer)
    check_vocabulary(model, tokenizer, start)
    check_length(model, rules.max_seq_length)
    encoded = encode_split(task, train, tokenizer, rules, training=True)
    if config.class_weights and isinstance(encoded.features, TextFeatures) and encoded.features.labels is not None:
        weights = balanced_weights(encoded.features.labels, len(task.labels))
        encoded = replace(encoded, features=replace(encoded.features, class_weights=weights))
    return _Setup(
        config,
        source,
        start,
        encoded,
        [encode_split(task, part, tokenizer, rules) for part in dev],
        tokenizer,
        model,
        rules,
    )


def _start(config: FinetuneConfig) -> str:
    """What to start from: as given, else the newest pre-trained run, else the model that ships."""
    if config.from_ == "scratch":
        if not config.size:
            raise UserError("--from scratch needs a size.", "Give one: --size tiny")
        return "scratch"
    if config.size:
        what = f"--size {config.size} is of new weights, and these are not."
        raise UserError(what, f"Leave it out, or give both: --from scratch --size {config.size}")
    if config.from_:
        return resolve_model(config.from_)
    runs = find_runs("pretrain", finished=True)
    if not runs:
        say(f"starting from {SHIPPED}, the small model that ships, as no run here is pre-trained; --from gives another")
        return shipped_model()
    say(f"starting from {runs[0].path} (the newest pre-trained run)")
    return str(runs[0].model)


def _vocabulary() -> str:
    """The vocabulary of new weights: the newest here, else that of the model that ships."""
    name = newest_vocabulary(SHIPPED)
    say(f"vocabulary: {name} ({'that ships, as none is here' if name == SHIPPED else 'the newest here'})")
    return name


def _model(start: str, config: FinetuneConfig, task: Task, tokenizer: WordPiece) -> PreTrainedModel:
    labels: dict[str, Any] = {}
    if task.names_outputs:
        names = dict(enumerate(task.labels))
        labels = {"num_labels": len(names), "id2label": names, "label2id": {name: i for i, name in names.items()}}
    if config.frozen:
        labels["frozen_layers"] = FROZEN_LAYERS if config.frozen_layers == "all" else config.frozen_layers
    if task.kind in PROBLEM_TYPES:
        labels = {"num_labels": 1, **labels, "problem_type": PROBLEM_TYPES[task.kind]}
    if start == "scratch":
        return build(task.kind, str(config.size), tokenizer, labels, config.seed)
    return load(task.kind, start, labels, config.seed)


def _plan(setup: _Setup) -> Plan:
    """Steps as the original counts them: from examples, not windows, rounded down."""
    config, task = setup.config, setup.task
    batch_size, epochs = config.batch_size or task.batch_size, config.epochs or task.epochs
    steps = max(1, int(len(setup.train) / batch_size * epochs))
    return Plan(
        steps=steps,
        batch_size=batch_size,
        learning_rate=config.learning_rate if config.learning_rate is not None else _learning_rate(setup),
        warmup_steps=int(steps * config.warmup_proportion),
        eval_steps=config.eval_steps or max(1, math.ceil(steps / max(1, round(epochs)))),
        save_steps=config.save_steps,
        log_steps=config.log_steps,
        optimizer=config.optimizer,
        seed=config.seed,
        micro_batch_tokens=config.micro_batch_tokens,
        patience=config.patience,
    )


def _learning_rate(setup: _Setup) -> float:
    """The task's for models as large as the paper's; for miniatures of the grid of Turc et al. (2019), for tiny more."""
    if setup.config.frozen:
        return setup.task.learning_rate
    hidden = setup.model.config.hidden_size
    return next((rate for size, rate in LEARNING_RATES.items() if hidden <= size), setup.task.learning_rate)


def _show_card(setup: _Setup, plan: Plan, accelerator: Accelerator) -> None:
    size, device = setup.model.num_parameters() / 1e6, describe_device(accelerator, setup.precision)
    say(f"{setup.task.name} from {setup.start}, {size:.1f} M parameters on {device}")
    if setup.config.frozen:
        say(_frozen_words(setup))
    counts = _label_counts(setup)
    if counts:
        say(f"labels{listed(counts, 6)}")
    say(plan.describe(len(setup.train)))


def _label_counts(setup: _Setup) -> list[str]:
    """How many training examples each label has, the most frequent first, and what they weigh."""
    features = setup.train.features
    if setup.task.kind != "classify" or not isinstance(features, TextFeatures) or features.labels is None:
        return []
    weights = features.class_weights
    return [
        f"{setup.task.labels[label]} {count:,}" + ("" if weights is None else f" (weight {weights[label]:.3g})")
        for label, count in Counter(features.labels.tolist()).most_common()
    ]


def _frozen_words(setup: _Setup) -> str:
    """What a BiLSTM reads, and what the paper got with it."""
    layers = str(setup.config.frozen_layers)
    paper = FROZEN_SCORES.get(layers) if setup.task.name == CONLL2003.name else None
    return f"frozen: a two-layer BiLSTM reads {layers}" + (f"; the paper's base model: dev F1 {paper}" if paper else "")


def _with_frozen_states(setup: _Setup, accelerator: Accelerator) -> _Setup:
    """The same with the hidden states that do not change."""
    model, dtype = setup.model.to(accelerator.device), resolve_precision(setup.config.precision)

    def keep(part: Prepared) -> Prepared:
        assert isinstance(part.features, TagFeatures)
        tokens = micro_batch_tokens(setup.config.micro_batch_tokens)
        return replace(part, features=with_states(model, part.features, accelerator.device, tokens, dtype))

    return replace(setup, train=keep(setup.train), dev=[keep(part) for part in setup.dev])


def _train(setup: _Setup, plan: Plan, accelerator: Accelerator, folder: RunFolder) -> TrainingResult:
    config, task = setup.config, setup.task
    if config.frozen:
        setup = _with_frozen_states(setup, accelerator)
    assert setup.train.features is not None
    trained_as = {
        "batch_size": plan.batch_size,
        "learning_rate": plan.learning_rate,
        "epochs": config.epochs or task.epochs,
    }
    enter(folder, "finetune", config, {**_resolved(setup), **trained_as}, accelerator)
    objective = with_loss(setup.model, task.kind)
    training = Training(objective, setup.train.features, plan, folder, accelerator, setup.precision)
    if config.resume:
        training.resume()
    dtype = resolve_precision(config.precision)
    scorer = Scorer(task, training.model, setup.tokenizer, setup.rules, accelerator.device, dtype)

    def evaluate() -> dict[str, float]:
        metrics: dict[str, float] = {}
        for part in setup.dev:
            records = scorer.predict(part)
            prefix = "" if part is setup.dev[0] else f"{part.split}_"
            metrics |= {prefix + name: value for name, value in score(task, part, records).items()}
            if part is setup.dev[0]:
                first = records
        _keep_best(training, setup, metrics, first)
        return metrics

    training.run(evaluate)
    result = training.finish(task.name, split="dev")
    if result.stopped_early:
        say(f"stopped early, at step {result.steps} of {plan.steps}: --patience {config.patience} ran out")
    _finish(setup, result, folder, accelerator)
    return result


def _finish(setup: _Setup, result: TrainingResult, folder: RunFolder, accelerator: Accelerator) -> None:
    if accelerator.is_main_process:
        write_reports(folder, result, _notes(setup, result))
        folder.unlock()


def _notes(setup: _Setup, result: TrainingResult) -> list[str]:
    """What the card says below the scores."""
    notes = [f"Scores are of the best checkpoint on dev, step {result.best_step:,} of {result.steps:,}."]
    if result.runs:
        notes.append(
            f"It is the best of {len(result.runs)} runs by dev {setup.task.metrics[0]}; each has a folder here."
        )
    if setup.config.frozen:
        notes.append(
            f"{_frozen_words(setup)}. `AutoModel` opens the BERT, as it was; the BiLSTM stands in the same file"
            " (`lstm`, `classifier`), which `bert evaluate` and `bert predict` read."
        )
    if result.stopped_early:
        notes.append(f"Stopped early: `--patience {setup.config.patience}` ran out.")
    if result.collapsed:
        notes.append("**Collapsed**: this model says the same of every dev example; it has not learnt the task.")
    counts = _label_counts(setup)
    if counts:
        notes.append(f"Training examples of each label: {', '.join(counts)}.")
    return [*notes, *([setup.task.warning] if setup.task.warning else [])]


def _resolved(setup: _Setup) -> dict[str, Any]:
    """What was filled in of task, data and start, for config.yaml."""
    task = setup.task
    found = {key: str(value) for key, value in task.files.columns.items()} if setup.source.own_file else {}
    return {
        "task": task.name,
        "from": setup.start,
        "tokenizer": setup.tokenizer.source,
        "data_dir": setup.source.data_dir,
        **found,
        "kind": task.kind,
        **({"with_impossible": task.with_impossible} if task.kind == "span" else {}),
        "max_seq_length": setup.rules.max_seq_length,
        "best_by": task.metrics[0],
        "data_digests": setup.data_digests,
    }


def _keep_best(training: Training, setup: _Setup, metrics: dict[str, float], records: list[Record]) -> None:
    """Save the model and its predictions if no earlier checkpoint scored as much; count how long none was better."""
    name, history = setup.task.metrics[0], training.history
    if history.best and metrics[name] <= history.best["metrics"][name]:
        history.evaluations_since_best += 1
        return
    history.best = {"step": history.steps, "metrics": metrics, "collapsed": _is_collapsed(records)}
    history.evaluations_since_best = 0
    with replacing(training.folder.model) as part:
        save_model(training.model.model, setup.tokenizer, part)
    for file, text in files_of_split(setup.task, records).items():
        training.folder.write(file, text)


def _is_collapsed(records: list[Record]) -> bool:
    """Whether every example, or word, is given the same, as by a model that has learnt nothing."""
    given = [str(record[key]) for record in records for key in ("label", "labels", "value", "choice") if key in record]
    given += [tag for record in records for tag in record.get("tags", ())]
    return len(given) > 1 and len(set(given)) == 1
