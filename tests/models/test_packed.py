"""A packed batch gives what the plain padded model gives: losses, outputs, gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, mse_loss, scaled_dot_product_attention
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from bertcli.data.packing import sequences as sequences_module
from bertcli.data.packing.batches import PackedBatch, longest_first, pack, split
from bertcli.data.packing.ragged import Ragged
from bertcli.data.packing.sequences import LENGTH_STEP, SHORT, Sequences
from bertcli.data.packing.tag_features import TagFeatures
from bertcli.data.packing.text_features import ChoiceFeatures, TextFeatures
from bertcli.kernels import gpu, is_amd, multiplies_bfloat16, prepack
from bertcli.kernels.products import PrepackedLinear
from bertcli.models.dropout import next_mask, seed_dropout
from bertcli.models.encoder import encode
from bertcli.models.packed import PACKED, attend, attention
from bertcli.models.working_copy import WorkingCopy
from bertcli.training.optimizer import make_optimizer
from tests.support import take_kernels, with_loss

LENGTHS = np.array([17, 9, 9, 5, 2])
CONFIG = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
CLASSES = {
    "pretrain": BertForPreTraining,
    "classify": BertForSequenceClassification,
    "span": BertForQuestionAnswering,
    "choose": BertForMultipleChoice,
    "tag": BertForTokenClassification,
}


def make_models(kind: str, **more: str | bool):
    """The same weights twice: run by us, packed, and by plain transformers, padded."""
    torch.manual_seed(0)
    padded = CLASSES[kind](BertConfig(**CONFIG, **more, num_labels=2, attn_implementation="eager"))
    packed = CLASSES[kind](BertConfig(**CONFIG, **more, num_labels=2, attn_implementation=PACKED))
    packed.load_state_dict(padded.state_dict())
    return packed, padded


def make_batch(labels: dict[str, torch.Tensor], counts: dict[str, int]) -> tuple[PackedBatch, dict[str, torch.Tensor]]:
    generator = np.random.default_rng(1)
    ids = [generator.integers(1, 50, length) for length in LENGTHS]
    types = [(np.arange(length) > length // 2).astype(np.int64) for length in LENGTHS]
    packed = pack(np.concatenate(ids), np.concatenate(types), LENGTHS, np.arange(len(LENGTHS)))
    packed = PackedBatch(**{**packed.__dict__, "labels": labels, "counts": counts})
    padded = {
        "input_ids": pad(ids),
        "token_type_ids": pad(types),
        "attention_mask": pad([np.ones_like(row) for row in ids]),
    }
    return packed, padded


def pad(rows: list[np.ndarray]) -> torch.Tensor:
    return torch.tensor([[*row, *[0] * (max(LENGTHS) - len(row))] for row in rows])


def assert_same_gradients(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        other = expected[name].grad
        assert (parameter.grad is None) == (other is None), name
        if other is not None:
            torch.testing.assert_close(
                parameter.grad, other, atol=1e-5, rtol=1e-4, msg=lambda text, n=name: f"{n}: {text}"
            )


def test_pretraining_loss_and_gradients_equal_the_padded_models() -> None:
    packed_model, padded_model = make_models("pretrain")
    places = [(0, 3), (0, 11), (1, 2), (2, 7), (3, 1), (4, 1)]  # (sequence, position)
    starts = np.cumsum(LENGTHS) - LENGTHS
    ids = torch.tensor([7, 8, 9, 10, 11, 12])
    next_sentence = torch.tensor([0, 1, 1, 0, 1])
    labels = {
        "masked_lm_positions": torch.tensor([starts[s] + p for s, p in places]),
        "masked_lm_ids": ids,
        "next_sentence_labels": next_sentence,
    }
    batch, padded = make_batch(labels, {"masked_lm": len(ids), "next_sentence": 5})
    sums = with_loss(packed_model, "pretrain")(batch)
    loss = sum(sums[name] / batch.counts[name] for name in sums)
    loss.backward()
    outputs = padded_model(**padded)
    masked = torch.stack([outputs.prediction_logits[s, p] for s, p in places])
    expected = cross_entropy(masked, ids) + cross_entropy(outputs.seq_relationship_logits, next_sentence)
    expected.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(packed_model, padded_model)


@pytest.mark.parametrize("kind", ["classify", "regress"])
def test_classification_logits_and_gradients_equal_the_padded_models(kind: str) -> None:
    packed_model, padded_model = make_models("classify")
    labels = torch.tensor([0, 1, 0, 0, 1]) if kind == "classify" else torch.tensor([0.1, 2.0, 3.5, 0.0, 5.0])
    batch, padded = make_batch({"labels": labels}, {"loss": 5})
    objective = with_loss(packed_model, kind)
    loss = objective(batch)["loss"] / 5
    loss.backward()
    logits = padded_model(**padded).logits
    expected = cross_entropy(logits, labels) if kind == "classify" else mse_loss(logits[:, 0], labels)
    expected.backward()
    torch.testing.assert_close(objective.outputs(batch)["logits"], logits.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(packed_model, padded_model)


def test_multilabel_loss_and_gradients_equal_the_padded_models() -> None:
    packed_model, padded_model = make_models("classify")
    padded_model.config.problem_type = "multi_label_classification"
    labels = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    batch, padded = make_batch({"labels": labels}, {"loss": 5})
    loss = with_loss(packed_model, "multilabel")(batch)["loss"] / 5
    loss.backward()
    expected = padded_model(**padded, labels=labels).loss
    expected.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(packed_model, padded_model)


def test_choice_loss_and_gradients_equal_the_padded_models() -> None:
    packed_model, padded_model = make_models("choose")
    generator = np.random.default_rng(2)
    ids = [
        generator.integers(1, 50, length).tolist() for length in (5, 17, 9, 3, 9, 12)
    ]  # two examples of three choices
    types = [[int(place > 2) for place in range(len(row))] for row in ids]
    labels = np.array([1, 2])
    sequences = TextFeatures(Ragged.from_lists(ids), Ragged.from_lists(types), None, 0)
    features = ChoiceFeatures(sequences, 3, labels)
    assert features.lengths.tolist() == [31, 24]
    batch = features.pack(np.array([1, 0]), key=0)
    assert batch.lengths == (17, 12, 9, 9, 5, 3)
    objective = with_loss(packed_model, "choose")
    loss = objective(batch)["loss"] / batch.counts["loss"]
    loss.backward()
    padded = {
        "input_ids": pad(ids),
        "token_type_ids": pad(types),
        "attention_mask": pad([[1] * len(row) for row in ids]),
    }
    outputs = padded_model(**{name: rows.view(2, 3, -1) for name, rows in padded.items()}, labels=torch.tensor(labels))
    outputs.loss.backward()
    torch.testing.assert_close(
        objective.outputs(batch)["logits"], outputs.logits.detach().flip(0), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(loss, outputs.loss, atol=1e-5, rtol=1e-5)
    assert_same_gradients(packed_model, padded_model)


def test_tag_loss_and_gradients_equal_the_padded_models_on_first_pieces() -> None:
    packed_model, padded_model = make_models("tag")
    generator = np.random.default_rng(3)
    ids = [generator.integers(1, 50, length).tolist() for length in (9, 17, 4)]
    places, tags = [[1, 2, 5], [1, 4, 7, 8], [2]], [[1, 0, 1], [0, 1, 1, 0], [1]]
    features = TagFeatures(Ragged.from_lists(ids), Ragged.from_lists(places), Ragged.from_lists(tags))
    batch = features.pack(np.array([1, 0, 2]), key=0)
    assert batch.rows.tolist() == [1, 1, 1, 1, 0, 0, 0, 2]
    loss = with_loss(packed_model, "tag")(batch)["loss"] / batch.counts["loss"]
    loss.backward()
    labels = torch.full((3, 17), -100)
    for row, (mine, known) in enumerate(zip(places, tags, strict=True)):
        labels[row, mine] = torch.tensor(known)
    expected = padded_model(pad(ids), attention_mask=pad([[1] * len(row) for row in ids]), labels=labels).loss
    expected.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(packed_model, padded_model)


def test_span_logits_and_gradients_equal_the_padded_models_on_real_tokens() -> None:
    packed_model, padded_model = make_models("span")
    starts, ends = torch.tensor([3, 1, 0, 2, 0]), torch.tensor([5, 8, 0, 4, 1])
    batch, padded = make_batch({"start_positions": starts, "end_positions": ends}, {"loss": 5})
    objective = with_loss(packed_model, "span")
    loss = objective(batch)["loss"] / 5
    loss.backward()
    outputs = padded_model(**padded)
    beyond = padded["attention_mask"] == 0
    start, end = (side.masked_fill(beyond, -torch.inf) for side in (outputs.start_logits, outputs.end_logits))
    expected = (cross_entropy(start, starts) + cross_entropy(end, ends)) / 2
    expected.backward()
    torch.testing.assert_close(objective.outputs(batch)["start"], start.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(packed_model, padded_model)


def test_a_sequence_sees_nothing_of_its_neighbours() -> None:
    model, _ = make_models("classify")
    batch, _ = make_batch({}, {})
    logits = with_loss(model, "classify").outputs(batch)["logits"]
    alone = pack(batch.input_ids[17:26].numpy(), batch.token_type_ids[17:26].numpy(), np.array([9]), np.array([0]))
    torch.testing.assert_close(
        with_loss(model, "classify").outputs(alone)["logits"][0], logits[1], atol=1e-6, rtol=1e-5
    )


def test_micro_batches_hold_every_row_once_and_no_more_tokens_than_asked() -> None:
    lengths = np.array([5, 128, 7, 7, 64, 128, 3, 99])
    rows = longest_first(np.arange(8), lengths)
    parts = split(rows, lengths, 140)
    assert sorted(int(row) for part in parts for row in part) == list(range(8))
    assert all(lengths[part].sum() <= 140 for part in parts)
    assert split(np.array([1]), lengths, 100)[0].tolist() == [1]


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 24), min_size=1, max_size=12),
    st.sampled_from([0, 300, sequences_module.ELEMENTS_OF_A_GROUP]),
    st.booleans(),
)
def test_however_a_batch_is_cut_into_groups_each_token_attends_within_its_sequence(
    lengths: list[int], elements: int, is_causal: bool
) -> None:
    packed_model, padded_model = make_models("tag", is_decoder=is_causal)
    lengths = sorted(lengths, reverse=True)
    ids = np.random.default_rng(len(lengths)).integers(1, 50, sum(lengths))
    batch = pack(ids, np.zeros_like(ids), np.array(lengths), np.arange(len(lengths)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences_module, "ELEMENTS_OF_A_GROUP", elements)
        groups = Sequences(tuple(lengths), 0, torch.device("cpu")).groups
        hidden = encode(packed_model, batch)
    assert sum(group.tokens for group in groups) == len(ids)
    assert sum(group.shape[0] for group in groups) == len(lengths)
    if elements == 0:
        assert all(group.places is None for group in groups)
    hidden.square().sum().backward()
    for row, (start, length) in enumerate(zip(np.cumsum(lengths) - lengths, lengths, strict=True)):
        alone = padded_model.base_model(torch.from_numpy(ids[None, start : start + length])).last_hidden_state[0]
        torch.testing.assert_close(hidden[start : start + length], alone, atol=1e-5, rtol=1e-4, msg=f"row {row}")
        alone.square().sum().backward()
    for (name, ours), theirs in zip(packed_model.named_parameters(), padded_model.parameters(), strict=True):
        if theirs.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-3, msg=f"{name} {lengths}")


def attend_alone(states: torch.Tensor, lengths: tuple[int, ...], is_causal: bool = False) -> torch.Tensor:
    """Torch's own attention, a sequence at a time: [3, T, A, D] to [T, A, D]."""
    parts = torch.split(states.transpose(1, 2), lengths, dim=2)
    return torch.cat([scaled_dot_product_attention(*part, is_causal=is_causal) for part in parts], dim=1).transpose(
        0, 1
    )


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=7), st.sampled_from([(2, 16), (3, 32), (2, 64)]), st.booleans()
)
def test_in_bfloat16_without_a_gradient_each_token_attends_within_its_sequence(
    lengths: list[int], heads: tuple[int, int], is_causal: bool
) -> None:
    lengths = sorted(lengths, reverse=True)
    sequences = Sequences(tuple(lengths), 6, torch.device("cpu"), LENGTH_STEP, is_causal)
    exact = torch.randn(3, sum(lengths), *heads, generator=torch.Generator().manual_seed(len(lengths)))
    states = torch.cat([exact, torch.full((3, 6, *heads), 9.0)], 1).bfloat16().transpose(0, 1).contiguous()
    scaling = heads[1] ** -0.5
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        take_kernels(patch)
        found = attend(sequences, 0.0, scaling, states)
        apart = attend(sequences, 0.0, scaling, *(part.contiguous() for part in states.split(1, dim=1)))
    assert torch.equal(found, apart)
    torch.testing.assert_close(found[:-6].float(), attend_alone(exact, tuple(lengths), is_causal), atol=0.03, rtol=0.03)
    assert not found[-6:].any()


@settings(max_examples=15)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=7), st.booleans())
def test_in_bfloat16_long_sequences_share_the_shapes_of_their_products_and_attend_as_exactly(
    lengths: list[int], is_causal: bool
) -> None:
    lengths = sorted(lengths, reverse=True)
    sequences = Sequences(tuple(lengths), 6, torch.device("cpu"), LENGTH_STEP, is_causal)
    for group in sequences.groups:
        count, longest = group.shape
        assert longest <= SHORT or longest % LENGTH_STEP == 0
        assert sum(group.cuts) == count
        assert longest <= SHORT or all(cut.bit_count() == 1 for cut in group.cuts)
    generator = torch.Generator().manual_seed(len(lengths))
    exact = torch.randn(3, sum(lengths), 2, 16, generator=generator).requires_grad_()
    states = torch.cat([exact.detach(), torch.full((3, 6, 2, 16), 9.0)], 1).bfloat16().requires_grad_()
    found = attention.__wrapped__(sequences, next_mask(0.0, states.shape[1]), 0.25, *states[:, :, None])[:-6]
    wanted = attend_alone(exact, tuple(lengths), is_causal)
    weights = torch.randn(wanted.shape, generator=generator)
    for context in (found.float(), wanted):
        (context * weights).sum().backward()
    torch.testing.assert_close(found.float(), wanted, atol=0.03, rtol=0.03)
    torch.testing.assert_close(states.grad[:, :-6].float(), exact.grad, atol=0.06, rtol=0.06)
    assert not states.grad[:, -6:].any()


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_that_drops_weights_has_the_gradient_of_what_it_computes(
    is_causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences_module, "SHORT", 0)  # which would be computed in float32
    sequences = Sequences((4, 3, 3, 1), 2, torch.device("cpu"), 2, is_causal)
    assert [group.shape for group in sequences.groups] == [(4, 4)]

    def attend_plainly(states: torch.Tensor) -> torch.Tensor:
        seed_dropout(5)
        return attention.__wrapped__(sequences, next_mask(0.4, len(states)), 0.5, states)

    states = torch.randn(13, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(attend_plainly, states)


@pytest.mark.parametrize("kind", ["pretrain", "classify", "tag", "span"])
def test_a_step_on_a_gpu_asks_nothing_back_from_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that has shapes and no numbers, whatever would make the CPU wait for one fails."""
    monkeypatch.setattr(gpu, "is_half_on_gpu", lambda _: True)
    of_sequences, of_tokens = torch.zeros(len(LENGTHS), dtype=torch.long), torch.arange(6)
    labels = {
        "pretrain": {
            "masked_lm_positions": of_tokens,
            "masked_lm_ids": of_tokens,
            "next_sentence_labels": of_sequences,
        },
        "classify": {"labels": of_sequences},
        "tag": {"word_positions": of_tokens, "labels": torch.zeros(6, dtype=torch.long)},
        "span": {"start_positions": of_sequences, "end_positions": of_sequences},
    }[kind]
    objective = with_loss(make_models(kind)[0], kind).to("meta").train()
    working_copy = WorkingCopy(objective, torch.bfloat16)
    optimizer = make_optimizer(objective, "bert", working_copy)
    batch, _ = make_batch(labels, {})
    for is_last in (False, True):  # the second adds to the first's gradients
        losses = working_copy.module(batch.to(torch.device("meta")))
        torch.stack([*losses.values()]).sum().backward()
        working_copy.give_gradients(is_last)
    optimizer.clip_by_global_norm()
    optimizer.step()
    working_copy.refresh()
    assert all(loss.dtype == torch.float32 for loss in losses.values())
    assert objective.model.base_model.embeddings.word_embeddings.weight.grad.dtype == torch.float32


def test_in_bfloat16_packed_is_as_near_to_float32_as_padded_is() -> None:
    exact = make_models("classify")[1]
    batch, padded = make_batch({"labels": torch.tensor([0, 1, 0, 0, 1])}, {"loss": 5})
    wanted = exact(**padded, labels=batch.labels["labels"])
    wanted.loss.backward()
    errors = []
    for model in make_models("classify"):
        model.to(torch.bfloat16)
        if model.config._attn_implementation == PACKED:
            logits = with_loss(model, "classify").outputs(batch)["logits"]
            loss = with_loss(model, "classify")(batch)["loss"] / 5
        else:
            found = model(**padded, labels=batch.labels["labels"])
            logits, loss = found.logits, found.loss
        loss.backward()
        of_gradients = [
            (ours.grad.float() - theirs.grad).norm() / theirs.grad.norm()
            for ours, theirs in zip(model.parameters(), exact.parameters(), strict=True)
            if theirs.grad is not None and theirs.grad.norm() > 1e-4
        ]
        errors.append(
            (
                float((logits.detach().float() - wanted.logits.detach()).abs().max()),
                float(torch.stack(of_gradients).mean()),
            )
        )
    (packed_logits, packed_gradients), (padded_logits, padded_gradients) = errors
    assert packed_logits <= 1.5 * padded_logits + 0.004
    assert packed_gradients <= 1.5 * padded_gradients
    assert packed_gradients < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", ["gelu", "gelu_pytorch_tanh"])
@pytest.mark.parametrize("many", [1, 10_000])  # tokens from which on kernels are taken
def test_weights_in_the_order_of_their_products_give_the_same_logits(
    activation: str, dtype: torch.dtype, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_kernels(monkeypatch, many)
    packed_model, padded_model = make_models("classify", hidden_act=activation)
    batch, padded = make_batch({}, {})
    with torch.no_grad():
        exact = padded_model(**padded).logits
        plain = with_loss(packed_model.to(dtype), "classify").eval().outputs(batch)["logits"].float()
        prepack(packed_model)
        found = with_loss(packed_model, "classify").eval().outputs(batch)["logits"].float()
    gains = multiplies_bfloat16() or (dtype == torch.float32 and is_amd())
    assert sum(isinstance(module, PrepackedLinear) for module in packed_model.modules()) == gains * (3 * 3 + 2)
    assert all(bool(layer.attention.self.prepacked) == gains for layer in packed_model.bert.encoder.layer)
    if dtype == torch.float32:
        torch.testing.assert_close(found, exact, atol=1e-5, rtol=1e-4)
    else:
        assert (found - exact).abs().max() <= 1.5 * (plain - exact).abs().max() + 0.004
