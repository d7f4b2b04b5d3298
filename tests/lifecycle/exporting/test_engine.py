"""Other engines answer as torch does, from a graph that is made once."""

import os
import shutil
from pathlib import Path

import pytest

from bertcli import errors
from bertcli.config.use import ServeConfig
from bertcli.errors import UserError
from bertcli.lifecycle.baseline import baseline
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.export import export
from bertcli.lifecycle.predict import predict

pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'bertcli[onnx]'")
openvino = pytest.mark.skipif(
    not errors.find_spec("openvino"), reason="needs the extra: pip install 'bertcli[openvino]'"
)
TEXTS = ["a gripping, beautiful film", "dull", "a film that says nothing, and says it for three hours"]


@pytest.fixture
def run(reviews_run: str, tmp_path: Path) -> Path:
    """A copy of a fine-tuned run, without the graphs that other tests made in it."""
    return Path(shutil.copytree(reviews_run, tmp_path / "run", ignore=shutil.ignore_patterns("onnx*")))


def scores(run: Path | str, **options: str) -> list[float]:
    return [score for each in predict(TEXTS, model=str(run), **options).records for score in each["scores"].values()]


@pytest.mark.parametrize("engine", ["onnx", pytest.param("openvino", marks=openvino)])
def test_an_engine_answers_as_torch_from_a_graph_that_is_made_once(
    run: Path, engine: str, said: pytest.LogCaptureFixture
) -> None:
    expected = scores(run, precision="float32")
    assert scores(run, engine=engine, precision="float32") == pytest.approx(expected, abs=1e-5)
    assert f"making {run}/onnx-float32, once" in said.text
    said.clear()
    made = (run / "onnx-float32" / "model.onnx").stat().st_mtime_ns
    assert scores(run, engine=engine) == pytest.approx(expected, abs=0.02)
    assert (run / "onnx-float32" / "model.onnx").stat().st_mtime_ns == made
    assert "making" not in said.text


@pytest.mark.usefixtures("float32", "graph_again")
def test_scores_of_an_engine_are_those_of_torch_and_int8_is_measured(run: Path, said: pytest.LogCaptureFixture) -> None:
    task = next(line.split(": ")[1] for line in (run / "config.yaml").read_text().splitlines() if "task:" in line)
    expected = evaluate(task, model=[str(run)]).metrics
    assert evaluate(task, model=[str(run)], engine="onnx").metrics == pytest.approx(expected)
    assert evaluate(task, model=[str(run)], engine="onnx-int8").examples > 0
    assert "int8 on dev" in said.text


@pytest.mark.usefixtures("graph_again")
def test_a_graph_older_than_the_weights_is_not_used(run: Path) -> None:
    graph = Path(export(str(run)).out) / "model.onnx"
    os.utime(graph, (1, 1))
    with pytest.raises(UserError, match="is older than the weights") as error:
        scores(run, engine="onnx")
    assert error.value.hint == f"Remove it: rm -r {run}/onnx-float32"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"engine": "onnx", "precision": "bfloat16"}, "--engine onnx does not compute in bfloat16"),
        ({"engine": "onnx", "explain": "words"}, "--explain reads the weights"),
        ({"engine": "onnx", "features": "out.npz"}, "--features reads the weights"),
    ],
)
def test_what_an_engine_cannot_do_is_refused(run: Path, options: dict[str, str], what: str) -> None:
    with pytest.raises(UserError, match=what):
        predict(TEXTS[0], model=str(run), **options)


def test_no_engine_runs_a_baseline(workspace: Path) -> None:
    rows = "\n".join(f"good {number},a\nbad {number},b" for number in range(20))
    Path("t.csv").write_text(f"text,label\n{rows}\n")
    baseline("t.csv", method="bag-of-words", out="words")
    with pytest.raises(UserError, match="is a baseline"):
        predict("good", model="words", engine="onnx")


def test_without_the_extra_the_error_says_how_to_install_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda package: None)
    with pytest.raises(UserError, match="--engine openvino needs onnx") as error:
        predict(TEXTS[0], model=str(run), engine="openvino")
    assert "pip install 'bertcli[openvino]'" in error.value.hint


@pytest.mark.usefixtures("graph_again")
def test_a_server_takes_an_engine(run: Path) -> None:
    pytest.importorskip("starlette", reason="needs the extra: pip install 'bertcli[serve]'")
    from bertcli.lifecycle.serving.server import load_served

    served = load_served("run", str(run / "model"), ServeConfig(engine="onnx"))
    found, _ = served.task_model.predict_rows([{"text": text} for text in TEXTS])
    values = [score for each in found for score in each["scores"].values()]
    assert values == pytest.approx(scores(run, precision="float32"), abs=1e-5)
