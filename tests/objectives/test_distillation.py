"""The losses of a student are those of the authors' distiller.py."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import GOLDENS
from torch import Tensor
from torch.nn.functional import cosine_embedding_loss, kl_div, log_softmax, softmax
from transformers import BertConfig, BertForMaskedLM

from bertcli.data.packing.batches import longest_first
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.models.cross_entropy import soft_divergence, vocabulary_cross_entropy
from bertcli.objectives.distillation import Distillation, Teacher, Weights, cosine_distance, squared_distance
from bertcli.objectives.left_to_right import NEXT_TOKEN
from bertcli.objectives.masked_lm import MLM

FOLDER = GOLDENS / "distilbert"
CASES = {each["name"]: each for each in json.loads((FOLDER / "losses.json").read_text())}
README = (5.0, 2.0, 0.0, 0.0, 1.0)  # soft targets, masked-LM, causal LM, squared difference, cosine


def test_next_tokens_have_the_originals_loss_and_gradients() -> None:
    with np.load(FOLDER / "losses.npz") as saved:
        arrays = {key: torch.from_numpy(saved[key]) for key in saved.files}
    wanted, is_token = CASES["clm"], arrays["attention_mask"].bool()
    student, hidden = arrays["student_logits"].requires_grad_(), arrays["student_hidden"].requires_grad_()
    own, labels = student[:, :-1].flatten(0, 1), arrays["labels"][:, 1:].flatten()
    known = labels != -100
    soft, _, following, _, cosine = wanted["args"]["alphas"]
    tokens = int(is_token.sum())
    parts = {
        "ce": soft_divergence(student[is_token], arrays["teacher_logits"][is_token], 2.0) / tokens,
        "clm": NEXT_TOKEN.loss(own[known], labels[known]) / int(known.sum()),
        "cos": cosine_distance(hidden[is_token], arrays["teacher_hidden"][is_token]) / tokens,
    }
    for part, value in parts.items():
        assert value.item() == pytest.approx(wanted[f"loss_{part}"], rel=1e-5)
    (soft * parts["ce"] + following * parts["clm"] + cosine * parts["cos"]).backward()
    torch.testing.assert_close(student.grad, arrays["grad_logits/clm"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"clm"}))
def test_losses_and_gradients_are_those_of_the_original(name: str) -> None:
    with np.load(FOLDER / "losses.npz") as saved:
        arrays = {key: torch.from_numpy(saved[key]) for key in saved.files}
    wanted, given = CASES[name], CASES[name]["args"]
    is_token, temperature = arrays["attention_mask"].bool(), given.get("T", 2.0)
    soft, masked, _, squared, cosine = given.get("alphas", README)
    labels = arrays["labels"][is_token]
    places = (labels != -100).nonzero()[:, 0]
    student = arrays["student_logits"].requires_grad_()
    own, theirs = student[is_token], arrays["teacher_logits"][is_token]
    rows = places if given.get("restrict") else slice(None)
    hidden = arrays["student_hidden"].requires_grad_()
    parts = {
        "ce": soft_divergence(own[rows], theirs[rows], temperature) / len(own[rows]),
        "mlm": vocabulary_cross_entropy(own[places], labels[places]) / len(places),
        "mse": squared_distance(own[rows], theirs[rows]) / len(own[rows]),
        "cos": cosine_distance(hidden[is_token], arrays["teacher_hidden"][is_token]) / len(own),
    }
    for part, value in parts.items():
        assert value.item() == pytest.approx(wanted.get(f"loss_{part}", value.item()), rel=1e-5)
    total = soft * parts["ce"] + masked * parts["mlm"] + squared * parts["mse"] + cosine * parts["cos"]
    assert total.item() == pytest.approx(wanted["loss"], rel=1e-5)
    total.backward()
    torch.testing.assert_close(student.grad, arrays[f"grad_logits/{name}"], atol=1e-5, rtol=1e-5)
    assert hidden.grad.norm().item() == pytest.approx(wanted["grad_norm_hidden"], rel=1e-5)


def make_bert(layers: int, hidden: int, vocabulary: int = 120) -> Any:
    torch.manual_seed(layers)
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForMaskedLM(
        BertConfig(vocab_size=vocabulary, **sizes, attn_implementation="packed", initializer_range=0.5)
    )


def losses_of(
    teacher: Any, student: Any, weights: Weights, data: Path, **options: Any
) -> tuple[Any, dict[str, Tensor]]:
    read = Teacher(teacher, "float32", bool(weights.soft_targets or weights.squared), options.pop("whole", False))
    objective = Distillation(MLM.name, MLM.parts, MLM.cut, teacher=read, weights=weights, **options)
    packable = objective.packable(load_pretraining_examples(data, 0))
    batch = packable.pack(longest_first(np.array([3, 0, 7]), packable.lengths), 1)
    with_loss = objective.with_loss(student).eval()
    sums = with_loss(batch)
    assert sums.keys() == batch.counts.keys()
    return batch, {name: value / batch.counts[name] for name, value in sums.items()}


def test_a_packed_batch_gives_the_original_formulas_of_each_part(home: Path) -> None:
    teacher, student = make_bert(3, 16), make_bert(1, 16)
    batch, losses = losses_of(teacher, student, Weights(vectors=0.5), home / "pretraining-data")
    parts: dict[str, list[Tensor]] = {"own": [], "theirs": [], "states": [], "teachers": [], "means": []}
    starts = np.cumsum((0, *batch.lengths))
    plain = [
        BertForMaskedLM(BertConfig.from_dict({**each.config.to_dict(), "_attn_implementation": "eager"})).eval()
        for each in (student, teacher)
    ]
    plain[0].load_state_dict(student.state_dict())
    plain[1].load_state_dict(make_bert(3, 16).state_dict())
    for start, end in pairwise(starts):
        columns = {
            "input_ids": batch.input_ids[None, start:end],
            "token_type_ids": batch.token_type_ids[None, start:end],
        }
        own, theirs = (each(**columns, output_hidden_states=True) for each in plain)
        parts["own"].append(own.logits[0])
        parts["theirs"].append(theirs.logits[0])
        parts["states"].append(own.hidden_states[-1][0])
        parts["teachers"].append(theirs.hidden_states[-1][0])
    own, theirs, states, teachers = (torch.cat(parts[name]) for name in ("own", "theirs", "states", "teachers"))
    divergence = 4 * kl_div(log_softmax(own / 2, -1), softmax(theirs / 2, -1), reduction="batchmean")
    means = [torch.stack([each.mean(0) for each in parts[name]]) for name in ("states", "teachers")]
    wanted = {
        "soft_targets": 5 * divergence,
        "hidden": cosine_embedding_loss(states, teachers, torch.ones(len(states))),
        "vectors": 0.5 * cosine_embedding_loss(*means, torch.ones(3)),
    }
    for name, value in wanted.items():
        torch.testing.assert_close(losses[name], value, atol=1e-5, rtol=1e-4)


def test_a_teacher_of_another_width_is_met_by_a_projection_that_is_trained(home: Path) -> None:
    student = make_bert(1, 16)
    weights = Weights(soft_targets=0, vectors=1)
    _, losses = losses_of(make_bert(2, 24), student, weights, home / "pretraining-data", whole=True)
    assert losses.keys() == {"masked_lm", "hidden", "vectors"}
    sum(losses.values()).backward()
    assert all(weight.grad is not None for weight in student.parameters())


def test_only_masked_positions_may_be_learnt(home: Path) -> None:
    teacher, weights = make_bert(2, 16), Weights(squared=1)
    batch, losses = losses_of(teacher, make_bert(1, 16), weights, home / "pretraining-data", only_masked=True)
    assert batch.counts["soft_targets"] == batch.counts["squared"] == len(batch.labels["masked_lm_ids"])
    assert all(torch.isfinite(value) for value in losses.values())
