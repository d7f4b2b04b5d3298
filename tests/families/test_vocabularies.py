"""A family's vocabulary: its casing, where its words begin, what is no vocabulary of it, and folders as the Hub has them."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import AutoTokenizer

from bertcli.data.text.layout import Layout
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.families import get_family
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.workspace import latest_vocabulary

LINE = 'A handsome, clever man (and rich!) said: "It is mine." She asked – “why?”\n'


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text(LINE * 60 + "\nMr Knightley never smiled at Emma again.\n" * 60)
    return str(tmp_path / "text.txt")


def vocabulary(text: str, family: str) -> str:
    out = Path(text).with_name(family)
    build_vocab([text], family=family, vocab_size=340 if family in ("roberta", "deberta") else 120, out=str(out))
    return str(out)


@pytest.mark.parametrize(("family", "begins"), [("deberta", True), ("deberta-v3", True), ("roberta", False)])
def test_a_mark_is_a_word_of_its_own_where_the_authors_take_it_for_one(text: str, family: str, begins: bool) -> None:
    tokenizer = load_tokenizer(vocabulary(text, family))
    continues = dict(zip(tokenizer.tokens, tokenizer.continues_word, strict=True))
    for mark in ',!)"?':
        assert continues[mark] is not begins
    assert continues["e"]  # a letter inside a word
    assert not any(continues[token] for token in tokenizer.tokens if token[0] in "Ġ▁")


def test_deberta_3_reads_capitals_and_albert_does_not(text: str) -> None:
    assert load_tokenizer(vocabulary(text, "deberta-v3")).cased
    assert not load_tokenizer(vocabulary(text, "albert")).cased
    assert "E" in load_tokenizer(Path(text).with_name("deberta-v3")).vocab


@pytest.mark.parametrize(
    ("made_for", "family", "lacks"),
    [
        ("albert", "xlnet", "<cls>"),
        ("xlnet", "albert", "[CLS]"),
        ("albert", "deberta-v3", "[PAD]"),
        ("roberta", "deberta", "[CLS]"),
        ("deberta", "roberta", "<s>"),
    ],
)
def test_the_vocabulary_of_another_family_is_refused(text: str, made_for: str, family: str, lacks: str) -> None:
    with pytest.raises(UserError, match="is not a vocabulary for") as refused:
        make_pretraining_data([text], family=family, tokenizer=vocabulary(text, made_for), dry_run=True)
    assert lacks in refused.value.message
    assert f"bert build-vocab TEXT --family {family}" in refused.value.hint
    table = Path(text).with_name("few.csv")
    table.write_text("text,label\n" + "a clever man,good\nit is mine,bad\n" * 12)
    with pytest.raises(UserError, match="is not a vocabulary for"):
        finetune(str(table), family=family, from_="scratch", size="tiny", tokenizer=str(Path(text).with_name(made_for)))


def test_of_several_vocabularies_the_latest_of_the_family_is_taken(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, family in enumerate(("xlnet", "bert", "albert")):
        for path in Path(vocabulary(text, family)).iterdir():
            os.utime(path, (number, number))
    found = {name: latest_vocabulary(family=get_family(name)) for name in ("xlnet", "bert", "albert", "electra")}
    assert found == {"xlnet": "xlnet", "bert": "bert", "albert": "albert", "electra": "bert"}


def test_the_second_text_has_the_type_that_the_layout_says() -> None:
    layout = Layout((0,), (2,), (2,))
    assert layout.join([7], [8, 9]) == ([0, 7, 2, 8, 9, 2], [0, 0, 0, 1, 1, 1])
    assert replace(layout, second_type=0).join([7], [8, 9])[1] == [0] * 6


def test_a_folder_with_the_files_of_byte_pairs_alone_opens(text: str, tmp_path: Path) -> None:
    folder = Path(vocabulary(text, "deberta"))
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    hub = tmp_path / "as-on-the-hub"
    hub.mkdir()
    (hub / "vocab.json").write_text(json.dumps(model["vocab"]))
    (hub / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{' '.join(pair)}\n" for pair in model["merges"]))
    shutil.copy(folder / "tokenizer_config.json", hub)
    ids = load_tokenizer(hub).encode_ids([LINE])
    assert ids == load_tokenizer(folder).encode_ids([LINE])
    assert ids == [AutoTokenizer.from_pretrained(hub)(LINE, add_special_tokens=False)["input_ids"]]


@pytest.mark.parametrize(
    ("family", "options", "flag"),
    [
        ("roberta", {"span_mask": True}, "--span-mask"),
        ("roberta", {"max_predictions_per_seq": 5}, "--max-predictions-per-seq"),
        ("deberta", {"ngram_mask": 5}, "--ngram-mask"),
        ("xlnet", {"ngram_mask": 3}, "--ngram-mask"),
        ("deberta-v3", {"span_mask": True}, "--span-mask"),
    ],
)
def test_an_option_that_an_objective_does_not_read_is_refused(
    text: str, family: str, options: dict[str, object], flag: str
) -> None:
    with pytest.raises(UserError, match=f"{flag} has no effect"):
        make_pretraining_data([text], family=family, tokenizer=vocabulary(text, family), dry_run=True, **options)


def test_a_folder_with_the_file_of_sentencepiece_alone_opens(text: str, tmp_path: Path) -> None:
    special = {"pad_piece": "[PAD]", "unk_piece": "[UNK]", "control_symbols": ["[CLS]", "[SEP]"]}
    ids = {"pad_id": 0, "unk_id": 3, "bos_id": -1, "eos_id": -1}
    SentencePieceTrainer.train(
        input=text, model_prefix=str(tmp_path / "spm"), vocab_size=90, hard_vocab_limit=False, **special, **ids
    )
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "vocab_type": "spm"}))
    expected = SentencePieceProcessor(model_file=str(tmp_path / "spm.model")).encode(LINE.strip())
    assert load_tokenizer(tmp_path).encode_ids([LINE.strip()]) == [expected]
