"""Train a BERT on masked words and next sentences, or another objective."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.config.architecture import check_new_weights
from bertcli.config.training import MASKING, PretrainConfig
from bertcli.data.atomic import replacing
from bertcli.data.pretraining.masking import SHARES, parse_shares
from bertcli.data.pretraining.phases import Phase, PhasedExamples
from bertcli.data.pretraining.shards import PretrainingExamples, load_pretraining_examples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.lifecycle.phases import describe_phases, find_phases, resolved_data
from bertcli.lifecycle.start import begin, check_batch_size, enter
from bertcli.lifecycle.workspace import resolve_model, tokenizer_source
from bertcli.objectives import default_objective, get_objective
from bertcli.objectives.objective import Objective, ObjectiveExamples
from bertcli.training.processes.launching import launch, processes_to_launch
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

    from bertcli.models.model_with_loss import ModelWithLoss
    from bertcli.training.plan import Plan


NEIGHBOUR_TOKENS = 50_000_000  # enough for the neighbours of each token
EVALUATION_ROWS = 800  # of the training data without --eval-data, as run_pretraining.py's 100 batches of 8


@dataclass(frozen=True)
class _Request:
    """What to train on, checked before anything slow is imported."""

    config: PretrainConfig
    objective: Objective
    phases: tuple[Phase, ...]  # one, unless --phases has more
    held_out: PretrainingExamples
    source: str  # of the weights; empty for new ones
    resumed: Path | None  # folder with the configuration of a model whose weights are in a checkpoint

    @property
    def examples(self) -> PretrainingExamples:
        """The data of the first phase, which is the only one unless --phases has more."""
        return self.phases[0].examples


def pretrain(config: PretrainConfig | None = None, **options: Any) -> TrainingResult:
    """Pre-train a BERT on the instances of `bert make-pretraining-data` and write a run folder.

    The loss of each part of the objective is the mean over its predictions in the whole global batch (masked tokens,
    pairs); their sum is minimised (run_pretraining.py).

    Raises UserError if there is no data, or if objective, vocabulary or length do not fit data and model; Interrupted
    after Ctrl-C, with the checkpoint saved.
    """
    asked = PretrainConfig.build(config, options)
    config, folder = begin("pretrain", asked, f"pretrain-{asked.size_name}")
    request = _check(config, folder)
    model = _make_model(request)
    if (count := processes_to_launch(config.processes)) > 1 and not config.dry_run:
        return launch("pretrain", config.values(), count, folder)
    from bertcli.training.device import make_accelerator

    unused = not request.objective.trains_every_weight
    accelerator = make_accelerator(config.precision, config.track, folder.path, unused)
    plan = _plan(request, model)
    _show_card(request, model, plan, accelerator)
    if config.dry_run:
        return TrainingResult(task="pretraining", seed=config.seed)
    with folder:
        return _train(request, model, plan, accelerator, folder)


def _check(config: PretrainConfig, run: RunFolder) -> _Request:
    """Find data, objective and model. Raises UserError if the data do not fit the objective, the vocabulary or a resumed run."""
    asked = get_objective(config.objective) if config.objective else None
    # The order stays, whatever the cache.
    phases = find_phases(config, run.shards_per_window if config.resume else ())
    examples = phases[0].examples
    objective = asked or default_objective(examples.has_pairs)
    _check_data(phases, objective, run if config.resume else None)
    held_out = _held_out(config, phases[-1].examples)
    phases = _masked(phases, objective, config)
    digest = examples.tokenizer.digest
    if config.tokenizer and load_tokenizer(tokenizer_source(config.tokenizer)).digest != digest:
        raise UserError(
            f"The vocabulary `{config.tokenizer}` is not the one that `{examples.folder}` was made with.",
            f"Leave --tokenizer out, or make the data again: bert make-pretraining-data TEXT --tokenizer {config.tokenizer}",
        )
    check_batch_size(config.batch_size, config.processes)
    _kept_steps(config)
    resumed = run.start if config.resume and run.start.exists() else None
    return _Request(config, objective, phases, held_out, "" if resumed else _source(config), resumed)


def _held_out(config: PretrainConfig, examples: PretrainingExamples) -> PretrainingExamples:
    """What to evaluate on. Raises UserError if it was made with another vocabulary than what is trained on."""
    if not config.eval_data:
        return examples.head(EVALUATION_ROWS)
    held_out = load_pretraining_examples(config.eval_data, config.seed, config.data_cache_gb)
    if held_out.tokenizer.digest != examples.tokenizer.digest:
        what = f"`{config.eval_data}` was made with another vocabulary than `{examples.folder}`."
        raise UserError(what, "Make both with one --tokenizer.")
    return held_out


def _check_data(phases: tuple[Phase, ...], objective: Objective, run: RunFolder | None) -> None:
    """Raise UserError if the data do not fit the objective, or are not those that a resumed run was begun with."""
    examples, resolved = phases[0].examples, resolved_data(phases)
    if objective.needs_pairs and not examples.has_pairs:
        raise UserError(
            f"--objective {objective.name} needs pairs, and `{examples.folder}` has none.",
            "Leave --objective out, or make the data again: bert make-pretraining-data TEXT --next-sentence",
        )
    if run and run.config.get("data_digest", resolved["data_digest"]) != resolved["data_digest"]:
        what = (
            f"`{resolved['data']}` holds other data, or another tokenizer, than the run in `{run.path}` was begun with."
        )
        raise UserError(what, "Name the data it was begun with: --data FOLDER; or start a new run.")


def _masked(phases: tuple[Phase, ...], objective: Objective, config: PretrainConfig) -> tuple[Phase, ...]:
    """The data with the options of masking that are given; evaluation keeps the data's, so that its losses compare.

    Raises UserError if they are not three percentages, or there are no dynamic masks to draw.
    """
    given = {name: value for name in MASKING if (value := getattr(config, name)) not in (None, False)}
    parse_shares(config.mask_shares or SHARES)
    if given and not objective.fills_masks:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UserError(f"--objective {objective.name} masks nothing, so {flags} has no effect.", f"Leave out {flags}.")
    return tuple(replace(phase, examples=phase.examples.masked_by(given)) for phase in phases)


def _source(config: PretrainConfig) -> str:
    """The model to start from; nothing for new weights."""
    check_new_weights(config, config.from_ or "scratch")
    if not config.from_ or config.from_ == "scratch":
        return ""
    for name in ("embeddings", "initializer_range"):
        if getattr(config, name) != getattr(PretrainConfig, name):
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} is for new weights only.", "Leave it out, or leave out --from.")
    return resolve_model(config.from_)


def _make_model(request: _Request) -> PreTrainedModel:
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
                f"The model `{source}` ({model.config.model_type}) cannot be trained by --objective {objective.name}.",
                "Give --from a BERT or an ERNIE, --objective the one it was trained by, or leave --from out.",
            )
        check_vocabulary(model, tokenizer, source)
    else:
        labels["initializer_range"] = config.initializer_range
        size = config.model_size
        model = build_model(objective.auto_class(), objective.family, size, tokenizer, labels, config.seed)
    check_length(model, max(phase.examples.max_seq_length for phase in request.phases))
    hidden = model.config.hidden_size
    if config.embeddings == "cooccurrence" and tokenizer.size <= hidden:
        raise UserError(
            f"{tokenizer.size:,} tokens are too few for --embeddings cooccurrence in {hidden} dimensions.",
            "Leave --embeddings out, or build a larger vocabulary.",
        )
    return model


def _plan(request: _Request, model: PreTrainedModel) -> Plan:
    """The plan of the run, with the paper's warm-up, but at most a tenth of the steps, where none is given."""
    from bertcli.training.plan import Plan

    config, hidden_size = request.config, model.config.hidden_size
    costs = tuple((phase.steps, phase.step_cost(hidden_size)) for phase in request.phases)
    warmup_steps = config.warmup_steps if config.warmup_steps is not None else min(10_000, config.steps // 10)
    eval_steps, kept_steps = config.eval_steps or config.steps, _kept_steps(config)
    return Plan.of(config, warmup_steps=warmup_steps, eval_steps=eval_steps, kept_steps=kept_steps, step_costs=costs)


def _kept_steps(config: PretrainConfig) -> tuple[int, ...]:
    """The steps whose models are kept. Raises UserError if one is no step before the last."""
    steps = config.keep_steps.split(",") if config.keep_steps else []
    if wrong := [step for step in steps if not (step.strip().isdigit() and 0 < int(step) < config.steps)]:
        what = f"--keep-steps: `{wrong[0]}` is not a step from 1 to {config.steps - 1:,}."
        raise UserError(what, f"Give numbers with commas between them: --keep-steps {max(1, config.steps // 2)}")
    return tuple(map(int, steps))


def _show_card(request: _Request, model: PreTrainedModel, plan: Plan, accelerator: Accelerator) -> None:
    from bertcli.training.device import describe_device

    config, phases = request.config, request.phases
    begun = config.from_ or f"new weights, {config.size_name} ({config.model_size})"
    device = describe_device(accelerator, config.precision)
    say(f"model: {begun}, {model.num_parameters() / 1e6:.1f} M parameters on {device}")
    rows = plan.steps * plan.batch_size / sum(phase.epochs(plan.batch_size) for phase in phases)
    data = (_describe_data(phase.examples, request.objective) for phase in phases)
    say(f"{'; '.join(data)}; {plan.describe(rows)}")
    if words := "; ".join(describe_phases(phases, plan.batch_size)):
        say(words)
    if not config.eval_data:
        say(
            f"evaluated on {len(request.held_out)} rows of the training data, as the original does; --eval-data names held-out data"
        )


def _describe_data(examples: PretrainingExamples, objective: Objective) -> str:
    options = examples.options
    units = "words" if options["whole_word_mask"] else "tokens"
    units = "tokens in spans of words" if options["span_mask"] else units
    shares = f" ({options['mask_shares']})" * (options["mask_shares"] != SHARES)
    masks = f", {options['masking']} masks of {options['masked_lm_prob']:.0%} of {units}{shares}"
    instances = f"{len(examples):,} instances{'' if examples.has_pairs else ' without next sentences'}"
    windows = f", shuffled {examples.shards_per_window} shards at a time" if examples.shards_per_window else ""
    return f"{instances}, {examples.manifest['tokens'] / 1e6:.1f} M tokens{masks * objective.fills_masks}{windows}"


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
    request: _Request, model: PreTrainedModel, plan: Plan, accelerator: Accelerator, folder: RunFolder
) -> TrainingResult:
    from bertcli.lifecycle.report import write_reports
    from bertcli.lifecycle.reporting.masked_words import MaskedWords
    from bertcli.models.loading import save_architecture, save_model
    from bertcli.training.device import disconnect
    from bertcli.training.loop import Training

    config, objective, examples = request.config, request.objective, request.examples
    resolved = {"task": "pretraining", "objective": objective.name, "warmup_steps": plan.warmup_steps}
    resolved |= resolved_data(request.phases)
    enter(folder, "pretrain", config, resolved, accelerator, partial(save_architecture, model, examples.tokenizer))
    with_loss = _with_loss(request, model)
    rows = PhasedExamples([ObjectiveExamples(objective, phase.examples) for phase in request.phases], request.phases)
    training = Training(with_loss, rows, plan, folder, accelerator, config.precision)
    words = MaskedWords(request.held_out)

    def evaluate() -> dict[str, float]:
        if (step := training.history.steps) in plan.kept_steps:
            with replacing(folder.path / "models" / f"step-{step}") as part:
                save_model(training.model.model, examples.tokenizer, part)
            if not plan.is_due(step, plan.eval_steps):
                return {}
        words.begin()
        metrics = objective.evaluate(training.model, request.held_out, accelerator.device, words.see)
        if objective.fills_masks and (fills := words.fill(training.model, accelerator.device)):
            folder.log({"step": training.history.steps, "fills": fills})
        return metrics

    if config.resume:
        training.resume()
    elif accelerator.is_main_process:
        _log_start(request, folder, evaluate)
    training.run(evaluate)
    result = training.finish("pretraining")
    if accelerator.is_main_process:
        with replacing(folder.model) as part:
            save_model(training.model.model, examples.tokenizer, part)
        verdicts = objective.verdicts(result.metrics)
        for verdict in verdicts:
            say(verdict)
        notes, facts = _data_read(request, plan.batch_size)
        write_reports(folder, replace(result, notes=[*notes, *verdicts], data=facts, words=words.accuracies(examples)))
    disconnect()
    return result


def _log_start(request: _Request, folder: RunFolder, evaluate: Callable[[], dict[str, float]]) -> None:
    """Log the phases, where there are several, and the first evaluation, where they are asked for."""
    if len(request.phases) > 1:
        folder.log({"step": 0, "phases": [phase.facts() for phase in request.phases]})
    if request.config.eval_steps:
        folder.log({"step": 0, "metrics": evaluate()})


def _data_read(request: _Request, batch_size: int) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The data of each phase, for the model card: in words, and their facts."""
    words = [f" for {words}" if words else "" for words in describe_phases(request.phases, batch_size)]
    read = list(zip(words, (phase.examples for phase in request.phases), strict=True))
    facts = {f"pre-training data{words}": {"facts": _facts(examples)} for words, examples in read}
    return [f"Data{words}: {_describe_data(examples, request.objective)}." for words, examples in read], facts


def _with_loss(request: _Request, model: PreTrainedModel) -> ModelWithLoss:
    """The model with the losses of the objective, started and trained as the options say."""
    from bertcli.models.dropout import set_dropout
    from bertcli.models.encoder import use_gradient_checkpointing

    config, with_loss = request.config, request.objective.with_loss(model)
    if config.embeddings == "cooccurrence" and not config.resume:
        _start_embeddings(model, request.examples, config.seed)
    if config.dropout is not None:
        set_dropout(with_loss, config.dropout)
    if config.gradient_checkpointing:
        use_gradient_checkpointing(model)
    return with_loss


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
