"""Two encoders see one side each, are joined, and are fine-tuned as one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import write_reviews
from transformers import AutoModelForCausalLM

from bertcli.data.packing.batches import longest_first
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.errors import UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.encoder import encode
from bertcli.models.own.bilstm import add_bilstm
from bertcli.models.own.two_directions import CLASSES, TwoDirectionsConfig
from bertcli.objectives.objective import ObjectiveExamples
from bertcli.objectives.two_directions import TWO_DIRECTIONS
from tests.models.test_packed import CONFIG, LENGTHS, PACKED, make_batch
from tests.support import with_loss
from tests.training.test_loop import assert_same_bits

TINY = {"size": "tiny", "batch_size": 8, "objective": "two-directions", "precision": "float32"}


@pytest.fixture(scope="module")
def run(home: Path) -> Path:
    out = home / "runs-of-objectives" / "two-directions"
    return Path(pretrain(**TINY, data=str(home / "pretraining-data"), steps=3, out=str(out)).run)


def make_model(kind: str, **more: int) -> torch.nn.Module:
    torch.manual_seed(0)
    config = TwoDirectionsConfig(**CONFIG, **more, is_decoder=True, attn_implementation=PACKED)
    return CLASSES[f"AutoModel{kind}"](config).eval()


def test_each_half_of_a_state_sees_one_side_only() -> None:
    model = make_model("ForCausalLM")
    TWO_DIRECTIONS.with_loss(model).eval()
    batch, _ = make_batch({}, {})
    before = encode(model, batch)
    assert before.shape == (sum(LENGTHS), 64)
    place = 20  # in the second sequence, which is tokens 17 to 25
    batch.input_ids[place] = 49 - batch.input_ids[place]
    changed = (encode(model, batch) != before).view(-1, 2, 32).any(2)
    assert changed[:, 0].nonzero()[:, 0].tolist() == list(range(place, 26))
    assert changed[:, 1].nonzero()[:, 0].tolist() == list(range(17, place + 1))


def test_losses_are_those_of_two_models_of_transformers(home: Path, run: Path) -> None:
    examples = load_pretraining_examples(home / "pretraining-data", 0)
    rows = longest_first(np.array([3, 11]), examples.lengths)
    batch = ObjectiveExamples(TWO_DIRECTIONS, examples).pack(rows, 7)
    model = AutoModelForCausalLM.from_pretrained(run / "model", attn_implementation=PACKED).eval()
    sums = TWO_DIRECTIONS.with_loss(model)(batch)
    model = AutoModelForCausalLM.from_pretrained(run / "model", attn_implementation="eager").eval()
    for part, name, step in (("next_token", "left_to_right", 1), ("previous_token", "right_to_left", -1)):
        encoder, head, total = model.encoders.get_submodule(name), model.get_submodule(f"{name}_head"), 0.0
        columns = (batch.input_ids, batch.token_type_ids, batch.position_ids)
        for ids, types, places in zip(*(torch.split(each, batch.lengths) for each in columns), strict=True):
            order = {"input_ids": ids, "token_type_ids": types, "position_ids": places}
            order = {key: (each if step > 0 else each.flip(0))[None] for key, each in order.items()}
            logits = head(encoder(**order, use_cache=False).last_hidden_state)[0, :-1]
            labels = order["input_ids"][0, 1:]
            total += torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        torch.testing.assert_close(sums[part] / batch.counts[part], total / batch.counts[part], atol=1e-5, rtol=0)


@pytest.mark.parametrize("has_bilstm", [False, True])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("classify", "SequenceClassification"),
        ("choose", "MultipleChoice"),
        ("tag", "TokenClassification"),
        ("span", "QuestionAnswering"),
    ],
)
def test_every_kind_of_head_reads_both_directions(kind: str, name: str, has_bilstm: bool) -> None:
    model = make_model(f"For{name}", num_labels=2)
    if has_bilstm:
        add_bilstm(model)
    labels = {"choice_sequences": torch.arange(5)[:, None], "word_positions": torch.arange(42)}
    batch, _ = make_batch(labels, {})
    objective = with_loss(model, kind)
    found = objective.head(model, batch)
    next(iter(found.values())).nan_to_num(neginf=0).square().sum().backward()
    for direction in ("left_to_right", "right_to_left"):
        weight = model.encoders.get_submodule(direction).embeddings.word_embeddings.weight
        assert weight.grad.abs().sum() > 0
    assert len(next(iter(found.values()))) == {"tag": 42}.get(kind, 5)


def test_a_run_is_trained_on_fine_tuned_and_used(home: Path, run: Path, tmp_path: Path) -> None:
    data, reviews = str(home / "pretraining-data"), str(write_reviews(tmp_path / "train.csv", 60))
    again = pretrain(**TINY, from_=str(run), data=data, steps=1, learning_rate=0.0, out=str(tmp_path / "again"))
    assert_same_bits(run, again.run)
    with pytest.raises(UserError, match="cannot be trained by --objective left-to-right"):
        pretrain(**{**TINY, "objective": "left-to-right"}, from_=str(run), data=data, out=str(tmp_path / "other"))
    tuned = finetune(reviews, from_=str(run), epochs=1, batch_size=8, baseline=False, out=str(tmp_path / "tuned"))
    assert evaluate(reviews, model=tuned.run).metrics["accuracy"] == tuned.metrics["accuracy"]
    assert predict("the cat sat", model=tuned.run).records
    assert "transformers has no class for it" in (Path(tuned.run) / "README.md").read_text()
    for request in (
        {"text": "the [MASK]", "model": str(run)},
        {"text": "cat", "model": str(run), "explain": "attention"},
    ):
        with pytest.raises(UserError):
            predict(**request)
