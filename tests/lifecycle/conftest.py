"""Runs that several tests of commands read."""

import shutil
from pathlib import Path

import pytest
from conftest import write_reviews

from bertcli.lifecycle.finetune import finetune


@pytest.fixture(scope="session")
def reviews_run(home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that tells two labels apart."""
    folder = tmp_path_factory.mktemp("reviews")
    write_reviews(folder / "reviews.csv", 60)
    start = str(home / "runs" / "pretrain-tiny")
    return finetune(
        str(folder / "reviews.csv"), from_=start, out=str(folder / "run"), epochs=3, precision="float32"
    ).run


@pytest.fixture(scope="session")
def graph(reviews_run: str) -> Path:
    """The folder of the run as a graph."""
    pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'bertcli[onnx]'")
    from bertcli.lifecycle.export import export

    return Path(export(reviews_run).out)


@pytest.fixture
def graph_again(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph of the run is copied, not made again, which takes seconds."""
    from bertcli.lifecycle.exporting import writing

    monkeypatch.setattr(writing, "write_graph", lambda model, path: shutil.copyfile(graph / "model.onnx", path))
