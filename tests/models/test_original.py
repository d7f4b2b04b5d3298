"""The model is the original's: outputs, losses and gradients of TensorFlow, and its checkpoints."""

import json

import numpy as np
import pytest
import torch
from conftest import GOLDENS
from transformers import BertConfig, BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.models.encoder import encode
from bertcli.models.formats.tensorflow_names import to_parameters
from bertcli.models.loading import with_trained_padding
from bertcli.models.packed import PACKED
from tests.support import HEADS, with_loss

CLASSES = {
    "pretraining": BertForPreTraining,
    "classifier": BertForSequenceClassification,
    "squad": BertForQuestionAnswering,
}
KINDS = {"pretraining": "pretrain", "classifier": "classify", "squad": "span"}


def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDENS / "model" / f"{name}.npz"))


def model_of(name: str, values: dict[str, np.ndarray]) -> torch.nn.Module:
    config = json.loads((GOLDENS / "model" / "bert_config.json").read_text())
    config |= {"hidden_act": "gelu_pytorch_tanh", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    labels = {"num_labels": 3} if name == "classifier" else {}
    model = CLASSES[name](BertConfig(**config, **labels, attn_implementation=PACKED)).eval()
    weights = to_parameters({key.removeprefix("w/"): value for key, value in values.items() if key.startswith("w/")})
    state = {key: torch.from_numpy(np.array(value)) for key, value in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert {key.split(".")[-2] for key in missing} <= {"decoder", "embeddings"}, missing  # tied, and a buffer
    assert set(unexpected) <= {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}, (
        unexpected
    )  # SQuAD reads no pooler
    return with_trained_padding(model)


def batch_of(name: str, values: dict[str, np.ndarray]) -> PackedBatch:
    lengths = values["in/input_mask"].sum(1)
    assert (np.diff(lengths) <= 0).all()
    real = values["in/input_mask"].astype(bool)
    packed = pack(values["in/input_ids"][real], values["in/segment_ids"][real], lengths, np.arange(len(lengths)))
    weights = values["in/masked_lm_weights"].astype(bool)
    # A masked position beyond a sequence's end (the golden's last rows have such) reads padding, which we do not have.
    starts = (np.cumsum(lengths) - lengths)[:, None]
    labels = {
        "pretraining": {
            "masked_lm_positions": torch.from_numpy((values["in/masked_lm_positions"] + starts)[weights]),
            "masked_lm_ids": torch.from_numpy(values["in/masked_lm_ids"][weights]),
            "next_sentence_labels": torch.from_numpy(values["in/next_sentence_labels"][:, 0]),
        },
        "classifier": {"labels": torch.from_numpy(values["in/label_ids"])},
        "squad": {},
    }[name]
    counts = {"masked_lm": int(weights.sum()), "next_sentence": len(lengths), "loss": len(lengths)}
    return PackedBatch(**{**packed.__dict__, "labels": labels, "counts": counts})


@pytest.mark.parametrize("name", ["pretraining", "classifier"])
def test_losses_and_every_gradient_equal_tensorflows(name: str) -> None:
    values = golden(name)
    model, batch = model_of(name, values), batch_of(name, values)
    sums = with_loss(model, KINDS[name])(batch)
    # The original divides the masked-LM loss by the number of masks + 1e-5.
    loss = sum(sums[key] / (batch.counts[key] + (1e-5 if key == "masked_lm" else 0)) for key in sums)
    expected = values["out/total_loss" if name == "pretraining" else "out/loss"]
    assert loss.item() == pytest.approx(float(expected), abs=1e-5)
    loss.backward()
    gradients = to_parameters({k.removeprefix("grad/"): v for k, v in values.items() if k.startswith("grad/")})
    compared = 0
    for key, parameter in model.named_parameters():
        if key in gradients and parameter.grad is not None:
            np.testing.assert_allclose(parameter.grad.numpy(), gradients[key], atol=1e-5, rtol=1e-4, err_msg=key)
            compared += 1
    assert compared >= 50


def test_encoder_outputs_equal_tensorflows_at_every_real_token() -> None:
    values = golden("pretraining")
    hidden = encode(model_of("pretraining", values), batch_of("pretraining", values)).detach().numpy()
    real = values["in/input_mask"].astype(bool)
    np.testing.assert_allclose(hidden, values["out/sequence_output"][real], atol=1e-5)


def test_classifier_logits_equal_tensorflows() -> None:
    values = golden("classifier")
    outputs = HEADS["classify"][0](model_of("classifier", values), batch_of("classifier", values))
    np.testing.assert_allclose(outputs["logits"].detach().numpy(), values["out/logits"], atol=1e-5)


def test_span_logits_equal_tensorflows_at_every_real_token() -> None:
    values = golden("squad")
    outputs = HEADS["span"][0](model_of("squad", values), batch_of("squad", values))
    real = values["in/input_mask"].astype(bool)
    for side in ("start", "end"):
        np.testing.assert_allclose(outputs[side].detach().numpy()[real], values[f"out/{side}_logits"][real], atol=1e-5)


def test_span_loss_and_every_gradient_equal_tensorflows_where_padding_counts_too() -> None:
    """The original's softmax runs over padding as well; on a padded batch our loss is its loss."""
    values = golden("squad")
    model = model_of("squad", values)
    model.set_attn_implementation("eager")
    inputs = {
        "input_ids": values["in/input_ids"],
        "attention_mask": values["in/input_mask"],
        "token_type_ids": values["in/segment_ids"],
    }
    outputs = model(**{key: torch.from_numpy(value) for key, value in inputs.items()})
    labels = {f"{side}_positions": torch.from_numpy(values[f"in/{side}_positions"]) for side in ("start", "end")}
    batch = PackedBatch(**{**batch_of("squad", values).__dict__, "labels": labels})
    loss = HEADS["span"][1]({"start": outputs.start_logits, "end": outputs.end_logits}, batch)["loss"] / 4
    assert loss.item() == pytest.approx(float(values["out/total_loss"]), abs=1e-5)
    loss.backward()
    gradients = to_parameters({k.removeprefix("grad/"): v for k, v in values.items() if k.startswith("grad/")})
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            np.testing.assert_allclose(parameter.grad.numpy(), gradients[key], atol=1e-5, rtol=1e-4, err_msg=key)
