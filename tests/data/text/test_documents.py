"""Texts are tokenized and cut as the original does; task files are read as they are distributed."""

import gzip
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import GOLDENS

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.text_features import cut_pair, encode_texts
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.lifecycle.sources import find_source
from bertcli.tasks import TASKS, get_task


def test_classification_features_equal_googles(google_tokenizer: WordPiece) -> None:
    cased = load_tokenizer(GOLDENS / "vocab.txt", cased=True)
    with gzip.open(GOLDENS / "classifier" / "features.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if "error" not in row]
    for row in rows:
        pairs = None if row["text_b"] is None else [row["text_b"]]
        tokenizer = google_tokenizer if row["case"] == "uncased" else cased
        features = encode_texts(TextExamples([row["text_a"]], pairs, origin=""), tokenizer, row["max_seq_length"], None)
        ids, types = (
            column.take(np.array([0]))[0].tolist() for column in (features.input_ids, features.token_type_ids)
        )
        padding = [0] * (row["max_seq_length"] - len(ids))
        assert ids + padding == row["input_ids"]
        assert types + padding == row["segment_ids"]


def test_pairs_are_cut_as_googles() -> None:
    for row in json.loads((GOLDENS / "classifier" / "truncate.json").read_text()):
        assert cut_pair(row["a"], row["b"], row["max"]) == (len(row["out_a"]), len(row["out_b"]))


def test_special_tokens_in_text_are_text(google_tokenizer: WordPiece) -> None:
    tokens = google_tokenizer.encode(["a [MASK] and [SEP]"])[0].tokens
    assert tokens == ["a", "[", "mask", "]", "and", "[", "sep", "]"]


def test_words_up_to_200_characters_are_tokenized(google_tokenizer: WordPiece) -> None:
    assert google_tokenizer.encode(["a" * 200])[0].tokens[0] != "[UNK]"
    assert google_tokenizer.encode(["a" * 201])[0].tokens == ["[UNK]"]


@pytest.mark.parametrize("name", ["glue/sst2", "sst2", "SST-2", "SST2", "glue/SST-2"])
def test_task_names_are_forgiving(name: str) -> None:
    assert get_task(name) is TASKS["glue/sst2"]


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        get_task("glue/mlni")
    assert "glue/mnli" in caught.value.hint


def test_quotation_marks_in_glue_files_are_quotation_marks(workspace: Path) -> None:
    folder = workspace / "glue" / "MRPC"
    folder.mkdir(parents=True)
    text = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t1\t2\t"He said\tShe " said\r\n0\t3\t4\tone\ttwo\r\n'
    with lzma.open(folder / "train.tsv.xz", "wt", encoding="utf-8", newline="") as file:
        file.write(text)
    examples = find_source("glue/mrpc", str(workspace)).read("train").examples
    assert examples.texts == ['"He said', "one"]
    assert examples.pairs == ['She " said', "two"]
    assert examples.labels == ["1", "0"]


def test_official_files_are_read_as_they_are_distributed(workspace: Path) -> None:
    rows = "index\tsentence1\tsentence2\tlabel\n0\tThe cat sat.\tIt sat.\tentailment\n"
    with zipfile.ZipFile("RTE.zip", "w") as archive:
        archive.writestr("RTE/train.tsv", rows)
    with zipfile.ZipFile("conll2003.zip", "w") as archive:
        archive.writestr("train.txt", "Rome NNP B-NP B-LOC\n")
    assert find_source("conll2003", ".", {}).read("train").examples.words == [["Rome"]]
    Path("WNLI").mkdir()
    Path("WNLI/train.tsv").write_text(rows.replace("entailment", "1"))
    for name in ("rte", "wnli"):  # an archive, and a folder that does not stand in `glue`
        (text,) = find_source(name, ".", {}).read("train").examples.texts
        assert text == "The cat sat."
    Path("MRPC.zip").write_bytes(Path("RTE.zip").read_bytes()[:60])
    with pytest.raises(UserError, match=r"There is no `glue/MRPC/train.tsv`"):
        find_source("mrpc", ".", {}).read("train")
    for label in ("pos", "neg"):
        for split in ("train", "test"):
            Path("aclImdb", split, label).mkdir(parents=True)
            Path("aclImdb", split, label, "0_9.txt").write_text(f"{split} {label}")
    with tarfile.open("packed", "w:gz") as archive:
        archive.add("aclImdb")
    for where in ("aclImdb", "aclImdb_v1.tar.gz"):
        for split, folder in (("train", "train"), ("dev", "test")):
            read = find_source("imdb", ".", {}).read(split).examples
            assert list(zip(read.texts, read.labels, strict=True)) == [
                (f"{folder} neg", "neg"),
                (f"{folder} pos", "pos"),
            ]
        Path(where).rename("before")
        if where == "aclImdb":
            Path("packed").rename("aclImdb_v1.tar.gz")
            Path("before").rename("elsewhere")
    Path("aclImdb_v1.tar.gz").write_bytes(Path("before").read_bytes()[:200])
    with pytest.raises(UserError, match=r"aclImdb_v1.tar.gz` cannot be read"):
        find_source("imdb", ".", {}).read("train")
    Path("aclImdb_v1.tar.gz").unlink()
    with pytest.raises(UserError, match=r"There is no `imdb/train.csv`"):
        find_source("imdb", ".", {}).read("train")
