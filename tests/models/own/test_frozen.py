"""A tagger is trained on the features of a BERT that is not (BERT section 5.3)."""

from pathlib import Path

import pytest
import torch
from conftest import write_reviews
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification, BertForTokenClassification

from bertcli.errors import Interrupted, UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.models.own import frozen
from bertcli.models.own.frozen import combine, layer_numbers
from bertcli.reports.tables import result_tables
from tests.kinds.conftest import write_conll
from tests.training.test_loop import assert_same_bits, stop_after

LEARNING = {"epochs": 5, "batch_size": 8, "learning_rate": 1e-2, "max_seq_length": 8}


@pytest.fixture
def tagging(home: Path, tmp_path: Path) -> dict[str, object]:
    """A request for a small tagger on frozen features; its windows are shorter than some sentences."""
    folder = tmp_path / "official" / "conll2003"
    folder.mkdir(parents=True)
    write_conll(folder / "train.txt", 200, 1)
    write_conll(folder / "valid.txt", 30, 2)
    start = str(home / "runs" / "pretrain-tiny")
    return {"task": "conll2003", "frozen": True, "from_": start, "data_dir": str(tmp_path / "official"), **LEARNING}


def test_the_bert_stays_as_it_is_and_the_tagger_is_used_like_any_other(
    home: Path, tagging: dict[str, object], tmp_path: Path
) -> None:
    run = finetune(**{**tagging, "epochs": 8}, out=str(tmp_path / "run"))
    assert run.metrics["f1"] > 80
    config = AutoConfig.from_pretrained(run.model)
    assert config.lstm_units == config.hidden_size  # 768 of 768 in the paper
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


@pytest.mark.usefixtures("float32")
def test_kept_states_and_a_bert_run_at_each_step_give_the_same_losses(
    tagging: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    short = {**tagging, "epochs": 0.5, "log_steps": 1, "frozen_layers": "weighted-sum-all"}
    with caplog.at_level("INFO", logger="bertcli"):
        kept = finetune(**short, out=str(tmp_path / "kept"))
        assert "computed once and kept in memory" in caplog.text
        monkeypatch.setattr(frozen, "SHARE_OF_MEMORY", 0)
        run = finetune(**short, out=str(tmp_path / "run"))
        assert "so they are computed at each step" in caplog.text
    assert len(kept.losses) == 12
    assert run.losses == pytest.approx(kept.losses, abs=1e-3)


@pytest.mark.torture
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
        ({"frozen": False, "frozen_layers": "last"}, "--frozen-layers needs --frozen"),
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
