"""Instances equal the original's, draw for draw."""

import gzip
import json
import math
import pickle
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import GOLDENS, write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.masking import KEPT, MaskingRules, draw_masks
from bertcli.data.text.corpus import tokenize
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.objectives.next_sentence import truncate_pair

CASES = sorted(path.name.removesuffix(".meta.json") for path in (GOLDENS / "pretraining").glob("*.meta.json"))


def rows_of(folder: str | Path) -> list[dict]:
    return [row for path in sorted(Path(folder).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("case", CASES)
def test_static_instances_equal_googles_row_for_row(case: str, workspace: Path, google_tokenizer: WordPiece) -> None:
    made_with = json.loads((GOLDENS / "pretraining" / f"{case}.meta.json").read_text())
    with gzip.open(GOLDENS / "pretraining" / f"{case}.jsonl.gz", "rt", encoding="utf-8") as file:
        golden = [json.loads(line) for line in file]
    make_pretraining_data(
        [str(GOLDENS / "pretraining" / name) for name in made_with["input_files"]],
        tokenizer=str(GOLDENS / "vocab.txt"),
        cased=not made_with["do_lower_case"],
        max_seq_length=made_with["max_seq_length"],
        max_predictions_per_seq=made_with["max_predictions_per_seq"],
        masked_lm_prob=made_with["masked_lm_prob"],
        seed=made_with["random_seed"],
        dupe_factor=made_with["dupe_factor"],
        short_seq_prob=made_with["short_seq_prob"],
        whole_word_mask=made_with["do_whole_word_mask"],
        shards=1,
        out="data",
    )
    vocab = google_tokenizer.vocab
    assert rows_of("data") == [
        {
            "input_ids": [vocab[token] for token in row["tokens"]],
            "token_type_ids": row["segment_ids"],
            "next_sentence_label": int(row["is_random_next"]),
            "masked_lm_positions": row["masked_lm_positions"],
            "masked_lm_ids": [vocab[token] for token in row["masked_lm_labels"]],
        }
        for row in golden
    ]
    manifest = json.loads(Path("data/manifest.json").read_text())
    assert manifest["shards"][0]["rng_random_after"] == made_with["rng_random_after"]


@given(st.integers(0, 2**40), st.lists(st.integers(1, 3000), min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_draws_are_those_of_pythons_random(seed: int, limits: list[int]) -> None:
    ours, pythons = Draws(seed), random.Random(seed)
    for limit in limits:
        assert ours.random() == pythons.random()
        assert ours.randint(1, limit) == pythons.randint(1, limit)
        mine, theirs = list(range(limit)), list(range(limit))
        ours.shuffle(mine)
        pythons.shuffle(theirs)
        assert mine == theirs
        assert list(ours.coins(limit)) == [pythons.random() < 0.5 for _ in range(limit)]


def original_truncation(left: list, right: list, longest: int, draw: random.Random) -> None:
    while len(left) + len(right) > longest:
        longer = left if len(left) > len(right) else right
        if draw.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(0, 60), st.integers(1, 80))
@settings(max_examples=300, deadline=None)
def test_truncation_at_once_equals_truncation_token_by_token(seed: int, a: int, b: int, longest: int) -> None:
    left, right = list(range(a)), list(range(b))
    ours, pythons = Draws(seed), random.Random(seed)
    first, second = truncate_pair((0, a), (0, b), longest, ours)
    original_truncation(left, right, longest, pythons)
    assert (list(range(*first)), list(range(*second))) == (left, right)
    assert ours.random() == pythons.random()


def mask_tokens(ids: list[int], rules: MaskingRules, draws: Draws) -> tuple[list[int], list[int]]:
    """Mask one instance in place: the positions, ascending, and the ids that stood there."""
    places, replacements = draw_masks(len(ids), ids.index(rules.sep_id) + 1, ids, rules, draws)
    drawn = dict(sorted(zip(places, replacements, strict=True)))
    originals = [ids[place] for place in drawn]
    for place, replacement in drawn.items():
        ids[place] = ids[place] if replacement == KEPT else replacement
    return list(drawn), originals


def units(name: str) -> list[dict]:
    return json.loads((GOLDENS / "pretraining" / "units.json").read_text())[name]


def test_masks_equal_googles_on_single_instances(google_tokenizer: WordPiece) -> None:
    vocab, tokens = google_tokenizer.vocab, google_tokenizer.tokens
    for unit in units("masking"):
        rules = MaskingRules.of(google_tokenizer, unit["masked_lm_prob"], unit["max_predictions_per_seq"], unit["wwm"])
        ids, draws = [vocab[token] for token in unit["tokens"]], Draws(unit["seed"])
        positions, originals = mask_tokens(ids, rules, draws)
        assert [tokens[token] for token in ids] == unit["out_tokens"]
        assert positions == unit["positions"]
        assert [tokens[token] for token in originals] == unit["labels"]
        assert draws.random() == unit["rng_after"]


def test_truncation_equals_googles() -> None:
    for unit in units("truncate"):
        left, right = [f"a{i}" for i in range(unit["a"])], [f"b{i}" for i in range(unit["b"])]
        draws = Draws(unit["seed"])
        first, second = truncate_pair((0, len(left)), (0, len(right)), unit["max_num_tokens"], draws)
        assert (left[slice(*first)], right[slice(*second)]) == (unit["out_a"], unit["out_b"])
        assert draws.random() == unit["rng_after"]


def test_more_workers_give_the_same_shards(workspace: Path) -> None:
    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    one = make_pretraining_data(corpus, shards=3, workers=1, out="one")
    two = make_pretraining_data(corpus, shards=3, workers=2, out="two")
    assert rows_of("one") == rows_of("two")
    assert one.instances == two.instances == len(rows_of("one"))


def test_an_interrupted_making_goes_on_with_its_finished_shards(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bertcli.data.pretraining.writing as module

    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    make_pretraining_data(corpus, shards=3, workers=1, out="whole")
    made: list[int] = []
    make_shard = module.make_shard

    def fails_at_the_second(*job):
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(job[-1])
        return make_shard(*job)

    monkeypatch.setattr(module, "make_shard", fails_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        make_pretraining_data(corpus, shards=3, workers=1, out="data")
    assert not Path("data").exists()
    remade: list[int] = []
    monkeypatch.setattr(module, "make_shard", lambda *job: remade.append(job[-1]) or make_shard(*job))
    make_pretraining_data(corpus, shards=3, workers=1, out="data")
    assert made == [0]
    assert remade == [1, 2]
    assert rows_of("data") == rows_of("whole")


def test_the_same_request_is_not_made_twice_and_another_is_refused(workspace: Path) -> None:
    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    make_pretraining_data(corpus, out="data")
    before = Path("data/manifest.json").stat().st_mtime_ns
    make_pretraining_data(corpus, out="data")
    assert Path("data/manifest.json").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="other text, vocabulary or options"):
        make_pretraining_data(corpus, out="data", dupe_factor=2)
    make_pretraining_data(corpus, out="data", dupe_factor=2, overwrite=True)
    assert json.loads(Path("data/manifest.json").read_text())["options"]["dupe_factor"] == 2


def test_without_next_sentence_rows_are_runs_of_text(workspace: Path) -> None:
    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    made = make_pretraining_data(corpus, next_sentence=False, masking="dynamic", max_seq_length=32)
    rows = rows_of("pretraining-data")
    assert made.random_next == 0
    assert "masked_lm_ids" not in rows[0]
    assert max(len(row["input_ids"]) for row in rows) <= 32
    assert all(set(row["token_type_ids"]) == {0} for row in rows)


def test_the_size_on_disk_is_said_before_writing(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    with caplog.at_level("INFO", logger="bertcli"):
        make_pretraining_data(corpus, dry_run=True, dupe_factor=1000)
    megabytes = Path(corpus).stat().st_size * 1000 * 0.45 / 1e6
    assert f"about {megabytes:.0f} MB will be written" in caplog.text
    assert not Path("pretraining-data").exists()


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_the_manifest_has_the_entropy_of_token_frequencies(workspace: Path, masking: str) -> None:
    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    make_pretraining_data(corpus, masking=masking, shards=2)
    column = "masked_lm_ids" if masking == "static" else "input_ids"
    special = set() if masking == "static" else {2, 3}  # [CLS] and [SEP] are never masked
    seen = Counter(token for row in rows_of("pretraining-data") for token in row[column] if token not in special)
    expected = -sum(count / seen.total() * math.log(count / seen.total()) for count in seen.values())
    made = json.loads(Path("pretraining-data/manifest.json").read_text())
    assert made["token_entropy"] == pytest.approx(expected, abs=1e-3)


def test_whole_words_are_masked_together(google_tokenizer: WordPiece) -> None:
    ids = google_tokenizer.encode_ids(["unaffable embeddings tokenization preposterously"])[0]
    rules = MaskingRules.of(google_tokenizer, 0.4, 20, True)
    for seed in range(30):
        row = [rules.cls_id, *ids, rules.sep_id]
        positions, originals = mask_tokens(list(row), rules, Draws(seed))
        assert originals == [row[position] for position in positions]
        for position in positions:
            if position + 1 < len(row) and rules.is_continuation[row[position + 1]]:
                assert position + 1 in positions


@given(
    st.lists(
        st.text(
            st.one_of(st.sampled_from("aZé .,'’—\t\u0301\u00a0Σς中[]MASK#"), st.characters(codec="utf-8")), max_size=40
        )
    ),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_a_corpus_is_tokenized_as_its_lines_are(lines: list[str], cased: bool) -> None:
    tokenizer = WordPiece(load_tokenizer(GOLDENS / "vocab.txt").vocab, cased, "")
    corpus = tokenize([lines, lines[:1]], tokenizer)
    segments = [ids for ids in tokenizer.encode_ids([*lines, *lines[:1]]) if ids]
    assert [corpus.tokens[start:end].tolist() for start, end in pairwise(corpus.bounds)] == segments
    assert all(first < last for first, last in corpus.documents)


def test_workers_that_live_on_find_the_folder_of_another_call(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        corpus = str(write_corpus(Path("corpus.txt")))
        build_vocab(corpus, vocab_size=120)
        assert make_pretraining_data(corpus, shards=2, workers=2).instances == len(rows_of("pretraining-data"))


def test_a_wrong_request_keeps_its_words_on_the_way_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(UserError("what", "hint")))
    assert (error.message, error.hint) == ("what", "hint")
