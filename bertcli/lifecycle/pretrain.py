"""Train a BERT on masked words and next sentences, or another objective."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.config.architecture import check_new_weights
from bertcli.config.combinations import check_memory, check_pretraining, given_masking
from bertcli.config.training import PretrainConfig
from bertcli.data.pretraining.shards import PretrainingExamples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError, flag_of, quoted
from bertcli.families import FAMILIES, family_of, get_family
from bertcli.families.family import GENERATOR_SETTINGS
from bertcli.lifecycle.pretrained import is_sentence_encoder
from bertcli.lifecycle.pretraining.family import name_of_run, starts_from_model, with_family
from bertcli.lifecycle.pretraining.flops import check_flops, with_steps
from bertcli.lifecycle.pretraining.phases import check_data, find_phases, held_out_of
from bertcli.lifecycle.pretraining.run import Request, kept_steps, run_pretraining
from bertcli.lifecycle.start import begin, check_batch_size
from bertcli.lifecycle.workspace import resolve_model, tokenizer_source
from bertcli.objectives import default_objective, get_objective
from bertcli.objectives.masked_lm import has_heads
from bertcli.objectives.objective import Objective
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Fine-tuned with no options on ten examples of each class, before and after 150 steps of 64 on the 10,003 training texts.
UNDONE = "More pre-training undoes that, and may cost more than it gives: on Banking77, minilm fell from 86.6 to 77.5"


def pretrain(config: PretrainConfig | None = None, **options: Any) -> TrainingResult:
    """Pre-train a BERT on the instances of `bert make-pretraining-data` and write a run folder.

    The loss of each part of the objective is the mean over its predictions in the whole global batch (masked tokens,
    pairs); their sum is minimised (run_pretraining.py).

    Raises UserError if there is no data, or if objective, vocabulary or length do not fit data and model; Interrupted
    after Ctrl-C, with the checkpoint saved.
    """
    asked = with_family(PretrainConfig.build(config, options))
    config, folder = begin("pretrain", asked, name_of_run(asked))
    request = _check(config, folder)
    model = _make_model(request)
    return run_pretraining(with_steps(request, model), model, folder)


def _check(config: PretrainConfig, run: RunFolder) -> Request:
    """Find data, objective and model. Raises UserError if the data do not fit the objective, the vocabulary or a resumed run."""
    check_flops(config, run)
    # The order stays, whatever the cache.
    phases = find_phases(config, run.shards_per_window if config.resume else ())
    examples = phases[0].examples
    objective = _objective_for(config, examples)
    check_data(phases, objective, run if config.resume else None)
    check_memory(config.memory, objective, min(phase.examples.max_seq_length for phase in phases))
    objective = objective if config.memory is None else replace(objective, memory=config.memory)
    held_out = held_out_of(config, phases[-1].examples, run if config.resume else None)
    phases = tuple(replace(phase, examples=phase.examples.masked_by(given_masking(config))) for phase in phases)
    if config.tokenizer and load_tokenizer(tokenizer_source(config.tokenizer)).digest != examples.tokenizer.digest:
        what = f"The vocabulary `{config.tokenizer}` is not the one that `{examples.folder}` was made with."
        other = f"bert make-pretraining-data TEXT --tokenizer {quoted(config.tokenizer)} --out {quoted(f'{examples.folder}-2')}"
        raise UserError(what, f"Leave --tokenizer out, or make other data: {other}")
    check_batch_size(config.batch_size, config.processes)
    kept_steps(config)
    resumed = run.start if config.resume and run.start.exists() else None
    return Request(config, objective, phases, held_out, "" if resumed else _source(config), resumed)


def _objective_for(config: PretrainConfig, examples: PretrainingExamples) -> Objective:
    """The objective that is named, or that the data were made for. Raises UserError if it, or an option, is not for the family."""
    named = config.objective or examples.manifest.get("objective")
    objective = get_objective(named) if named else default_objective(examples.has_pairs)
    check_pretraining(config, objective, get_family(config.family))
    return objective


def _source(config: PretrainConfig) -> str:
    """The model to start from; nothing for new weights."""
    check_new_weights(config, config.from_ or "scratch")
    if not starts_from_model(config):
        return ""
    for name in ("embeddings", "initializer_range", "generator_size"):
        if getattr(config, name) != getattr(PretrainConfig, name):
            raise UserError(f"{flag_of(name)} is for new weights only.", "Leave it out, or leave out --from.")
    source = resolve_model(str(config.from_))
    if is_sentence_encoder(source):
        say(f"{config.from_} was trained so that the mean of its states stands for a text. {UNDONE}.")
    return source


def _unfit(request: Request, model: PreTrainedModel) -> UserError:
    name, own = request.objective.name, family_of(model.config.model_type)
    what = f"The model `{request.source}` ({model.config.model_type}) cannot be trained by --objective {name}."
    if request.objective.needs_pairs and has_heads(model):
        return UserError(what, f"It has no head for pairs. {request.examples.how_to_make_other('--no-next-sentence')}")
    if own.objectives and name not in own.objectives:
        made = f"bert make-pretraining-data TEXT --family {own.key} --tokenizer {quoted(request.source)}"
        return UserError(what, f"It learns from other data: {made}")
    takes = " or ".join(each.name for each in FAMILIES if name in each.objectives)
    hint = f"Give --objective the one it was trained by, --from another model of {takes}, or leave --from out."
    return UserError(what, hint)


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
            raise _unfit(request, model)
        check_vocabulary(model, tokenizer, source)
    else:
        labels["initializer_range"] = config.initializer_range
        family = objective.family or get_family(config.family)
        if config.generator_size and family.generator:
            labels[GENERATOR_SETTINGS] = family.generator(config.model_size, config.generator_size)
        model = build_model(objective.auto_class(), family, config.model_size, tokenizer, labels, config.seed)
    check_length(model, max(phase.examples.max_seq_length for phase in request.phases))
    hidden = model.config.hidden_size
    if config.embeddings == "cooccurrence" and tokenizer.size <= hidden:
        what = f"{tokenizer.size:,} tokens are too few for --embeddings cooccurrence in {hidden} dimensions."
        raise UserError(what, "Leave --embeddings out, or build a larger vocabulary.")
    return model
