"""Tags of words, from their files to entities."""

import logging
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForTokenClassification, AutoTokenizer

from bertcli.data.labelled.conll import read_conll
from bertcli.data.labelled.examples import Sentences
from bertcli.data.packing.tag_features import encode_sentences
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.sources import find_source
from bertcli.tasks import TASKS
from tests.kinds.conftest import write_conll

CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER


"""


def test_conll_files_are_read_by_sentences(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.xz"
    with lzma.open(path, "wt", encoding="utf-8", newline="") as file:
        file.write("\ufeff" + CONLL.replace("\n", "\r\n"))
    sentences = read_conll(path)
    assert sentences.words == [["EU", "rejects"], ["Peter", "Blackburn"]]
    assert sentences.tags == [["B-ORG", "O"], ["B-PER", "I-PER"]]
    tabs = tmp_path / "tabs.conll"
    tabs.write_text("New York\tI-LOC\nis\tO\n\nbig\tS-X", encoding="utf-8")
    assert read_conll(tabs).words == [["New York", "is"], ["big"]]
    assert read_conll(tabs).tags == [["I-LOC", "O"], ["S-X"]]


def test_comments_before_sentences_are_left_out_counted_and_a_hash_that_is_a_word_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "own.conll"
    caplog.set_level(logging.INFO, logger="bertcli")
    path.write_text("# sent_id = 1\n# text = We won\nWe PRON O\n# SYM O\n\n#\thttp://example.org\n# SYM O\n1 NUM B-N\n")
    sentences = read_conll(path)
    assert sentences.words == [["We", "#"], ["#", "1"]]
    assert sentences.tags == [["O", "O"], ["O", "B-N"]]
    assert f"{path}: 3 comments left out" in caplog.messages
    path.write_text("# O\nten O\n")
    assert read_conll(path).words == [["#", "ten"]]
    path.write_text("ten O\n# a comment inside\n")
    with pytest.raises(UserError, match="line 2 has 4 columns, not 2"):
        read_conll(path)


@pytest.mark.parametrize(
    ("text", "message"), [("a O\nb\n", "line 2 has 1 column, not 2"), ("a\n", "line 1 has 1"), ("\n", "no sentences")]
)
def test_a_broken_conll_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(UserError, match=message):
        read_conll(tmp_path / "a.txt")


def test_conll2003_has_its_official_counts(shared: Path) -> None:
    source = find_source("CoNLL-2003", str(shared / "data"), {})
    counts = [len(source.read(split)) for split in ("train", "dev", "test")]
    assert counts == [14041, 3250, 3453]


def test_a_tag_that_the_task_has_not_is_an_error(google_tokenizer: WordPiece) -> None:
    with pytest.raises(UserError, match="`x` sentence 2: the sentence has the tag `S-PER`"):
        encode_sentences(
            Sentences([["a"], ["b"]], [["O"], ["S-PER"]], origin="x"), google_tokenizer, WindowRules(16, 128, 0), ("O",)
        )


@given(
    sentences=st.lists(
        st.lists(st.sampled_from(["the", "unbelievably", "xyzzyx", "\u200b", "U.S.", "a"]), max_size=40), max_size=5
    ),
    max_seq_length=st.integers(5, 40),
    doc_stride=st.integers(1, 40),
)
@settings(max_examples=60)
def test_every_word_is_read_once_off_its_first_piece(
    google_tokenizer: WordPiece, sentences: list[list[str]], max_seq_length: int, doc_stride: int
) -> None:
    given_tags = [[f"T{len(word)}" for word in sentence] for sentence in sentences]
    labels = tuple(f"T{length}" for length in range(13))
    features = encode_sentences(
        Sentences(sentences, given_tags, origin=""),
        google_tokenizer,
        WindowRules(max_seq_length, doc_stride, 0),
        labels,
    )
    firsts = [
        (google_tokenizer.encode_ids([word])[0] or [google_tokenizer.special("unk")])[0]
        for s in sentences
        for word in s
    ]
    read, tags = [], []
    for window in range(len(features.lengths)):
        ids, _ = features.input_ids.take(np.array([window]))
        assert len(ids) <= max_seq_length
        places, _ = features.places.take(np.array([window]))
        assert len(places)
        read += ids[places].tolist()
        tags += features.tags.take(np.array([window]))[0].tolist()
    assert read == firsts
    assert tags == [len(word) for sentence in sentences for word in sentence]


def test_a_word_is_read_where_most_stands_around_it(google_tokenizer: WordPiece) -> None:
    sentence = Sentences([["the"] * 10], origin="")
    features = encode_sentences(
        sentence, google_tokenizer, WindowRules(8, 128, 0), ()
    )  # 6 words a window, 3 further on
    assert [features.places.take(np.array([window]))[0].tolist() for window in range(3)] == [
        [1, 2, 3, 4, 5],
        [3, 4, 5],
        [3, 4],
    ]


def test_a_tagger_is_found_and_scored_on_entities(
    home: Path, conll_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    scored = evaluate("conll2003")
    assert scored.metrics.keys() == {"f1", "precision", "recall"}
    assert scored.paper == {"base f1": 96.4, "large f1": 96.6}
    with monkeypatch.context() as patch:
        patch.setattr("bertcli.data.text.tables.CHARACTERS_AT_ONCE", 1000)  # about three sentences
        assert evaluate("conll2003") == scored
    assert (
        evaluate("conll2003", predictions=str(conll_run / "predictions.jsonl"), data_dir="official").metrics
        == scored.metrics
    )
    assert evaluate("conll2003", predictions="official/conll2003/eng.testa", data_dir="official").metrics["f1"] == 100
    write_conll(tmp_path / "short.txt", 3, 2)
    with pytest.raises(UserError, match="3 predictions"):
        evaluate("conll2003", predictions=str(tmp_path / "short.txt"), data_dir="official")


def test_entities_of_a_text_stand_at_their_characters(conll_run: Path, tmp_path: Path) -> None:
    text = "  The cat, the Cat! sat near the green  garden while the old dog ran slowly on under the tree."
    entities = predict(text, model=str(conll_run)).records[0]["entities"]
    assert all(entity["text"] == text[entity["start"] : entity["end"]] for entity in entities)
    assert {"text": "green  garden", "label": "LOC", "start": 33, "end": 46} in [
        {key: value for key, value in entity.items() if key != "score"} for entity in entities
    ]
    (tmp_path / "in.txt").write_text(f"{text}\n\nthe tree\n", encoding="utf-8")
    records = predict(file=str(tmp_path / "in.txt"), model=str(conll_run)).records
    assert [[entity["text"] for entity in record["entities"]] for record in records] == [
        ["cat", "Cat", "green  garden"],
        [],
        [],
    ]


@pytest.mark.usefixtures("float32")
def test_a_tagger_opens_in_plain_transformers_with_its_tags_and_the_same_logits(conll_run: Path) -> None:
    model, info = AutoModelForTokenClassification.from_pretrained(conll_run / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.config.id2label == dict(enumerate(TASKS["conll2003"].labels))
    inputs = AutoTokenizer.from_pretrained(conll_run / "model")("cat", return_tensors="pt")
    shares = torch.softmax(model.eval()(**inputs).logits[0, 1].detach(), -1)
    entity = predict("cat", model=str(conll_run)).records[0]["entities"][0]
    assert entity["score"] == pytest.approx(float(shares.max()), abs=1e-5)
