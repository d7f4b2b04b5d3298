"""Students made of the layers of a teacher, as extract_distilbert.py makes them."""

import copy
import re
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from transformers import DistilBertConfig, DistilBertForMaskedLM, PreTrainedModel

from bertcli.errors import UserError
from bertcli.families.distilbert import distilbert_names
from bertcli.lifecycle.distilling.layers import COUNTS
from bertcli.models.loading import run_packed, with_trained_padding
from bertcli.models.own.bilstm import add_bilstm, has_bilstm
from bertcli.models.packed import PACKED

NUMBERED = re.compile(r"(?<=\.layer\.)\d+(?=\.)|(?<=\.layers\.)\d+(?=\.)")
# The settings of a DistilBERT that BERT calls otherwise.
SETTINGS = {"n_heads": "num_attention_heads", "dim": "hidden_size", "hidden_dim": "intermediate_size"}
SETTINGS |= {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}
SETTINGS["activation"] = "hidden_act"


@torch.no_grad()
def make_distilbert(teacher: PreTrainedModel, layers: Sequence[int]) -> PreTrainedModel:
    """A DistilBERT with a masked-LM head, of some layers of a BERT that has one."""
    of = teacher.config
    same = ("vocab_size", "max_position_embeddings", "initializer_range", "pad_token_id")
    shape = {"n_layers": len(layers), **{own: getattr(of, theirs) for own, theirs in SETTINGS.items()}}
    config = DistilBertConfig(**shape, **{name: getattr(of, name) for name in same}, attn_implementation=PACKED)
    student = DistilBertForMaskedLM(config)
    weights, own = teacher.state_dict(), student.state_dict()
    for name, theirs in distilbert_names(layers).items():
        own[name].copy_(weights[theirs])
    return with_trained_padding(student)


def keep_layers(model: PreTrainedModel, layers: Sequence[int]) -> PreTrainedModel:
    """A model of the same class with some of the layers, embeddings and head as they are; shared layers run less often.

    Raises UserError if its layers have names of another form.
    """
    config = copy.deepcopy(model.config)
    for name in COUNTS:
        if hasattr(config, name):
            setattr(config, name, len(layers))
    numbers = {str(layer): str(number) for number, layer in enumerate(layers)}
    kept: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        found = NUMBERED.search(name)
        if found is None or found[0] in numbers:
            kept[NUMBERED.sub(lambda match: numbers[match[0]], name, count=1)] = value
    config._attn_implementation = model.config._attn_implementation
    student = run_packed(cast(PreTrainedModel, type(model)(config)))
    if has_bilstm(model):
        add_bilstm(student)
    try:
        student.load_state_dict(kept)
    except RuntimeError:  # other names than those of the student
        what = f"The layers of a {config.model_type} cannot be taken apart."
        raise UserError(what, "Give the student otherwise: --from MODEL, or --size tiny") from None
    return with_trained_padding(student) if config._attn_implementation == PACKED else student
