"""RoBERTa and its kin run packed as they run padded in transformers, and read byte pairs."""

from pathlib import Path

import pytest
import torch
from conftest import write_corpus
from transformers import AutoTokenizer

from bertcli import build_vocab
from bertcli.data.packing.text_features import encode_masks
from bertcli.data.text.tokenization import load_tokenizer
from tests.data.text.tokenizers import save_bytes
from tests.families.checks import (
    KINDS,
    SIZES,
    check_gradients,
    check_outputs,
    check_own_tokenizer,
    make_batch,
    objective_of,
    save,
)

CONFIGS = {
    "Roberta": {**SIZES, "type_vocab_size": 1, "pad_token_id": 1},
    "XLMRoberta": {**SIZES, "type_vocab_size": 1},
    "RobertaPreLayerNorm": {**SIZES, "type_vocab_size": 1},
    "XLMRobertaXL": {**SIZES, "type_vocab_size": 1},
    "Data2VecText": {**SIZES, "type_vocab_size": 1},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(name, CONFIGS[name], kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(name, CONFIGS[name], tmp_path)


def test_it_is_used_with_its_own_tokenizer(workspace: Path) -> None:
    save_bytes(Path("start"))
    check_own_tokenizer("Roberta", CONFIGS["Roberta"])


def test_a_head_that_fills_has_a_loss(tmp_path: Path) -> None:
    save("Roberta", CONFIGS["Roberta"], "MaskedLM", tmp_path)
    places, ids = torch.tensor([1, 4, 20]), torch.tensor([7, 9, 11])
    batch, _ = make_batch({"masked_lm_positions": places, "masked_lm_ids": ids}, has_types=False)
    objective = objective_of("", tmp_path, head="fill")
    wanted = torch.nn.functional.cross_entropy(objective.outputs(batch)["masked_lm"], ids, reduction="sum")
    torch.testing.assert_close(objective(batch)["masked_lm"].detach(), wanted)


@pytest.mark.parametrize("text", ["The [MASK] of a city.", "[MASK] is un[MASK]ed", "a  [MASK]", "[MASK]"])
def test_a_mask_takes_the_space_before_it_as_in_transformers(text: str, workspace: Path) -> None:
    write_corpus(workspace / "corpus.txt")
    vocabulary = build_vocab("corpus.txt", family="roberta", vocab_size=300).out
    ids, places = encode_masks(text, load_tokenizer(vocabulary))
    theirs = AutoTokenizer.from_pretrained(vocabulary)
    assert ids == theirs(text.replace("[MASK]", theirs.mask_token))["input_ids"]
    assert [ids[place] for place in places] == [theirs.mask_token_id] * text.count("[MASK]")
