"""The model and the tokenizer that a fine-tuning starts from, or is resumed with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from transformers import PreTrainedModel

from bertcli import say
from bertcli.config.recipes import SHIPPED
from bertcli.config.training import FinetuneConfig
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.families import family_of, get_family
from bertcli.families.bert import BERT
from bertcli.families.family import Family
from bertcli.kinds.kind import Kind
from bertcli.kinds.span import JOINT, SPAN_HEAD
from bertcli.lifecycle.finetuning.sweep import FROZEN_LAYERS
from bertcli.lifecycle.pretrained import pools_by_mean
from bertcli.lifecycle.sources import Source
from bertcli.lifecycle.workspace import latest_vocabulary, resolve_model, tokenizer_source
from bertcli.models.loading import build_model, check_vocabulary, open_config, without_weights
from bertcli.training.checkpoint import latest_checkpoint, load_weights


def tokenizer_of(start: str, config: FinetuneConfig, resumed: Path | None) -> WordPiece:
    """The tokenizer that is named, or of the model. Raises UserError if there is neither it nor the model."""
    if start != "scratch" and not resumed:
        open_config(resolve_model(start))  # before its tokenizer, which is less to the point where there is neither
    named = config.tokenizer or (_vocabulary(get_family(config.family)) if start == "scratch" else start)
    found = replace(load_tokenizer(resumed or tokenizer_source(named)), source=named)
    if start == "scratch" and not resumed:
        get_family(config.family).check_vocabulary(found)
    return found


def _vocabulary(family: Family) -> str:
    """The vocabulary of new weights: the latest in this folder, else for a BERT that of the model in the package."""
    name = latest_vocabulary(SHIPPED if family is BERT else None, family)
    why = "in the package, as none is in this folder" if name == SHIPPED else "latest in this folder"
    say(f"vocabulary: {name} ({why})")
    return name


def resumed_model(folder: Path, kind: Kind, is_frozen: bool) -> PreTrainedModel:
    """The model of a run, from its folder of configuration and tokenizer; the training loads its weights.

    Those of a frozen model are loaded here, as its hidden states are computed before the training.
    """
    model = without_weights(folder, kind.model_class(open_config(str(folder)), None))
    if is_frozen:
        load_weights(latest_checkpoint(folder.parent), model)
    return model


def model_of(start: str, config: FinetuneConfig, source: Source, tokenizer: WordPiece) -> PreTrainedModel:
    """The model to start from, with a head for the task. Raises UserError if the tokenizer is not its own."""
    is_new = start == "scratch"
    of_start = get_family(config.family) if is_new else family_of(open_config(resolve_model(start)).model_type)
    own = of_start.head_settings if source.kind.has_linear_head else {}
    labels = {**own, **source.kind.model_config(source.task)}
    if source.kind.has_linear_head and not is_new and pools_by_mean(resolve_model(start)):
        labels["classifier_pooling"] = "mean"
    if config.span_head == JOINT:
        if not of_start.has_joint_spans:
            what = f"--span-head {JOINT} is a head of ELECTRA, ALBERT and XLNet; `{start}` is of {of_start.name}."
            raise UserError(what, "Leave --span-head out, or give --from one of these.")
        labels[SPAN_HEAD] = JOINT
    if config.bilstm:
        labels["bilstm"] = True
    if config.frozen:
        labels["frozen_layers"] = FROZEN_LAYERS if config.frozen_layers == "all" else config.frozen_layers
    if start == "scratch":
        say(f"new weights: {of_start.name}, {config.model_size}")
        model_class = source.kind.model_class(of_start.new_config(config.model_size), labels)
        return build_model(model_class, of_start, config.model_size, tokenizer, labels, config.seed)
    model = source.kind.load_model(resolve_model(start), labels, config.seed)
    check_vocabulary(model, tokenizer, resolve_model(start))
    return model
