"""Instances equal the original's, draw for draw."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import GOLDENS, write_corpus

from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

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


def test_a_table_gives_the_vocabulary_and_the_instances_of_the_same_documents(workspace: Path) -> None:
    corpus = write_corpus(Path("corpus.txt"))
    documents = [document for document in corpus.read_text().split("\n\n") if document.strip()]
    pq.write_table(pa.table({"number": [*map(str, range(len(documents)))], "body": documents}), "corpus.parquet")
    for name in ("corpus.txt", "corpus.parquet"):
        build_vocab(name, vocab_size=120, out=f"vocab-{name}")
        make_pretraining_data(name, tokenizer=f"vocab-{name}", out=f"data-{name}", dupe_factor=2)
    assert Path("vocab-corpus.txt/vocab.txt").read_bytes() == Path("vocab-corpus.parquet/vocab.txt").read_bytes()
    assert rows_of("data-corpus.txt") == rows_of("data-corpus.parquet")


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


def test_text_cut_from_long_pairs_is_counted_and_sentences_keep_more_of_it(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    paragraph = " ".join(f"The {word} went to the market with two others." for word in "abcdefghij")
    Path("a.txt").write_text("\n\n".join([f"{paragraph}\n{paragraph}"] * 4))
    build_vocab("a.txt", vocab_size=120)
    options = {"max_seq_length": 64, "dupe_factor": 1}
    paragraphs = make_pretraining_data("a.txt", **options, out="paragraphs")
    assert "not used: 65% of the text" in said.text
    assert "--split-sentences keeps more" in said.text
    sentences = make_pretraining_data("a.txt", **options, split_sentences=True, out="sentences")
    assert sentences.text_tokens == paragraphs.text_tokens
    assert 0 <= sentences.unused_tokens < paragraphs.unused_tokens / 2
    assert make_pretraining_data("a.txt", **options, next_sentence=False, out="runs").unused_tokens == 0


def test_one_document_is_said_to_be_one_and_blank_lines_only_where_they_end_documents(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("a.txt").write_text("the cat sat\nthe dog ran\n" * 20, encoding="utf-8")
    build_vocab("a.txt", vocab_size=60)
    with caplog.at_level("INFO", logger="bertcli"):
        make_pretraining_data("a.txt", out="one")
        assert "one document: no blank line in the text, so a random" in caplog.text
        make_pretraining_data("a.txt", out="two", blanks_separate_docs=False)
    assert "one document, so a random next sentence" in caplog.text


def test_the_size_on_disk_is_said_before_writing(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    with caplog.at_level("INFO", logger="bertcli"):
        make_pretraining_data(corpus, dry_run=True, dupe_factor=1000)
    megabytes = Path(corpus).stat().st_size * 1000 * 0.45 / 1e6
    assert f"about {megabytes:.0f} MB will be written" in caplog.text
    assert not Path("pretraining-data").exists()
    assert "for more, --max-predictions" not in caplog.text
    with caplog.at_level("INFO", logger="bertcli"):
        make_pretraining_data(corpus, dry_run=True, masked_lm_prob=0.4)
    words = "at most 20 tokens of a row are masked, not 51: for more, --max-predictions-per-seq 51"
    assert words in caplog.text


def test_workers_that_live_on_find_the_folder_of_another_call(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        corpus = str(write_corpus(Path("corpus.txt")))
        build_vocab(corpus, vocab_size=120)
        assert make_pretraining_data(corpus, shards=2, workers=2).instances == len(rows_of("pretraining-data"))
