"""Train a BERT on masked words and next sentences, or another objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.config.training import PretrainConfig, TrainingConfig
from bertcli.data.atomic import replacing
from bertcli.data.pretraining.shards import PretrainingExamples, load_pretraining_examples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.families.bert import BERT
from bertcli.lifecycle.start import begin, check_batch_size, enter
from bertcli.lifecycle.workspace import latest_pretraining_data, resolve_model, tokenizer_source
from bertcli.objectives import default_objective, get_objective
from bertcli.objectives.objective import Objective
from bertcli.training.processes.launching import launch, processes_to_launch
from bertcli.training.result import PRETRAINING, TrainingResult
from bertcli.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

    from bertcli.training.plan import Plan


NEIGHBOUR_TOKENS = 50_000_000  # enough for the neighbours of each token
EVALUATION_ROWS = 800  # of the training data without --eval-data, as run_pretraining.py's 100 batches of 8


@dataclass(frozen=True)
class Request:
    """What to train on, checked before anything slow is imported."""

    config: PretrainConfig
    objective: Objective
    examples: PretrainingExamples
    held_out: PretrainingExamples
    source: str  # of the weights; empty for new ones
    resumed: Path | None  # folder with the configuration of a model whose weights are in a checkpoint
    command: str = "pretrain"
    options: TrainingConfig | None = None  # of another command than `bert pretrain`
    resolved: Mapping[str, Any] = field(default_factory=dict)  # more of config.yaml
    notes: tuple[str, ...] = ()  # for the model card
    add_files: Callable[[Path], None] = lambda folder: None  # to the folder of the finished model

    @property
    def asked(self) -> TrainingConfig:
        """The options of the command."""
        return self.options or self.config


def pretrain(config: PretrainConfig | None = None, **options: Any) -> TrainingResult:
    """Pre-train a BERT on the instances of `bert make-pretraining-data` and write a run folder.

    The loss of each part of the objective is the mean over its predictions in the whole global batch (masked tokens,
    pairs); their sum is minimised (run_pretraining.py).

    Raises UserError if there is no data, or if objective, vocabulary or length do not fit data and model; Interrupted
    after Ctrl-C, with the checkpoint saved.
    """
    asked = PretrainConfig.build(config, options)
    config, folder = begin("pretrain", asked, f"pretrain-{asked.size}")
    request = _check(config, folder)
    return run_pretraining(request, _make_model(request), folder)


def run_pretraining(request: Request, model: PreTrainedModel, folder: RunFolder) -> TrainingResult:
    """Train a model, in several processes where that is asked for, and write its run folder."""
    config = request.config
    if (count := processes_to_launch(config.processes)) > 1 and not config.dry_run:
        return launch(request.command, request.asked.values(), count, folder)
    from bertcli.training.device import make_accelerator

    unused = not request.objective.trains_every_weight
    accelerator = make_accelerator(config.precision, config.track, folder.path, unused)
    plan = _plan(config)
    _show_card(request, model, plan, accelerator)
    if config.dry_run:
        return TrainingResult(task=PRETRAINING, seed=config.seed)
    with folder:
        return _train(request, model, plan, accelerator, folder)


def _check(config: PretrainConfig, run: RunFolder) -> Request:
    """Find data, objective and model. Raises UserError if the data do not fit the objective, the vocabulary or a resumed run."""
    asked = get_objective(config.objective) if config.objective else None
    folder = config.data or latest_pretraining_data()
    begun = run.shards_per_window if config.resume else None  # the order stays, whatever the cache
    examples = load_pretraining_examples(folder, config.seed, config.data_cache_gb, begun)
    say(f"data: {folder}{'' if config.data else ' (latest in this folder)'}")
    objective = asked or default_objective(examples.has_pairs)
    check_data(examples, objective, run if config.resume else None)
    digest = examples.tokenizer.digest
    if config.tokenizer and load_tokenizer(tokenizer_source(config.tokenizer)).digest != digest:
        raise UserError(
            f"The vocabulary `{config.tokenizer}` is not the one that `{folder}` was made with.",
            f"Leave --tokenizer out, or make the data again: bert make-pretraining-data TEXT --tokenizer {config.tokenizer}",
        )
    check_batch_size(config.batch_size, config.processes)
    held_out = held_out_of(config, examples)
    resumed = run.start if config.resume and run.start.exists() else None
    return Request(config, objective, examples, held_out, "" if resumed else _source(config), resumed)


def held_out_of(config: PretrainConfig, examples: PretrainingExamples) -> PretrainingExamples:
    """What to evaluate on. Raises UserError if it was made with another vocabulary than what is trained on."""
    if not config.eval_data:
        return examples.head(EVALUATION_ROWS)
    held_out = load_pretraining_examples(config.eval_data, config.seed, config.data_cache_gb)
    if held_out.tokenizer.digest != examples.tokenizer.digest:
        what = f"`{config.eval_data}` was made with another vocabulary than `{examples.folder}`."
        raise UserError(what, "Make both with one --tokenizer.")
    return held_out


def check_data(examples: PretrainingExamples, objective: Objective, run: RunFolder | None) -> None:
    """Raise UserError if the data do not fit the objective, or are not those that a resumed run was begun with."""
    if objective.needs_pairs and not examples.has_pairs:
        raise UserError(
            f"--objective {objective.name} needs pairs, and `{examples.folder}` has none.",
            "Leave --objective out, or make the data again: bert make-pretraining-data TEXT --next-sentence",
        )
    if run and run.config.get("data_digest", examples.digest) != examples.digest:
        what = (
            f"`{examples.folder}` holds other data, or another tokenizer, than the run in `{run.path}` was begun with."
        )
        raise UserError(what, "Name the data it was begun with: --data FOLDER; or start a new run.")


def _source(config: PretrainConfig) -> str:
    """The model to start from; nothing for new weights."""
    if not config.from_ or config.from_ == "scratch":
        return ""
    for name in ("embeddings", "initializer_range"):
        if getattr(config, name) != getattr(PretrainConfig, name):
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} is for new weights only.", "Leave it out, or leave out --from.")
    return resolve_model(config.from_)


def _make_model(request: Request) -> PreTrainedModel:
    """Build or load the model. Raises UserError if it does not fit the objective or the data."""
    from bertcli.models.loading import build_model, check_length, check_vocabulary, load_model, without_weights

    config, objective, source = request.config, request.objective, request.source
    if request.resumed:
        return without_weights(request.resumed, objective.auto_class())
    tokenizer, labels = request.examples.tokenizer, dict(objective.labels)
    if source:
        model = load_model(source, objective.auto_class(), labels, seed=config.seed)
        if not objective.fits(model):
            raise UserError(
                f"The model `{source}` ({model.config.model_type}) lacks the heads of --objective {objective.name}.",
                "Give --from a BERT or an ERNIE, or leave it out.",
            )
        check_vocabulary(model, tokenizer, source)
    else:
        labels["initializer_range"] = config.initializer_range
        model = build_model(objective.auto_class(), BERT, config.size, tokenizer, labels, config.seed)
    check_length(model, request.examples.max_seq_length)
    hidden = model.config.hidden_size
    if config.embeddings == "cooccurrence" and tokenizer.size <= hidden:
        raise UserError(
            f"{tokenizer.size:,} tokens are too few for --embeddings cooccurrence in {hidden} dimensions.",
            "Leave --embeddings out, or build a larger vocabulary.",
        )
    return model


def _plan(config: PretrainConfig) -> Plan:
    """The plan of the run, with the paper's warm-up, but at most a tenth of the steps, where none is given."""
    from bertcli.training.plan import Plan

    warmup_steps = config.warmup_steps if config.warmup_steps is not None else min(10_000, config.steps // 10)
    return Plan.of(config, warmup_steps=warmup_steps, eval_steps=config.eval_steps or config.steps)


def _show_card(request: Request, model: PreTrainedModel, plan: Plan, accelerator: Accelerator) -> None:
    from bertcli.training.device import describe_device

    config, examples = request.config, request.examples
    begun = config.from_ or f"new weights, {config.size}"
    device = describe_device(accelerator, config.precision)
    say(f"model: {begun}, {model.num_parameters() / 1e6:.1f} M parameters on {device}")
    say(f"{_describe_data(examples)}; {plan.describe(len(examples))}")
    if not config.eval_data:
        rows = len(request.held_out)
        say(f"evaluated on {rows} rows of the training data, as the original does; --eval-data names held-out data")


def _describe_data(examples: PretrainingExamples) -> str:
    options = examples.manifest["options"]
    units = "words" if options["whole_word_mask"] else "tokens"
    masks = f"{options['masking']} masks of {options['masked_lm_prob']:.0%} of {units}"
    instances = f"{len(examples):,} instances{'' if examples.has_pairs else ' without next sentences'}"
    windows = f", shuffled {examples.shards_per_window} shards at a time" if examples.shards_per_window else ""
    return f"{instances}, {examples.manifest['tokens'] / 1e6:.1f} M tokens, {masks}{windows}"


def _facts(examples: PretrainingExamples) -> dict[str, object]:
    """What the data are, for the report."""
    counts = ("documents", "instances", "tokens", "masked_tokens", "random_next", "vocab_size", "cased")
    facts = {name.replace("_", " "): examples.manifest[name] for name in counts if name in examples.manifest}
    return {
        "folder": str(examples.folder),
        **facts,
        **{f"option {k}": v for k, v in examples.manifest["options"].items()},
    }


def _train(
    request: Request, model: PreTrainedModel, plan: Plan, accelerator: Accelerator, folder: RunFolder
) -> TrainingResult:
    from bertcli.lifecycle.report import write_reports
    from bertcli.lifecycle.reporting.masked_words import MaskedWords
    from bertcli.models.dropout import set_dropout
    from bertcli.models.loading import save_architecture, save_model
    from bertcli.training.device import disconnect
    from bertcli.training.loop import Training

    config, objective, examples = request.config, request.objective, request.examples
    resolved = {"data": str(examples.folder), "objective": objective.name, "warmup_steps": plan.warmup_steps}
    resolved |= {"task": PRETRAINING, "data_digest": examples.digest}
    resolved |= {"shards_per_window": examples.shards_per_window, **request.resolved}
    save_start = partial(save_architecture, model, examples.tokenizer)
    enter(folder, request.command, request.asked, resolved, accelerator, save_start)
    with_loss = objective.with_loss(model)
    if config.embeddings == "cooccurrence" and not config.resume:
        _start_embeddings(model, examples, config.seed)
    if config.dropout is not None:
        set_dropout(with_loss, config.dropout)
    training = Training(with_loss, objective.packable(examples), plan, folder, accelerator, config.precision)
    words = MaskedWords(request.held_out)

    def evaluate() -> dict[str, float]:
        words.begin()
        metrics = objective.evaluate(training.model, request.held_out, accelerator.device, words.see)
        if fills := words.fill(training.model, accelerator.device):
            folder.log({"step": training.history.steps, "fills": fills})
        return metrics

    if config.resume:
        training.resume()
    elif config.eval_steps and accelerator.is_main_process:
        folder.log({"step": 0, "metrics": evaluate()})
    training.run(evaluate)
    result = training.finish(PRETRAINING)
    if accelerator.is_main_process:
        with replacing(folder.model) as part:
            save_model(training.model.model, examples.tokenizer, part)
            request.add_files(part)
        verdicts = objective.verdicts(result.metrics)
        for verdict in verdicts:
            say(verdict)
        notes = [*request.notes, f"Data: {_describe_data(examples)}.", *verdicts]
        facts = {"pre-training data": {"facts": _facts(examples)}}
        write_reports(folder, replace(result, notes=notes, data=facts, words=words.accuracies(examples)))
    disconnect()
    return result


def _start_embeddings(model: PreTrainedModel, examples: PretrainingExamples, seed: int) -> None:
    """Start the token embeddings from cooccurrences in the data, or in as many of its rows as are enough."""
    import numpy as np

    from bertcli.models.embeddings import start_from_neighbours

    count = len(examples)
    enough = max(1, int(count * min(1.0, NEIGHBOUR_TOKENS / examples.manifest["tokens"])))
    if examples.shards_per_window:
        rows = np.sort(examples.rows_of_step(seed, 0, enough))
    else:
        rows = np.sort(np.random.default_rng(seed).permutation(count)[:enough])
    chunks = (examples.take(chunk) for chunk in np.array_split(rows, math.ceil(enough / 20_000)))
    texts = ((read.unmasked_ids(), read.lengths) for read in chunks)
    set_rows = start_from_neighbours(model.get_input_embeddings(), texts, seed)
    say(f"token embeddings: {set_rows:,} initialized from co-occurrence counts in {enough:,} rows")
