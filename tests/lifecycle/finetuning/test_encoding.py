"""The user's own texts are read as long as the longest of them, within 512 tokens and what the model takes."""

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from bertcli import evaluate, finetune
from bertcli.errors import UserError
from bertcli.training.run_folder import RunFolder

SHORT, LONG, LONGEST = 20, 200, 600  # words


def write(path: Path, *longest: int, columns: tuple[str, ...] = ("text",)) -> str:
    """Twelve short examples, and one of each of these lengths."""
    counts = [*[SHORT] * 12, *longest]
    with path.open("w", newline="") as file:
        rows = [[" ".join(["cat"] * count)] * len(columns) + [row % 2] for row, count in enumerate(counts)]
        csv.writer(file).writerows([[*columns, "label"], *rows])
    return str(path)


@pytest.fixture
def lengths(home: Path, workspace: Path) -> Any:
    """The maximum input length of a fine-tuning on a file."""

    def train(file: str, **options: Any) -> int:
        options = {
            "kind": "classify",
            "epochs": 0.1,
            "baseline": False,
            "out": f"run-{len(list(Path().iterdir()))}",
            **options,
        }
        run = finetune(file, **{"from_": str(home / "runs" / "pretrain-tiny"), **options}).run
        return int(RunFolder(Path(run)).config["max_seq_length"])

    return train


def test_inputs_are_as_long_as_the_longest_text_needs(lengths: Any) -> None:
    assert lengths(write(Path("short.csv"))) == 128
    assert lengths(write(Path("long.csv"), LONG)) == 256
    assert lengths(write(Path("longest.csv"), LONG, LONGEST)) == 512
    pairs = write(Path("pairs.csv"), LONG, columns=("text", "text_pair"))
    assert lengths(pairs, text="text", text_pair="text_pair") == 512


def test_the_texts_of_a_dev_set_count_too(lengths: Any, said: pytest.LogCaptureFixture) -> None:
    assert lengths(f"{write(Path('train.csv'))},{write(Path('dev.csv'), LONG)}") == 256
    assert "inputs of up to 256 tokens, as 1 of 25 have more than 128" in said.text


def test_what_is_given_counts_and_windows_stay_as_they_are(lengths: Any) -> None:
    file = write(Path("long.csv"), LONG)
    assert lengths(file, max_seq_length=64) == 64
    assert lengths(file, long_texts="windows") == 128


def test_inputs_are_no_longer_than_the_model_takes(home: Path, lengths: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(home / "runs" / "pretrain-tiny" / "model")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=150, **sizes)
    for saved in (BertForMaskedLM(config), tokenizer):
        saved.save_pretrained("model")
    file = write(Path("long.csv"), LONG)
    assert lengths(file, from_="model") == 150
    with pytest.raises(UserError, match="--max-seq-length 151 is longer than the model's 150 positions"):
        lengths(file, from_="model", max_seq_length=151)


def test_it_is_said_and_scored_and_cut_as_it_was_learnt(lengths: Any, said: pytest.LogCaptureFixture) -> None:
    file = write(Path("long.csv"), LONG, LONGEST)
    lengths(file, out="run")
    assert "inputs of up to 512 tokens, as 2 of 14 have more than 128" in said.text
    said.clear()
    evaluate(write(Path("other.csv"), LONG, LONGEST), model="run")
    assert "1 input longer than 512 tokens, cut" in said.text
    said.clear()
    lengths(write(Path("short.csv")), out="other")
    assert "inputs of up to" not in said.text


def test_a_model_without_a_run_is_scored_on_as_much_of_a_text_as_it_predicts_from(
    reviews_run: str, workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(Path(reviews_run) / "model", "model")
    Path("long.csv").write_text("text,label\n" + "".join(f"{'cat ' * LONG},{label}\n" for label in ("good", "bad")))
    evaluate("long.csv", model="model")
    assert "cut" not in said.text
    assert "dev: 2 examples from long.csv" in said.text
