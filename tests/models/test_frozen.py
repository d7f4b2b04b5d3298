"""Features of a BERT that is left as it is: a tagger trained on them, and files of them (BERT section 5.3)."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import write_reviews
from pyarrow import parquet
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertForTokenClassification,
)

from bertcli.config.use import PredictConfig
from bertcli.errors import Interrupted, UserError
from bertcli.lifecycle import features as hidden_states
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.models import frozen
from bertcli.models.layers import combine, layer_numbers
from bertcli.reports.tables import result_tables
from tests.kinds.test_kinds import write_conll
from tests.training.test_loop import assert_same_bits, stop_after

LEARNING = {"epochs": 5, "batch_size": 8, "learning_rate": 1e-2, "max_seq_length": 8}


@pytest.fixture
def tagging(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A request for a small tagger on frozen features; its windows are shorter than some sentences."""
    folder = tmp_path / "official" / "conll2003"
    folder.mkdir(parents=True)
    write_conll(folder / "train.txt", 200, 1)
    write_conll(folder / "valid.txt", 30, 2)
    monkeypatch.setattr(frozen, "UNITS", 128)
    start = str(home / "runs" / "pretrain-tiny")
    return {"task": "conll2003", "frozen": True, "from_": start, "data_dir": str(tmp_path / "official"), **LEARNING}


def test_the_bert_stays_as_it_is_and_the_tagger_is_used_like_any_other(
    home: Path, tagging: dict[str, object], tmp_path: Path
) -> None:
    run = finetune(**{**tagging, "epochs": 8}, out=str(tmp_path / "run"))
    assert run.metrics["f1"] > 80
    before = load_file(home / "runs" / "pretrain-tiny" / "model" / "model.safetensors")
    after = load_file(Path(run.model) / "model.safetensors")
    kept = [name for name in after if name.startswith("bert.")]
    assert len(kept) == len([name for name in before if name.startswith("bert.") and "pooler" not in name])
    assert all(after[name].numpy().tobytes() == before[name].numpy().tobytes() for name in kept)
    scored = evaluate("conll2003", model=run.run, data_dir=str(tmp_path / "official"))
    assert scored.metrics == pytest.approx(run.metrics)
    text = "the cat sat near the green garden"
    entities = predict(text, model=run.run).records[0]["entities"]
    assert [(entity["text"], entity["label"]) for entity in entities] == [("cat", "PER"), ("green garden", "LOC")]
    assert "AutoModel` opens the BERT, as it was" in (Path(run.run) / "README.md").read_text()
    _, info = AutoModel.from_pretrained(run.model, output_loading_info=True)
    assert all(name.startswith("pooler") for name in info["missing_keys"])
    with pytest.raises(RuntimeError, match="mismatch"):
        AutoModelForTokenClassification.from_pretrained(run.model)


def test_kept_states_and_a_bert_run_at_each_step_give_the_same_losses(
    tagging: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    short = {**tagging, "epochs": 0.5, "log_steps": 1, "frozen_layers": "weighted-sum-all"}
    with caplog.at_level("INFO", logger="bertcli"):
        kept = finetune(**short, out=str(tmp_path / "kept"))
        assert "computed once and kept in memory" in caplog.text
        monkeypatch.setattr(frozen, "SHARE_OF_MEMORY", 0)
        run = finetune(**short, out=str(tmp_path / "run"))
        assert "so the BERT runs at each step" in caplog.text
    assert len(kept.losses) == 12
    assert run.losses == pytest.approx(kept.losses, abs=1e-3)


def test_each_choice_of_layers_is_trained_and_stands_beside_the_papers(
    tagging: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = {**tagging, "epochs": 0.2, "frozen_layers": "all"}
    with caplog.at_level("INFO", logger="bertcli"):
        result = finetune(**whole, out=str(tmp_path / "all"))
    assert "concat-last-four: the model has only 2 layers; all are used" in caplog.text
    table = result_tables(result)[1]
    assert [(row[0], row[table.columns.index("paper base f1")]) for row in table.rows] == [
        ("embeddings", 91.0),
        ("second-to-last", 95.6),
        ("last", 94.9),
        ("weighted-sum-last-four", 95.9),
        ("concat-last-four", 96.1),
        ("weighted-sum-all", 95.5),
    ]
    best = next(run["setting"]["frozen_layers"] for run in result.runs if run["best"])
    assert AutoConfig.from_pretrained(result.model).frozen_layers == best
    with pytest.raises(UserError, match="is finished"):
        finetune(task="", resume=True, out=result.run)


def test_an_interrupted_tagger_goes_on_to_the_same_bits(
    tagging: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**tagging, "epochs": 1, "frozen_layers": "weighted-sum-last-four"}
    whole = finetune(**options, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 9)
        with pytest.raises(Interrupted):
            finetune(**options, out=str(tmp_path / "cut"))
    resumed = finetune(task="", resume=True, out=str(tmp_path / "cut"))
    assert_same_bits(whole.run, resumed.run)


def test_a_plain_tagger_starts_from_a_frozen_one_with_a_new_head(tagging: dict[str, object], tmp_path: Path) -> None:
    frozen_run = finetune(**{**tagging, "epochs": 0.2}, out=str(tmp_path / "frozen"))
    options = {"data_dir": tagging["data_dir"], "epochs": 0.2}
    plain = finetune("conll2003", from_=frozen_run.run, **options, out=str(tmp_path / "plain"))
    assert isinstance(AutoModelForTokenClassification.from_pretrained(plain.model), BertForTokenClassification)
    assert evaluate("conll2003", model=plain.run).metrics == pytest.approx(plain.metrics)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "reviews.csv", "data_dir": None, "frozen": True}, "--frozen is for token labelling"),
        ({"frozen": False, "frozen_layers": "last"}, "--frozen-layers belongs to --frozen"),
        ({"frozen_layers": "first"}, "Unknown value for --frozen-layers"),
    ],
)
def test_what_cannot_be_frozen_is_refused(
    tagging: dict[str, object], workspace: Path, options: dict[str, object], message: str
) -> None:
    write_reviews(workspace / "reviews.csv")
    with pytest.raises(UserError, match=message):
        finetune(**{**tagging, **options})


@pytest.mark.parametrize(
    ("layers", "of_12", "of_2"),
    [
        ("embeddings", [0], [0]),
        ("second-to-last", [11], [1]),
        ("last", [12], [2]),
        ("sum-last-four", [9, 10, 11, 12], [1, 2]),
        ("concat-last-four", [9, 10, 11, 12], [1, 2]),
        ("weighted-sum-last-four", [9, 10, 11, 12], [1, 2]),
        ("weighted-sum-all", [*range(1, 13)], [1, 2]),
    ],
)
def test_a_choice_takes_its_layers(layers: str, of_12: list[int], of_2: list[int]) -> None:
    assert list(layer_numbers(layers, 12)) == of_12
    assert list(layer_numbers(layers, 2)) == of_2
    states = torch.randn(5, len(of_12), 3)
    if "weighted" in layers:
        weights = torch.randn(len(of_12))
        expected = sum(share * states[:, place] for place, share in enumerate(weights.exp() / weights.exp().sum()))
        assert torch.allclose(combine(states, layers, weights), expected, atol=1e-6)
    elif "sum" in layers:
        assert torch.allclose(combine(states, layers), sum(states.unbind(1)), atol=1e-6)
    else:
        assert torch.equal(combine(states, layers), torch.cat(states.unbind(1), dim=1))


# --- Files of hidden states

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
    assert "1 inputs were longer than the model takes and were cut" in caplog.text
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
        ({"features": "out.npz"}, "Nothing to predict for"),
    ],
)
def test_what_cannot_be_written_is_refused(at_home: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        predict(**options)
