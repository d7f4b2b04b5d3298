"""Students made of the layers of a teacher, as extract_distilbert.py makes them."""

import copy
import re
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from transformers import DistilBertConfig, DistilBertForMaskedLM, PreTrainedModel

from bertcli import say
from bertcli.config.distillation import DistillConfig
from bertcli.errors import UserError
from bertcli.families.distilbert import distilbert_names
from bertcli.models.loading import run_packed, with_trained_padding
from bertcli.models.own.bilstm import add_bilstm, has_bilstm
from bertcli.models.packed import PACKED

NUMBERED = re.compile(r"(?<=\.layer\.)\d+(?=\.)|(?<=\.layers\.)\d+(?=\.)")
# The settings of a DistilBERT that BERT calls otherwise.
SETTINGS = {"n_heads": "num_attention_heads", "dim": "hidden_size", "hidden_dim": "intermediate_size"}
SETTINGS |= {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}
SETTINGS["activation"] = "hidden_act"
COUNTS = ("num_hidden_layers", "n_layers")  # as config.json spells it


def layers_to_keep(of_teacher: int, of_student: int) -> list[int]:
    """The layers of the teacher that the student gets, evenly spread from first to last: 0, 2, 4, 7, 9, 11 for 6 of 12.

    Raises UserError if the teacher has fewer.
    """
    if of_student > of_teacher:
        what = f"--layers {of_student} is more than the {of_teacher} layers of the teacher."
        raise UserError(what, f"Give --layers {of_teacher} or less.")
    return torch.linspace(0, of_teacher - 1, of_student, dtype=torch.float64).round().long().tolist()


def chosen_layers(of_teacher: int, config: DistillConfig, shape: str = "") -> list[int]:
    """The layers of the teacher that the student gets, half of them if nothing is asked for; says which.

    Raises UserError if the teacher does not have them.
    """
    if config.teacher_layers:
        layers = _named_layers(config.teacher_layers, of_teacher)
    else:
        layers = layers_to_keep(of_teacher, config.layers or max(1, of_teacher // 2))
    said = f"student: layers {', '.join(map(str, layers))} of the {of_teacher} of the teacher, counted from 0"
    say(f"{said}; shape: {shape}" if shape else said)
    return layers


def _named_layers(numbers: str, of_teacher: int) -> list[int]:
    """The layers that are named, such as 0,1,4,5."""
    known = {str(number): number for number in range(of_teacher)}
    for each in numbers.split(","):
        if each.strip() not in known:
            what = f"--teacher-layers: the teacher has no layer `{each.strip()}`."
            raise UserError(what, f"Give numbers from 0 to {of_teacher - 1} with commas between them.")
    return [known[each.strip()] for each in numbers.split(",")]


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
