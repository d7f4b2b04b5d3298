"""Files of hidden states hold what transformers gives (BERT section 5.3)."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet
from transformers import AutoModel, AutoTokenizer

from bertcli.config.use import PredictConfig
from bertcli.errors import UserError
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.predicting import features as hidden_states

TEXTS = ["the cat sat on the mat", "happily", "a dog ran under the old tree while birds sang in the green garden"]


def expected(model: str, text: str, layers: str) -> tuple[list[str], np.ndarray]:
    """The tokens of a text and what plain transformers says of them."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(model).eval()(**inputs, output_hidden_states=True).hidden_states
    last_four = hidden[1:][-4:]
    states = {
        "last": hidden[-1],
        "second-to-last": hidden[-2],
        "sum-last-four": sum(last_four),
        "concat-last-four": torch.cat(last_four, dim=-1),
    }
    return tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]), states[layers][0].numpy()


def read_back(path: Path) -> list[tuple[list[str] | None, np.ndarray]]:
    """The tokens and the numbers of each text of a file of hidden states."""
    if path.suffix == ".npz":
        arrays = np.load(path, allow_pickle=False)
        if "lengths" not in arrays:
            return [(None, row) for row in arrays["features"]]
        ends = np.cumsum(arrays["lengths"])[:-1]
        parts = zip(np.split(arrays["tokens"], ends), np.split(arrays["features"], ends), strict=True)
        return [(tokens.tolist(), states) for tokens, states in parts]
    if path.suffix == ".parquet":
        rows = parquet.read_table(path).to_pylist()
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row.get("tokens"), np.array(row["features"], dtype=np.float32)) for row in rows]


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("ending", [".parquet", ".npz", ".jsonl"])
@pytest.mark.parametrize(
    ("layers", "pooling"),
    [("last", "tokens"), ("second-to-last", "cls"), ("sum-last-four", "mean"), ("concat-last-four", "tokens")],
)
def test_hidden_states_are_those_of_plain_transformers_in_input_order(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, layers: str, pooling: str
) -> None:
    monkeypatch.setattr(hidden_states, "ROWS_AT_ONCE", 2)
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    out = tmp_path / f"out{ending}"
    said = predict(file=str(tmp_path / "in.txt"), features=str(out), layers=layers, pooling=pooling)
    assert (said.count, said.output, said.model) == (3, str(out), "runs/pretrain-tiny/model")
    for (tokens, states), text in zip(read_back(out), TEXTS, strict=True):
        own_tokens, own = expected(said.model, text, layers)
        pooled = {"tokens": own, "cls": own[0], "mean": own.mean(axis=0)}[pooling]
        assert tokens == (own_tokens if pooling == "tokens" else None)
        assert states == pytest.approx(pooled, abs=2e-5)


def test_hidden_states_of_one_pair_and_of_standard_input(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict("the cat", text_pair="a dog", features=str(tmp_path / "pair.jsonl"))
    [(tokens, states)] = read_back(tmp_path / "pair.jsonl")
    assert tokens == ["[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]"]
    assert states.shape == (7, 128)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"the cat\n\nthe [MASK]\n"))))
    assert predict(file="-", features=str(tmp_path / "in.npz"), pooling="cls").count == 3
    assert np.load(tmp_path / "in.npz")["features"].shape == (3, 128)


def test_a_file_is_written_as_it_is_read(at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk, so that a file may be larger than memory; what was begun is not left behind as if it were whole."""
    monkeypatch.setattr(hidden_states, "ROWS_AT_ONCE", 4)
    written = []

    def rows():
        for number in range(40):
            written.append((tmp_path / ".out.parquet.part").stat().st_size)
            yield {"text": TEXTS[number % 3]}
        raise KeyboardInterrupt

    config = PredictConfig(features=str(tmp_path / "out.parquet"))
    with pytest.raises(KeyboardInterrupt):
        hidden_states.write_hidden_states("runs/pretrain-tiny/model", rows(), config)
    assert written[4] < written[8] < written[36]
    assert not (tmp_path / "out.parquet").exists()


def test_inputs_that_are_cut_are_counted(at_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "in.txt").write_text(f"{'cat ' * 600}\nthe cat\n", encoding="utf-8")
    with caplog.at_level("INFO", logger="bertcli"):
        predict(file=str(tmp_path / "in.txt"), features=str(tmp_path / "out.npz"))
    assert "1 input longer than the model takes, cut" in caplog.text
    assert np.load(tmp_path / "out.npz")["lengths"].tolist() == [512, 4]


def test_inputs_are_not_written_over_and_nothing_half_is_left(at_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"text": "the cat"}\n{oops\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"in.jsonl` holds the inputs"):
        predict(file=str(file), features=str(file))
    with pytest.raises(UserError, match=r"in.jsonl` line 2 is not JSON"):
        predict(file=str(file), features=str(tmp_path / "out.npz"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "a", "features": "out.txt"}, "not Parquet, .npz or JSONL"),
        ({"text": "a", "features": "nowhere/out.npz"}, "cannot be written"),
        ({"text": "a", "features": "out.npz", "output": "out.csv"}, "and is itself the file to write"),
        ({"question": "a", "context": "b", "features": "out.npz"}, "takes texts or pairs"),
        ({"text": "a", "features": "out.npz", "layers": "weighted-sum-all"}, "Unknown value for --layers"),
        ({"features": "out.npz"}, "There is no input"),
    ],
)
def test_what_cannot_be_written_is_refused(at_home: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        predict(**options)
