"""Task files are read as they are distributed."""

import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from bertcli.errors import UserError
from bertcli.lifecycle.sources import find_source


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
    with pytest.raises(UserError, match=r"The zip `.*MRPC.zip` is damaged"):
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
