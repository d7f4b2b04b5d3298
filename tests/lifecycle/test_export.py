"""Exported models give the same answers in other programs, with what these need beside them."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertConfig, BertLMHeadModel, BertModel

from bertcli import errors
from bertcli.data.checksums import check_files
from bertcli.data.hub import POOLING
from bertcli.data.json_files import write_json
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.export import export
from bertcli.lifecycle.exporting import writing
from bertcli.lifecycle.predict import predict
from bertcli.models.heads import MeanPooledBertForSequenceClassification
from tests.data.text.tokenizers import save_bytes
from tests.families.checks import DISTILBERT, SIZES, save

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'bertcli[onnx]'")
LogCapture = pytest.LogCaptureFixture
SAMPLE = "a gripping, beautiful film"  # of example.py


def answer_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the example in a folder prints."""
    capsys.readouterr()
    runpy.run_path(str(folder / "example.py"), run_name="__main__")
    return json.loads(capsys.readouterr().out.splitlines()[0])


def test_a_graph_stands_in_the_runs_folder_with_what_a_program_needs(reviews_run: str, graph: Path) -> None:
    assert graph == Path(reviews_run) / "onnx-float32"
    check_files(graph)
    assert json.loads((graph / "labels.json").read_text()) == ["bad", "good"]
    assert json.loads((graph / "config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}
    tokenizer = AutoTokenizer.from_pretrained(graph)
    assert tokenizer("the cat").input_ids[0] == 2
    assert tokenizer.padding_side == "right"
    session = onnxruntime.InferenceSession(graph / "model.onnx")
    assert [node.shape for node in session.get_inputs()] == [["batch", "sequence"]] * 3


def test_its_example_runs_without_this_package_and_answers_as_predict(
    reviews_run: str, graph: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(graph, tmp_path / "moved")
    program = f"import sys, runpy; runpy.run_path({str(moved / 'example.py')!r}); print({{'torch', 'bertcli'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    answer, imported = done.stdout.splitlines()
    assert imported == "set()"
    (wanted,) = predict(SAMPLE, model=reviews_run, precision="float32").records
    assert json.loads(answer)["label"] == wanted["label"]
    assert json.loads(answer)["scores"] == pytest.approx(wanted["scores"], abs=1e-5)


@pytest.mark.usefixtures("graph_again")
def test_int8_is_measured_on_the_dev_set_and_what_it_costs_is_said(
    reviews_run: str, tmp_path: Path, said: LogCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = export(reviews_run, precision="int8", out=str(tmp_path / "int8"))
    assert found.split == "dev"
    assert found.metrics.keys() == found.metrics_before.keys() == {"accuracy", "macro_f1"}
    assert f"accuracy {found.metrics_before['accuracy']:.2f} to {found.metrics['accuracy']:.2f}" in said.text
    assert 1e-4 < (found.largest_difference or 0) < 1
    assert {path.name for path in (tmp_path / "int8").glob("*.onnx*")} == {"model.onnx"}
    monkeypatch.setattr(writing, "MOST_SCORED", 3)
    export(reviews_run, precision="int8", out=str(tmp_path / "again"))
    assert "int8 on dev (3 examples)" in said.text


@pytest.mark.usefixtures("graph_again")
def test_where_the_dev_set_is_gone_int8_is_not_measured_which_is_said(
    reviews_run: str, tmp_path: Path, said: LogCapture
) -> None:
    moved = shutil.copytree(reviews_run, tmp_path / "run", ignore=shutil.ignore_patterns("onnx*"))
    text = (moved / "config.yaml").read_text().replace("reviews.csv", "gone.csv")
    (moved / "config.yaml").write_text(text)
    assert export(str(moved), precision="int8").metrics == {}
    assert "the effect of int8 is not measured, as the dev set is not there" in said.text


@pytest.mark.usefixtures("graph_again")
def test_what_a_run_does_that_the_graph_does_not_is_said(reviews_run: str, tmp_path: Path, said: LogCapture) -> None:
    moved = shutil.copytree(reviews_run, tmp_path / "run", ignore=shutil.ignore_patterns("onnx*"))
    config = (moved / "config.yaml").read_text().replace("long_texts: cut", "long_texts: windows")
    (moved / "config.yaml").write_text(config)
    export(str(moved))
    assert "it gives the logits of one window of 128 tokens" in said.text


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_weights_are_written_in_half_the_bits(
    reviews_run: str, tmp_path: Path, precision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    found = export(reviews_run, format="safetensors", precision=precision, out=str(out))
    assert {weight.dtype for weight in load_file(out / "model.safetensors").values()} == {getattr(torch, precision)}
    assert 0 < (found.largest_difference or 0) < 0.1
    (wanted,) = predict(SAMPLE, model=str(out), precision="float32").records
    assert answer_of(out, capsys)["scores"] == pytest.approx(wanted["scores"], abs=1e-5)


def test_matrices_in_float8_open_in_plain_transformers_as_float32(reviews_run: str, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(f"{reviews_run}/model", source)
    (source / POOLING).parent.mkdir()
    write_json(source / POOLING, {"pooling_mode_mean_tokens": True})
    found = export(str(source), format="safetensors", precision="float8", out=str(out))
    weights = load_file(out / "model.safetensors")
    assert {each.dtype for each in weights.values() if each.dim() > 1} == {torch.float8_e4m3fn}
    assert {each.dtype for each in weights.values() if each.dim() == 1} == {torch.float16}
    assert 0 < (found.largest_difference or 0) < 1
    model, info = AutoModel.from_pretrained(out, output_loading_info=True)
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    assert not info["missing_keys"]
    assert (out / POOLING).exists()


@pytest.mark.parametrize("precision", ["float16", "float8"])
def test_weights_that_a_precision_cannot_hold_are_refused_and_nothing_is_left(
    reviews_run: str, tmp_path: Path, precision: str
) -> None:
    shutil.copytree(f"{reviews_run}/model", tmp_path / "large")
    weights = load_file(tmp_path / "large" / "model.safetensors")
    weights["classifier.bias"] += 1e5
    (tmp_path / "large" / "checksums.sha256").unlink(missing_ok=True)
    save_file(weights, tmp_path / "large" / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=f"too large for {precision}"):
        export(str(tmp_path / "large"), format="safetensors", precision=precision, out=str(tmp_path / "out"))
    assert not list(tmp_path.glob("*out*"))


def test_a_graph_that_differs_is_not_written(
    reviews_run: str, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = onnx_of_other_weights(graph / "model.onnx", tmp_path / "other.onnx")
    monkeypatch.setattr(writing, "write_graph", lambda model, path: shutil.copyfile(other, path))
    with pytest.raises(UserError, match=r"outputs of the graph differ by \d"):
        export(reviews_run, out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def onnx_of_other_weights(path: Path, out: Path) -> Path:
    import onnx

    graph = onnx.load(path)
    (bias,) = (each for each in graph.graph.initializer if each.name.endswith("classifier.bias"))
    bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + 0.01, bias.name))
    onnx.save(graph, out)
    return out


def test_without_the_extra_the_error_says_how_to_install_it(reviews_run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "onnxruntime" else 1)
    with pytest.raises(UserError, match="needs onnxruntime, which is not installed") as caught:
        export(reviews_run)
    assert caught.value.hint == "Install it: pip install 'bertcli[onnx]'"


BERT = {**SIZES, "hidden_size": 32}
FAMILIES = {
    "Bert": BERT,
    "Roberta": {**SIZES, "type_vocab_size": 1, "pad_token_id": 1},
    "RobertaPreLayerNorm": {**SIZES, "type_vocab_size": 1},
    "XLMRoberta": {**SIZES, "type_vocab_size": 1},
    "XLMRobertaXL": {**SIZES, "type_vocab_size": 1},
    "Camembert": {**SIZES, "type_vocab_size": 1},
    "Data2VecText": {**SIZES, "type_vocab_size": 1},
    "Albert": {**SIZES, "embedding_size": 16},
    "Electra": {**SIZES, "embedding_size": 16},
    "DistilBert": DISTILBERT,
    "Ernie": SIZES,
    "Xmod": {**SIZES, "languages": ["en_XX", "de_DE"]},
    "FNet": SIZES,
    "BigBird": {**SIZES, "block_size": 4, "num_random_blocks": 1},
    "ModernBert": {**SIZES, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3},
    "ConvBert": {**SIZES, "embedding_size": 16},
    "MobileBert": {**SIZES, "intra_bottleneck_size": 32, "embedding_size": 16},
}
HEADS = {
    "classify": "SequenceClassification",
    "multilabel": "SequenceClassification",
    "regress": "SequenceClassification",
    "choose": "MultipleChoice",
    "span": "QuestionAnswering",
    "tag": "TokenClassification",
    "fill": "MaskedLM",
}


def save_start(name: str, config: dict[str, Any], kind: str) -> None:
    """A model with new weights and a tokenizer, in the folder `start`."""
    if name.startswith(("Roberta", "XLM", "Camembert", "Data2Vec", "Xmod")):
        save_bytes(Path("start"))
        config = {**config, "vocab_size": 300, "pad_token_id": 1}
    else:
        Path("words.txt").write_text("the king rode out\nthe ship sank in a beautiful film\n" * 50)
        build_vocab("words.txt", vocab_size=48, out="start")
    outputs = 1 if kind in ("choose", "regress") else 2
    labels = {"id2label": {0: "O", 1: "B-PER"}} if kind == "tag" else {"num_labels": outputs}
    config = {name: value for name, value in config.items() if name != "num_labels"} | labels
    config |= {"max_position_embeddings": 96}
    save(name, {**config, "problem_type": KINDS[kind].problem_type or None}, HEADS[kind], Path("start"))


def check_example(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of `out` answers its sample as `bert predict` does."""
    sample = dict(KINDS[kind].sample)
    choices = {"choice": sample.pop("choices")} if "choices" in sample else {}
    (wanted,) = predict(**sample, **choices, model="start", precision="float32").records
    (other,) = predict(**sample, **choices, model="start", engine="onnx", precision="float32").records
    assert re.sub(r"\d+\.\d+", "", str(other)) == re.sub(r"\d+\.\d+", "", str(wanted))
    answer = answer_of(Path("out"), capsys)
    if kind == "tag":
        assert [word for word, tag in answer if tag != "O"] == [entity["text"] for entity in wanted["entities"]]
        return
    if kind == "span":  # predict shows whole words
        assert answer["answer"] in wanted["answer"], (answer, wanted)
        return
    for name in {"scores", "value", "choice"} & answer.keys():
        assert answer[name] == pytest.approx(wanted[name], abs=1e-5)
    if kind == "fill":
        assert answer["score"] == pytest.approx(wanted["fills"][0]["score"], abs=1e-5)


def kinds_and_families() -> Iterator[tuple[str, str]]:
    """Every kind of BERT, and every family with labels of texts and of words."""
    yield from (("Bert", kind) for kind in HEADS)
    yield from ((name, kind) for name in FAMILIES if name != "Bert" for kind in ("classify", "tag"))


@pytest.mark.torture
@pytest.mark.parametrize(("name", "kind"), list(kinds_and_families()))
def test_each_kind_and_family_gives_the_same_outputs_in_other_shapes(
    workspace: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_start(name, FAMILIES[name], kind)
    assert (export("start", out="out").largest_difference or 0) <= 1e-4
    check_example(kind, capsys)


@pytest.mark.torture
@pytest.mark.parametrize("kind", HEADS)
def test_each_kind_of_weights_has_an_example_that_answers_as_predict(
    workspace: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_start("Bert", BERT, kind)
    export("start", format="safetensors", out="out")
    check_example(kind, capsys)


@pytest.mark.torture
@pytest.mark.parametrize("form", ["onnx", "safetensors"])
def test_a_model_that_pools_by_mean_is_exported_as_it_is(
    workspace: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_start("Bert", BERT, "classify")
    model = MeanPooledBertForSequenceClassification(BertConfig(**BERT, problem_type="single_label_classification"))
    model.save_pretrained("start")
    assert export("start", format=form, out="out").largest_difference < 1e-4
    check_example("classify", capsys)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("form", [pytest.param("onnx", marks=pytest.mark.torture), "safetensors"])
def test_an_encoder_without_a_head_for_a_task_is_exported(
    workspace: Path, form: str, is_causal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    save_start("Bert", BERT, "classify")
    model = BertLMHeadModel(BertConfig(**BERT, is_decoder=True)) if is_causal else BertModel(BertConfig(**BERT))
    model.save_pretrained("start")
    assert export("start", format=form, out="out").largest_difference < 1e-4
    assert len(answer_of(Path("out"), capsys)) == 32


def test_the_outputs_of_a_graph_are_compared_by_their_size() -> None:
    large, small = torch.tensor([2e4, 1e4]), torch.tensor([0.5, -torch.inf])
    assert writing._difference(large, large + 0.004) == pytest.approx(2e-7, rel=0.1)
    assert writing._difference(small, small + 0.004) == pytest.approx(0.004, rel=0.01)
    assert writing._difference(small, torch.zeros(2)) == torch.inf
