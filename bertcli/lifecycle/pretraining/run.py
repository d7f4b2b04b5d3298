"""A pre-training from its data and model to the finished run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import in_millions, number_of, say
from bertcli.config.training import PretrainConfig, TrainingConfig
from bertcli.data.atomic import replacing
from bertcli.data.pretraining.masking import SHARES
from bertcli.data.pretraining.phases import Phase, PhasedExamples
from bertcli.data.pretraining.shards import PretrainingExamples
from bertcli.errors import UserError
from bertcli.families import family_of
from bertcli.lifecycle.pretraining.phases import describe_phases, resolved_data
from bertcli.lifecycle.start import check_steps, enter
from bertcli.objectives.objective import Objective
from bertcli.training.processes.launching import launch, processes_to_launch
from bertcli.training.result import PRETRAINING, TrainingResult
from bertcli.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

    from bertcli.models.model_with_loss import ModelWithLoss
    from bertcli.training.plan import Plan


NEIGHBOUR_TOKENS = 50_000_000  # enough for the neighbours of each token
FILLS, FEWEST_STEPS = 8, 20  # how often sentences are filled in a run; the fewest steps between two times


@dataclass(frozen=True)
class Request:
    """What to train on, checked before anything slow is imported."""

    config: PretrainConfig
    objective: Objective
    phases: tuple[Phase, ...]  # one, unless --phases has more
    held_out: PretrainingExamples
    source: str  # of the weights; empty for new ones
    resumed: Path | None  # folder with the configuration of a model whose weights are in a checkpoint
    command: str = "pretrain"
    options: TrainingConfig | None = None  # of another command than `bert pretrain`
    resolved: Mapping[str, Any] = field(default_factory=dict)  # more of config.yaml
    notes: tuple[str, ...] = ()  # for the model card
    add_files: Callable[[Path], None] = lambda folder: None  # to the folder of the finished model
    # Warm-up steps where none are given: the paper's, but at most a tenth of all.
    warmup: Callable[[int], int] = lambda steps: min(10_000, steps // 10)

    @property
    def evaluated_on(self) -> str:
        """What scores are of where no held-out data are named."""
        return f"evaluated on {len(self.held_out):,} rows of the training data, as the original does"

    @property
    def asked(self) -> TrainingConfig:
        """The options of the command."""
        return self.options or self.config

    @property
    def examples(self) -> PretrainingExamples:
        """The data of the first phase, which is the only one unless --phases has more."""
        return self.phases[0].examples


def run_pretraining(request: Request, model: PreTrainedModel, folder: RunFolder) -> TrainingResult:
    """Train a model, in several processes where that is asked for, and write its run folder."""
    from bertcli.models.encoder import use_gradient_checkpointing

    config = request.config
    if config.gradient_checkpointing:
        use_gradient_checkpointing(model)
    if (count := processes_to_launch(config.processes)) > 1 and not config.dry_run:
        return launch(request.command, request.asked.values(), count, folder)
    from bertcli.training.processes.accelerator import make_accelerator

    unused = not request.objective.trains_every_weight
    accelerator = make_accelerator(config.precision, config.track, folder.path, unused)
    plan = _plan(request, model)
    _show_card(request, model, plan, accelerator)
    if config.dry_run:
        return TrainingResult(task=PRETRAINING, seed=config.seed)
    with folder:
        return _train(request, model, plan, accelerator, folder)


def _plan(request: Request, model: PreTrainedModel) -> Plan:
    """The plan of the run."""
    from bertcli.training.plan import EVALUATED, Plan

    config, hidden_size = request.config, model.config.hidden_size
    costs = tuple((phase.steps, phase.step_cost(hidden_size)) for phase in request.phases)
    eval_cost = EVALUATED * costs[0][1] * len(request.held_out) / config.batch_size
    warmup_steps = config.warmup_steps if config.warmup_steps is not None else request.warmup(config.steps)
    if "warmup_steps" in config.given and warmup_steps > config.steps:
        say(
            f"--warmup-steps {warmup_steps:,} is more than the {config.steps:,} steps, so --learning-rate is not reached"
        )
    filled = range(0, config.steps, max(FEWEST_STEPS, math.ceil(config.steps / FILLS)))
    seen = frozenset([*kept_steps(config), *(filled if request.objective.fills_masks else ())])
    rules = family_of(model.config.model_type).optimizer.given_by(config)
    derived = {"warmup_steps": warmup_steps, "seen_steps": seen, "step_costs": costs, "eval_cost": eval_cost}
    return Plan.of(config, rules=rules, eval_steps=config.eval_steps or config.steps, **derived)


def kept_steps(config: PretrainConfig) -> tuple[int, ...]:
    """The steps whose models are kept. Raises UserError if one is no step before the last."""
    steps = config.keep_steps.split(",") if config.keep_steps else []
    if wrong := [step for step in steps if not (step.strip().isdigit() and 0 < int(step) < config.steps)]:
        what = f"--keep-steps: `{wrong[0]}` is not a step from 1 to {config.steps - 1:,}."
        raise UserError(what, f"Give numbers with commas between them: --keep-steps {max(1, config.steps // 2)}")
    return tuple(map(int, steps))


def _show_card(request: Request, model: PreTrainedModel, plan: Plan, accelerator: Accelerator) -> None:
    from bertcli.training.processes.accelerator import describe_device

    config, phases = request.config, request.phases
    begun = config.from_ or f"new weights, {config.size_name} ({config.model_size})"
    device = describe_device(accelerator, config.precision)
    say(f"model: {begun}, {model.num_parameters() / 1e6:.1f} M parameters on {device}")
    rows = plan.steps * plan.batch_size / sum(phase.epochs(plan.batch_size) for phase in phases)
    say(f"{'; '.join(_describe_data(phase.examples, request.objective) for phase in phases)}; {plan.describe(rows)}")
    if words := "; ".join(describe_phases(phases, plan.batch_size)):
        say(words)
    if not config.eval_data:
        say(f"{request.evaluated_on}; --eval-data names held-out data")


def _describe_data(examples: PretrainingExamples, objective: Objective) -> str:
    options = examples.options
    units = "words" if options["whole_word_mask"] else "tokens"
    units = "tokens in spans of words" if options["span_mask"] else units
    units = f"tokens in runs of up to {options['ngram_mask']} {units}" if options["ngram_mask"] else units
    shares = f" ({options['mask_shares']})" * (options["mask_shares"] != SHARES)
    masks = f", {options['masking']} masks of {options['masked_lm_prob']:.0%} of {units}{shares}"
    instances = f"{number_of(len(examples), 'instance')}{'' if examples.has_pairs else ' without next sentences'}"
    windows = f", shuffled {examples.shards_per_window} shards at a time" if examples.shards_per_window else ""
    return f"{instances}, {in_millions(examples.manifest['tokens'])} tokens{masks * objective.fills_masks}{windows}"


def _facts(examples: PretrainingExamples) -> dict[str, object]:
    """What the data are, for the report."""
    counts = ("documents", "instances", "tokens", "masked_tokens", "random_next", "vocab_size", "cased")
    facts = {name.replace("_", " "): examples.manifest[name] for name in counts if name in examples.manifest}
    given = examples.manifest["options"].items()
    options = {f"option {name}": value and str(value) for name, value in given}  # as text: a seed has no commas
    return {"folder": str(examples.folder), **facts, **options}


def _train(
    request: Request, model: PreTrainedModel, plan: Plan, accelerator: Accelerator, folder: RunFolder
) -> TrainingResult:
    from bertcli.lifecycle.report import write_reports
    from bertcli.lifecycle.reporting.masked_words import MaskedWords
    from bertcli.models.loading import save_architecture, save_models
    from bertcli.training.loop import Training
    from bertcli.training.processes.accelerator import disconnect

    config, objective, examples = request.config, request.objective, request.examples
    resolved = {"task": PRETRAINING, "objective": objective.name, "warmup_steps": plan.warmup_steps}
    resolved |= {**resolved_data(request.phases, request.held_out if config.eval_data else None), **request.resolved}
    save_start = partial(save_architecture, model, examples.tokenizer)
    check_steps(folder, config, plan.steps)
    enter(folder, request.command, request.asked, resolved, accelerator, save_start)
    with_loss = _with_loss(request, model)
    rows = PhasedExamples([objective.packable(phase.examples) for phase in request.phases], request.phases)
    training = Training(with_loss, rows, plan, folder, accelerator, config.precision)
    words = MaskedWords(request.held_out)

    def evaluate() -> dict[str, float]:
        if (step := training.history.steps) in kept_steps(config):
            with replacing(folder.path / "models" / f"step-{step}") as part:
                save_models(training.model.models, examples.tokenizer, part)
        scored = (training.model, request.held_out, accelerator.device)
        metrics = objective.evaluate(*scored, words.begin()) if plan.is_due(step, plan.eval_steps) else {}
        if objective.fills_masks and (fills := words.fill(training.model, accelerator.device)):
            folder.log({"step": step, "fills": fills})
        return metrics

    if config.resume:
        training.resume()
    elif accelerator.is_main_process:
        _log_start(request, folder, evaluate)
    training.run(evaluate)
    result = training.finish(PRETRAINING)
    if accelerator.is_main_process:
        with replacing(folder.model) as part:
            save_models(training.model.models, examples.tokenizer, part)
            request.add_files(part)
        verdicts = objective.verdicts(result.metrics)
        for verdict in verdicts:
            say(verdict)
        notes, facts = _data_read(request, plan.batch_size)
        notes = [*request.notes, *notes, *([] if config.eval_data else [f"It was {request.evaluated_on}."]), *verdicts]
        write_reports(folder, replace(result, notes=notes, data=facts, words=words.accuracies(examples)))
    disconnect()
    return result


def _log_start(request: Request, folder: RunFolder, evaluate: Callable[[], dict[str, float]]) -> None:
    """Log the phases, where there are several, and the first evaluation, where they are asked for."""
    if len(request.phases) > 1:
        folder.log({"step": 0, "phases": [phase.facts() for phase in request.phases]})
    if request.config.eval_steps:
        folder.log({"step": 0, "metrics": evaluate()})


def _data_read(request: Request, batch_size: int) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The data of each phase, for the model card: in words, and their facts."""
    words = [f" for {words}" if words else "" for words in describe_phases(request.phases, batch_size)]
    read = list(zip(words, (phase.examples for phase in request.phases), strict=True))
    facts = {f"pre-training data{words}": {"facts": _facts(examples)} for words, examples in read}
    return [f"Data{words}: {_describe_data(examples, request.objective)}." for words, examples in read], facts


def _with_loss(request: Request, model: PreTrainedModel) -> ModelWithLoss:
    """The model with the losses of the objective, started and trained as the options say."""
    from bertcli.models.dropout import set_dropout

    config, with_loss = request.config, request.objective.with_loss(model)
    if config.embeddings == "cooccurrence" and not config.resume:
        _start_embeddings(model, request.examples, config.seed)
    if config.dropout is not None:
        set_dropout(with_loss, config.dropout)
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
