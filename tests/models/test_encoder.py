"""The encoder and the head of any model are run over packed batches."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from bertcli.errors import UserError
from bertcli.models.encoder import NO_END, encode, encode_layers, longest_input
from tests.families.checks import DISTILBERT, KINDS, SIZES, make_batch, objective_of, save

BART = {
    "vocab_size": 50,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
CONFIGS = {
    "Bart": BART,
    "ConvBert": {**SIZES, "embedding_size": 16},
    "DistilBert": DISTILBERT,
    "FNet": SIZES,
    "MobileBert": {**SIZES, "intra_bottleneck_size": 32, "embedding_size": 16},
}


@pytest.mark.parametrize("name", ["DistilBert", "ConvBert"])
def test_every_hidden_state_of_every_token_is_returned(name: str, tmp_path: Path) -> None:
    theirs = save(name, CONFIGS[name], KINDS["classify"], tmp_path)
    ours = objective_of("classify", tmp_path).model
    batch, padded = make_batch({}, name == "ConvBert")
    with torch.no_grad():
        states = encode_layers(ours, batch)
        wanted = theirs.base_model(**padded, output_hidden_states=True).hidden_states
        last = encode(ours, batch, batch.first_tokens)
    is_token = padded["attention_mask"].bool()
    for state, expected in zip(states, wanted, strict=True):
        torch.testing.assert_close(state, expected[is_token], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(last, wanted[-1][:, 0], atol=1e-5, rtol=1e-4)


def test_a_model_takes_as_many_tokens_as_it_has_positions_for() -> None:
    found = {}
    for name in ("Bert", "Roberta", "MPNet", "Longformer", "IBert", "Luke", "Esm"):
        config = getattr(transformers, f"{name}Config")(**{**SIZES, "pad_token_id": 1})
        found[name] = longest_input(transformers.AutoModel.from_config(config))
    assert found == {**dict.fromkeys(found, 30), "Bert": 32}
    endless = transformers.XLNetConfig(vocab_size=50, d_model=32, n_layer=1, n_head=4, d_inner=64)
    assert longest_input(transformers.AutoModel.from_config(endless)) == NO_END


@pytest.mark.parametrize(("name", "head"), [("MobileBert", "PreTraining"), ("Bart", "QuestionAnswering")])
def test_of_the_outputs_of_a_padded_model_the_logits_of_tokens_are_taken(name: str, head: str, tmp_path: Path) -> None:
    theirs = save(name, CONFIGS[name], head, tmp_path)
    batch, padded = make_batch({"masked_lm_positions": torch.arange(17)}, has_types=False)
    batch = replace(batch, token_type_ids=torch.zeros_like(batch.token_type_ids))
    kind, output, theirs_is = (
        ("fill", "masked_lm", "prediction_logits") if head == "PreTraining" else ("span", "start", "start_logits")
    )
    outputs = objective_of("", tmp_path, head=kind).outputs(batch)[output]
    with torch.no_grad():
        wanted = theirs(**padded)[theirs_is][0]
    torch.testing.assert_close(outputs if kind == "fill" else outputs[0], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["Bart", "Funnel"])
def test_layers_without_a_hidden_state_of_each_token_are_refused(name: str) -> None:
    sizes = {"vocab_size": 50, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1]}
    config = getattr(transformers, f"{name}Config")(**{"Bart": BART, "Funnel": sizes}[name])
    with pytest.raises(UserError, match=f"Not every layer of this {name.lower()}"):
        encode_layers(getattr(transformers, f"{name}Model")(config).eval(), make_batch({}, has_types=False)[0])


@pytest.mark.parametrize("name", ["ConvBert", "MobileBert", "FNet"])
def test_a_padded_model_gets_its_own_padding_which_learns_nothing(name: str, tmp_path: Path) -> None:
    theirs = save(name, {**CONFIGS[name], "pad_token_id": 3}, KINDS["classify"], tmp_path)
    objective = objective_of("classify", tmp_path)
    batch, padded = make_batch({"labels": torch.zeros(5, dtype=torch.long)}, has_types=True)
    padded["input_ids"] = padded["input_ids"].masked_fill(padded["attention_mask"] == 0, 3)
    wanted = theirs(**padded).logits.detach()
    torch.testing.assert_close(objective.outputs(batch)["logits"], wanted, atol=1e-5, rtol=1e-4)
    objective(batch)["loss"].backward()
    assert (objective.model.get_input_embeddings().weight.grad[3] == 0).all()
