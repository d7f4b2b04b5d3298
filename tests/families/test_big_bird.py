"""BigBird runs padded; its pooler is not what BERT's pre-training reads."""

from pathlib import Path

import pytest

from bertcli.families.big_bird import BIG_BIRD
from bertcli.families.other import OTHER
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from tests.families.checks import SIZES, check_outputs, save

CONFIG = {**SIZES, "block_size": 4}


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_outputs_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    check_outputs("BigBird", CONFIG, kind, tmp_path, packed=False)


def test_it_cannot_be_pretrained_though_it_has_the_heads(tmp_path: Path) -> None:
    model = save("BigBird", CONFIG, "PreTraining", tmp_path)
    assert OTHER.can_pretrain(model)
    assert not BIG_BIRD.can_pretrain(model)


@pytest.mark.several_processes
@pytest.mark.torture
def test_two_processes_train_a_model_that_does_not_use_all_its_weights(workspace: Path) -> None:
    Path("words.txt").write_text("the king rode out\nthe ship sank\n" * 50)
    build_vocab("words.txt", vocab_size=40, out="start")
    save("BigBird", CONFIG, "MaskedLM", Path("start"))
    Path("nouns.tsv").write_text("text\tlabel\n" + "the king rode out\tking\nthe ship sank\tship\n" * 10)
    run = finetune("nouns.tsv", from_="start", epochs=2, batch_size=8, max_seq_length=30, processes=2)
    assert run.steps == 4
