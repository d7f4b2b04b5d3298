"""DistilBERT runs packed as it runs padded in transformers."""

from pathlib import Path

import pytest
import transformers

from bertcli.errors import UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from tests.families.checks import DISTILBERT, KINDS, check_finetuning, check_gradients, check_outputs

CONFIGS = {"DistilBert": DISTILBERT}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(name, CONFIGS[name], kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(name, CONFIGS[name], tmp_path)


def test_it_is_finetuned_and_predicts(workspace: Path) -> None:
    check_finetuning("DistilBert", CONFIGS["DistilBert"])


def test_its_name_is_no_family_for_new_data_but_a_teacher_makes_one(at_home: Path) -> None:
    for make in (build_vocab, make_pretraining_data):
        with pytest.raises(UserError, match="--family does not take `distilbert`") as refused:
            make("corpus.txt", family="distilbert")
        assert "bert distill --teacher" in refused.value.hint


def test_it_is_pretrained_further_on_masked_words_alone(at_home: Path, tmp_path: Path) -> None:
    student, texts = str(tmp_path / "distilbert"), str(tmp_path / "texts")
    make_pretraining_data("corpus.txt", max_seq_length=32, next_sentence=False, out=texts)
    tokenizer = transformers.AutoTokenizer.from_pretrained(f"{texts}/tokenizer")
    config = transformers.DistilBertConfig(**DISTILBERT | {"vocab_size": len(tokenizer)})
    transformers.DistilBertForMaskedLM(config).save_pretrained(student)
    tokenizer.save_pretrained(student)
    run = pretrain(from_=student, data=texts, steps=30, batch_size=8, learning_rate=1e-2, out=str(tmp_path / "run"))
    assert run.losses[-1] < run.losses[0] - 0.5
    assert transformers.AutoModelForMaskedLM.from_pretrained(run.model).config.model_type == "distilbert"
    assert predict("the [MASK]", model=run.run).records[0]["fills"]
    with pytest.raises(UserError, match="cannot be trained by --objective mlm") as refused:
        pretrain(from_=student, data="pretraining-data", steps=1, out=str(tmp_path / "none"))
    assert "--no-next-sentence" in refused.value.hint
