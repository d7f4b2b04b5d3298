"""Distillation at pre-training: the teacher, the student and the data put together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from bertcli import say
from bertcli.config import distillation
from bertcli.config.distillation import DistillConfig
from bertcli.config.training import PretrainConfig
from bertcli.data.hub import POOLING
from bertcli.data.json_files import write_json
from bertcli.data.packing.ragged import Ints
from bertcli.data.pretraining.phases import Phase
from bertcli.data.pretraining.retokenized import TeacherTokens
from bertcli.data.pretraining.shards import PretrainingExamples
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError, flag_of, quoted
from bertcli.families import family_of, get_family
from bertcli.families.bert import BERT
from bertcli.families.family import Family
from bertcli.lifecycle.distilling.cut_vocabulary import cut_vocabulary
from bertcli.lifecycle.distilling.layers import chosen_layers
from bertcli.lifecycle.distilling.students import keep_layers, make_distilbert
from bertcli.lifecycle.distilling.teachers import check_weights, find_teacher, targets_of
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretraining.flops import check_flops, with_steps
from bertcli.lifecycle.pretraining.phases import check_data, held_out_of, open_data
from bertcli.lifecycle.pretraining.run import Request, run_pretraining
from bertcli.lifecycle.start import begin, check_batch_size
from bertcli.lifecycle.workspace import resolve_model
from bertcli.models.embeddings import cut_embeddings, start_bias, start_embeddings
from bertcli.models.loading import build_model, check_length, check_vocabulary, load_model, without_weights
from bertcli.models.own.two_streams import has_two_streams
from bertcli.models.packed import is_causal
from bertcli.objectives.distillation import Distillation, Teacher, Weights
from bertcli.objectives.left_to_right import LEFT_TO_RIGHT
from bertcli.objectives.masked_lm import MLM
from bertcli.objectives.objective import Objective, Part
from bertcli.objectives.smoothed_masks import smoothed_part
from bertcli.training.device import inference_device, training_precision
from bertcli.training.result import PRETRAINING, TrainingResult
from bertcli.training.run_folder import RunFolder

BATCH_SIZE, EPOCHS, LEARNING_RATE, WARMUP, SOFT_WEIGHT = 256, 3, 5e-4, 0.05, 5.0
COUNTED_ROWS = 20_000  # of the data, from which the frequency of each token is known
DATA_OPTIONS = {"next_sentence": False, "masking": "dynamic", "dupe_factor": 1}


@dataclass(frozen=True)
class _Vocabularies:
    """The tokenizer of the student's data and that of the teacher; `ids`, [V], are the teacher's of the student's tokens."""

    student: WordPiece
    teacher: WordPiece
    ids: torch.Tensor

    @property
    def are_equal(self) -> bool:
        """Whether both give the same ids."""
        return self.student.digest == self.teacher.digest


def distill_pretraining(asked: DistillConfig) -> TrainingResult:
    """Train a student on pre-training data. Raises UserError if teacher, student and data do not fit together."""
    config, folder = begin("distill", asked, f"distill-{Path(asked.teacher).name}")
    check_flops(config, folder)
    source, digest = find_teacher(config, folder.config if config.resume else {})
    if config.dry_run and config.vocab_from_text:
        say(f"would cut the vocabulary of {config.teacher}, make data of the texts, and train a student on them")
        return TrainingResult(task=PRETRAINING, seed=config.seed)
    examples = _examples(config, source, folder)
    vocabularies = _vocabularies(examples.tokenizer, source)
    config = _resolved(config, len(examples))
    check_batch_size(cast(int, config.batch_size), config.processes)
    known = PretrainConfig().values()
    shared = {name: value for name, value in config.values().items() if name in known and value is not None}
    pretraining = PretrainConfig.from_values(
        {**shared, "from": config.from_ or ("scratch" if config.size else config.teacher), "dry_run": config.dry_run}
    )
    teacher = load_model(source, seed=config.seed)
    config = config.build(config, {"targets": _targets(config, teacher)})
    objective = _objective(config, vocabularies, teacher)
    objective = replace(objective, parts=_parts(objective, examples, config.mask_smoothing))
    check_length(objective.teacher.model, examples.max_seq_length)
    phases, resumed = (Phase(range(pretraining.steps), examples),), folder if config.resume else None
    check_data(phases, objective, resumed)
    model = _student(config, objective, vocabularies, source, folder)
    start_bias(model, _token_counts(examples))
    check_length(model, examples.max_seq_length)
    request = Request(
        config=pretraining,
        objective=objective,
        phases=phases,
        held_out=held_out_of(pretraining, examples, resumed),
        source=source,
        resumed=resumed.start if resumed else None,
        command="distill",
        options=config,
        resolved={"teacher_digest": digest, "from": pretraining.from_},
        notes=(f"Distilled from `{config.teacher}`: {', '.join(config.targets)}, and masked-LM.",),
        add_files=_add_pooling if distillation.VECTORS in config.targets else lambda folder: None,
        warmup=lambda steps: math.ceil(WARMUP * steps),
    )
    request = with_steps(request, model)
    objective.teacher.place(inference_device())
    return run_pretraining(request, model, folder)


def _examples(config: DistillConfig, teacher: str, run: RunFolder) -> PretrainingExamples:
    """The data: as named, or made of the texts of --vocab-from-text, or the latest in this folder."""
    data = config.data
    if config.vocab_from_text and not config.resume:
        if data:
            hint = "Leave --data out: the data are made of the texts; or make them with another --tokenizer."
            raise UserError("--vocab-from-text makes the data itself.", hint)
        name = Path(config.teacher).name
        vocabulary, data = Path(f"{name}-vocab"), f"{name}-data"
        cut_vocabulary(teacher, config.vocab_from_text, config.vocab_size, vocabulary)
        longest = {"max_seq_length": config.max_seq_length} if config.max_seq_length else {}
        options: dict[str, Any] = {**DATA_OPTIONS, **longest}
        make_pretraining_data(config.vocab_from_text, tokenizer=str(vocabulary), out=data, **options)
    for name in ("vocab_size", "max_seq_length"):  # not declared, as a recipe leaves the texts open
        if getattr(config, name) and not config.vocab_from_text:
            raise UserError(f"{flag_of(name)} needs --vocab-from-text.", "Leave it out, or give both.")
    return open_data(config, data, begun=run.shards_per_window[0] if config.resume else None)


def _token_counts(examples: PretrainingExamples) -> Ints:
    """How often each token occurs in the first rows of the data, [V]."""
    rows = np.arange(min(COUNTED_ROWS, len(examples)))
    return np.bincount(examples.take(rows).unmasked_ids(), minlength=examples.tokenizer.size)


def _vocabularies(student: WordPiece, source: str) -> _Vocabularies:
    """Raises UserError if the tokens of the data are not all tokens of the teacher, split by the same rules."""
    teacher = load_tokenizer(source)
    if student.digest == teacher.digest:
        return _Vocabularies(student, teacher, torch.arange(student.size))
    rules = [(each.cased, each.strip_accents, each.tokenize_chinese_chars) for each in (student, teacher)]
    both = student.is_wordpiece and teacher.is_wordpiece
    if not both or rules[0] != rules[1] or not student.vocab.keys() <= teacher.vocab.keys():
        what = "The pre-training data have tokens that the teacher does not have."
        hint = f"Make them in its own: bert make-pretraining-data TEXT --tokenizer {quoted(source)}; or cut them: --vocab-from-text TEXT"
        raise UserError(what, hint)
    return _Vocabularies(student, teacher, torch.tensor([teacher.vocab[token] for token in student.tokens]))


def _resolved(config: DistillConfig, rows: int) -> DistillConfig:
    """The options with those filled in that were not given."""
    batch_size = config.batch_size or BATCH_SIZE
    steps = config.steps or max(1, EPOCHS * rows // batch_size)
    rate = LEARNING_RATE if config.learning_rate is None else config.learning_rate
    weight = SOFT_WEIGHT if config.soft_weight is None else config.soft_weight
    given = {"batch_size": batch_size, "steps": steps, "learning_rate": rate, "soft_weight": weight}
    return config.build(config, given)


def _targets(config: DistillConfig, teacher: PreTrainedModel) -> list[str]:
    """What is learnt: logits only of a teacher that has them. Raises UserError if they are asked for and it has none."""
    targets = targets_of(config, True)
    if distillation.LOGITS in targets and teacher.get_output_embeddings() is None:
        what = f"The teacher `{config.teacher}` has no masked-LM head, so no logits of tokens"
        if config.targets:
            raise UserError(f"{what}.", "Learn its states instead: --targets hidden sentence-vectors")
        say(f"{what}: its hidden states are learnt alone")
        targets = {distillation.HIDDEN}
    return sorted(targets)


def _objective(config: DistillConfig, vocabularies: _Vocabularies, model: PreTrainedModel) -> Distillation:
    """The losses and the teacher. Raises UserError if none of them has a weight, or the teacher is of no use."""
    targets = config.targets
    has_logits, reads_whole = distillation.LOGITS in targets, (config.teacher_reads or "") == distillation.WHOLE_TEXT
    if config.teacher_reads is None:
        reads_whole = not has_logits
    beside = _learnt_beside(model, config.teacher)
    weights = Weights(
        soft_targets=cast(float, config.soft_weight) * has_logits,
        masked_lm=config.masked_lm_weight,
        hidden=config.hidden_weight * (distillation.HIDDEN in targets),
        squared=config.mse_weight * has_logits,
        vectors=config.vector_weight * (distillation.VECTORS in targets),
    )
    check_weights(vars(weights))
    dtype = "bfloat16" if training_precision(config.precision) == "bfloat16" else "float32"
    is_read_anew = reads_whole and not has_logits and not vocabularies.are_equal
    columns = None if vocabularies.are_equal or is_read_anew else vocabularies.ids
    kept: Any = {key: getattr(beside, key) for key in ("name", "parts", "cut", "model_class", "labels", "fills_masks")}
    return Distillation(
        **kept,
        trains_every_weight=False,
        teacher=Teacher(model, dtype, has_logits, reads_whole, columns),
        weights=weights,
        temperature=config.temperature,
        only_masked=config.soft_targets == distillation.MASKED,
        tokens=TeacherTokens(vocabularies.student, vocabularies.teacher) if is_read_anew else None,
        seed=config.seed,
    )


def _learnt_beside(model: PreTrainedModel, teacher: str) -> Objective:
    """Masked-LM, or next tokens where the teacher reads from left to right. Raises UserError if that is no BERT, or an XLNet."""
    if has_two_streams(model):
        what = f"The teacher `{teacher}` is an XLNet, which predicts tokens in an order of its own and fills no masks."
        finetuned = f"bert finetune glue/rte --from {quoted(teacher)} --out runs/teacher"
        raise UserError(what, f"Distill at a task: {finetuned} && bert distill glue/rte --teacher runs/teacher")
    if not is_causal(model):
        return replace(MLM, model_class="AutoModelForMaskedLM")
    if not LEFT_TO_RIGHT.fits(model):
        what = f"The teacher `{teacher}` predicts next tokens, and is no single BERT."
        raise UserError(what, "Give one that was made by: bert pretrain --objective left-to-right")
    return LEFT_TO_RIGHT


def _parts(objective: Distillation, examples: PretrainingExamples, smoothing: float) -> tuple[Part, ...]:
    """What is learnt beside the teacher, perhaps with more masks on rare tokens.

    Raises UserError if there are no masks then, or those of the data are static.
    """
    if not smoothing:
        return objective.parts
    if not objective.fills_masks:
        raise UserError("--mask-smoothing has no effect: this teacher reads from left to right.", "Leave it out.")
    examples = examples.masked_by({"masked_lm_prob": examples.options["masked_lm_prob"]})
    return (smoothed_part(_token_counts(examples), smoothing, examples.rules),)


def _student(
    config: DistillConfig, objective: Distillation, vocabularies: _Vocabularies, source: str, folder: RunFolder
) -> PreTrainedModel:
    """The student: a model that is named, new weights of a size, or layers of the teacher."""
    model_class, labels = objective.auto_class(), dict(objective.labels)
    if config.resume:
        return without_weights(folder.start, model_class)
    tokenizer, ids = vocabularies.student, vocabularies.ids
    if config.from_ not in (None, "scratch", config.teacher):
        model = load_model(resolve_model(config.from_), model_class, labels, seed=config.seed)
        check_vocabulary(model, tokenizer, resolve_model(config.from_))
        return model
    teacher = load_model(source, model_class, labels, seed=config.seed)
    if config.size:
        model = build_model(model_class, _family(config), config.model_size, tokenizer, labels, config.seed)
        start_embeddings(model, teacher, ids)
        say(f"student: new weights, {config.size_name} ({config.model_size}); token embeddings from the teacher's")
        return model
    family, count = family_of(teacher.config.model_type), teacher.config.num_hidden_layers
    can_be_distilbert = family is BERT and objective.fills_masks
    shape = config.shape or (distillation.DISTILBERT_SHAPE if can_be_distilbert else distillation.TEACHER_SHAPE)
    if shape == distillation.DISTILBERT_SHAPE and not can_be_distilbert:
        kind = teacher.config.model_type if objective.fills_masks else "model that reads from left to right"
        what = f"A DistilBERT is made of the layers of a BERT; the teacher is a {kind}."
        raise UserError(what, f"Give --shape {distillation.TEACHER_SHAPE}")
    layers = chosen_layers(count, config, shape)
    model = (make_distilbert if shape == distillation.DISTILBERT_SHAPE else keep_layers)(teacher, layers)
    return model if vocabularies.are_equal else cut_embeddings(model, ids)


def _family(config: DistillConfig) -> Family:
    """The family of a student with new weights. Raises UserError if it has no masked-LM."""
    family = get_family(config.family)
    if family.model_types[0] not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        what = f"A student at pre-training fills masks, which {family.name} does not."
        raise UserError(what, "Give another --family, or leave it out: the student is a BERT then.")
    return family


def _add_pooling(folder: Path) -> None:
    """Say, as sentence-transformers does, that the mean of the states stands for a text."""
    (folder / POOLING).parent.mkdir()
    write_json(folder / POOLING, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, indent=2)
