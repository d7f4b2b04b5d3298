"""Students start from the layers and the embeddings of their teacher."""

import json

import numpy as np
import pytest
import torch
import transformers
from conftest import GOLDENS

from bertcli.config.distillation import DistillConfig
from bertcli.errors import UserError
from bertcli.families.distilbert import distilbert_names
from bertcli.lifecycle.distilling.layers import chosen_layers, layers_to_keep
from bertcli.lifecycle.distilling.students import keep_layers, make_distilbert
from bertcli.models.embeddings import cut_embeddings, start_bias, start_embeddings
from bertcli.models.loading import run_packed

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
SIZES |= {"num_hidden_layers": 12, "max_position_embeddings": 32, "pad_token_id": 0}


def make(name: str, head: str = "MaskedLM", **options: int) -> transformers.PreTrainedModel:
    torch.manual_seed(4)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **options})
    model = getattr(transformers, f"{name}For{head}")(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight))
    return model.eval()


def test_the_layers_are_those_of_the_authors() -> None:
    assert layers_to_keep(12, 6) == [0, 2, 4, 7, 9, 11]
    assert layers_to_keep(4, 4) == [0, 1, 2, 3]
    assert layers_to_keep(6, 1) == [0]
    for of_student in range(1, 29):  # as torch.linspace rounds them
        even = torch.linspace(0, 27, of_student, dtype=torch.float64).round().long().tolist()
        assert layers_to_keep(28, of_student) == even
    with pytest.raises(UserError, match="more than the 2 layers"):
        layers_to_keep(2, 3)


def test_each_weight_is_of_the_place_that_the_authors_script_takes_it_from() -> None:
    goldens = json.loads((GOLDENS / "distilbert" / "initialisation.json").read_text())
    for case, has_transform in (("vocab_transform", True), ("default", False)):
        names = distilbert_names(layers_to_keep(12, 6))
        left_out = (
            set() if has_transform else {name for name in names if name.startswith(("vocab_transform", "vocab_layer"))}
        )
        assert names.keys() - left_out == goldens[case]["map"].keys()
        for name, theirs in goldens[case]["map"].items():
            assert names[name] in theirs


def test_a_distilbert_has_the_weights_of_its_teacher_row_for_row() -> None:
    teacher = make("Bert")
    student = make_distilbert(teacher, layers_to_keep(12, 6)).state_dict()
    weights = teacher.state_dict()
    goldens = json.loads((GOLDENS / "distilbert" / "initialisation.json").read_text())
    assert student.keys() == goldens["vocab_transform"]["map"].keys()
    for name, (first, *_) in goldens["vocab_transform"]["map"].items():
        assert torch.equal(student[name], weights[first]), name


@pytest.mark.parametrize(("name", "head"), [("Bert", "SequenceClassification"), ("Roberta", "MaskedLM")])
def test_all_layers_of_any_family_make_the_same_model(name: str, head: str) -> None:
    model = make(name, head, num_hidden_layers=3, type_vocab_size=1)
    ids = torch.tensor([[2, 7, 9, 11, 3]])
    same, last = keep_layers(model, [0, 1, 2]).eval(), keep_layers(model, [0, 2]).eval()
    assert last.config.num_hidden_layers == 2
    with torch.no_grad():
        assert torch.equal(same(ids).logits, model(ids).logits)
        states = model(ids, output_hidden_states=True).hidden_states
        assert torch.equal(last(ids, output_hidden_states=True).hidden_states[1], states[1])


def test_layers_of_a_deberta_run_packed_as_those_of_its_teacher() -> None:
    model = make(
        "Deberta", "SequenceClassification", num_hidden_layers=2, relative_attention=True, pos_att_type=["c2p"]
    )
    packed = run_packed(model)
    student = keep_layers(packed, [0])
    assert {type(each).__name__ for each in student.modules()} == {type(each).__name__ for each in packed.modules()}


def test_layers_that_share_their_weights_run_less_often() -> None:
    model = make("Albert", embedding_size=8, num_hidden_layers=2)
    assert keep_layers(model, [0]).num_parameters() == model.num_parameters()


def test_layers_with_other_names_are_not_taken_apart() -> None:
    config = transformers.GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2)
    model = transformers.GPT2ForSequenceClassification(config)
    with pytest.raises(UserError, match="layers of a gpt2 cannot be taken apart"):
        keep_layers(model, [1])


def test_a_cut_vocabulary_keeps_the_rows_of_its_tokens() -> None:
    model, ids = make("Bert", num_hidden_layers=1), torch.tensor([0, 2, 3, 30, 39])
    rows, decoder, bias = (
        each.detach().clone()
        for each in (
            model.get_input_embeddings().weight,
            model.cls.predictions.decoder.weight,
            model.cls.predictions.decoder.bias,
        )
    )
    cut = cut_embeddings(model, ids)
    assert torch.equal(cut.get_input_embeddings().weight, rows[ids])
    assert torch.equal(cut.get_output_embeddings().weight, decoder[ids])
    assert torch.equal(cut.get_output_embeddings().bias, bias[ids])
    assert cut.config.vocab_size == 5


def test_layers_are_named_by_their_numbers() -> None:
    named = lambda numbers: chosen_layers(6, DistillConfig(teacher="a", teacher_layers=numbers))  # noqa: E731
    assert named("0,1, 4,5") == [0, 1, 4, 5]
    for wrong in ("0,6", "0,,1", "last"):
        with pytest.raises(UserError, match="the teacher has no layer"):
            named(wrong)


def test_a_new_masked_lm_head_starts_at_the_frequencies_of_tokens() -> None:
    model, counts = make("Bert", num_hidden_layers=1), np.arange(40)
    start_bias(model, counts)
    assert model.get_output_embeddings().bias[5].item() != pytest.approx(
        np.log(6 / (counts.sum() + 40))
    )  # it was trained
    torch.nn.init.zeros_(model.get_output_embeddings().bias)
    start_bias(model, counts)
    assert model.get_output_embeddings().bias[5].item() == pytest.approx(np.log(6 / (counts.sum() + 40)))
    assert model.cls.predictions.bias is model.get_output_embeddings().bias


@pytest.mark.parametrize("width", [16, 8])
def test_embeddings_start_from_the_teachers_copied_or_projected(width: int) -> None:
    teacher, ids = make("Bert", num_hidden_layers=1), torch.arange(5, 40)
    student = make("Bert", num_hidden_layers=1, hidden_size=width, vocab_size=35)
    start_embeddings(student, teacher, ids)
    own, theirs = student.get_input_embeddings().weight.detach(), teacher.get_input_embeddings().weight[ids].detach()
    if width == 16:
        assert torch.equal(own, theirs)
    else:  # rows that are near stay near
        nearness = [torch.cdist(each, each).flatten() for each in (own, theirs)]
        assert torch.corrcoef(torch.stack(nearness))[0, 1] > 0.7
