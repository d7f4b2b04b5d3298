"""SQuAD features and answers equal the original's in every field."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import GOLDENS

from bertcli.data.labelled.squad import SpanExample, read_squad, span_examples
from bertcli.data.packing.span_answers import AnswerRules, TextFinder, choose_answers
from bertcli.data.packing.span_features import encode_spans
from bertcli.data.packing.windows import WindowRules, max_context_windows, window_spans
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError

SQUAD = GOLDENS / "squad"


def lines_of(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def golden(path: Path) -> dict:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def examples(version: str, training: bool) -> list[SpanExample]:
    return span_examples(read_squad(SQUAD / f"data_{version}.json"), training, version == "v2")


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("use", ["train", "predict"])
def test_examples_equal_googles(version: str, use: str) -> None:
    made = examples(version, use == "train")
    expected = lines_of(SQUAD / f"examples_{version}_{use}.jsonl.gz")
    assert [example.id for example in made] == [row["qas_id"] for row in expected]
    for example, row in zip(made, expected, strict=True):
        assert example.question == row["question_text"]
        assert len(example.words) == row["n_doc_tokens"]
        if use == "train":
            answer = (example.start_word, example.end_word, example.is_impossible)
            assert answer == (row["start_position"], row["end_position"], row["is_impossible"])


@pytest.mark.parametrize("path", sorted(SQUAD.glob("features_*")), ids=lambda path: path.name)
def test_features_equal_googles_in_every_field(path: Path, google_tokenizer: WordPiece) -> None:
    version, use, *numbers = re.match(r"features_uncased_(v\d)_(\w+)_(\d+)_(\d+)_(\d+)", path.name).groups()
    rules = WindowRules(*(int(number) for number in numbers))
    windows = encode_spans(examples(version, use == "train"), google_tokenizer, rules, use == "train").windows
    expected = lines_of(path)
    assert len(windows) == len(expected)
    for window, row in zip(windows, expected, strict=True):
        assert window.tokens == row["tokens"]
        assert window.input_ids == row["input_ids"]
        assert window.offset == row["doc_offset"]
        assert window.words == row["token_to_orig"]
        assert "".join("01"[is_best] for is_best in window.is_max_context) == row["token_is_max_context"]
        if use == "train":
            assert (window.start_position, window.end_position) == (row["start_position"], row["end_position"])


@pytest.mark.parametrize("path", sorted(SQUAD.glob("pred_*.predictions.json.gz")), ids=lambda path: path.name)
def test_answers_equal_googles(path: Path, google_tokenizer: WordPiece) -> None:
    pattern = r"pred_(v\d)_(\d+)_(\d+)_(\w+)_n(\d+)_a(\d+)_t(0|m2)"
    version, length, stride, style, n_best, longest, threshold = re.match(pattern, path.name).groups()
    asked = examples(version, False)
    windows = encode_spans(asked, google_tokenizer, WindowRules(int(length), int(stride), 64), False).windows
    logits = np.load(SQUAD / f"logits_{version}_{length}_{stride}_{style}.npz")
    rules = AnswerRules(int(n_best), int(longest), -2.0 if threshold == "m2" else 0.0, version == "v2")
    answers = choose_answers(
        asked, windows, list(zip(logits["start"], logits["end"], strict=True)), google_tokenizer, rules
    )
    stem = str(path).removesuffix(".predictions.json.gz")
    expected, expected_n_best = golden(path), golden(Path(f"{stem}.nbest.json.gz"))
    crashed = golden(Path(f"{stem}.crashed_ids.json.gz")) if version == "v2" else []
    odds = golden(Path(f"{stem}.null_odds.json.gz")) if version == "v2" else {}
    for answer in answers:
        if answer.id in crashed:  # the original has no answer; ours is empty, and counted
            assert (answer.text, answer.had_candidate) == ("", False)
            continue
        assert answer.text == expected[answer.id]
        ours = [(c.text, c.start_logit, c.end_logit) for c in answer.n_best]
        assert ours == [(c["text"], c["start_logit"], c["end_logit"]) for c in expected_n_best[answer.id]]
        shares = [c["probability"] for c in expected_n_best[answer.id]]
        assert [c.probability for c in answer.n_best] == pytest.approx(shares, abs=1e-12)
        if version == "v2":
            assert answer.null_odds == pytest.approx(odds[answer.id], abs=1e-9)


def test_answers_are_projected_onto_the_original_text_as_googles() -> None:
    finders = {lower: TextFinder(load_tokenizer(GOLDENS / "vocab.txt", cased=not lower)) for lower in (True, False)}
    for row in json.loads((SQUAD / "get_final_text.json").read_text()):
        assert finders[row["do_lower_case"]].final_text(row["pred_text"], row["orig_text"]) == row["out"]


def test_windows_step_by_doc_stride_and_share_their_tokens_as_googles() -> None:
    for row in json.loads((SQUAD / "max_context.json").read_text()):
        spans = window_spans(row["n"], row["max_tokens"], row["stride"])
        assert [list(span) for span in spans] == row["spans"]
        assert max_context_windows(row["n"], spans) == row["best"]


def test_a_question_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(UserError, match="leaves no room"):
        WindowRules(max_seq_length=67, max_query_length=64)
