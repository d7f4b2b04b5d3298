"""Runs that several tests of commands read."""

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
