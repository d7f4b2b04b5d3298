"""Own values are learnt alike in any unit: dollars, millions of them, or their share of a budget."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertcli import distill, evaluate, finetune, predict
from bertcli.errors import Interrupted
from bertcli.reports.tables import summary_lines
from tests.conftest import WORDS
from tests.lifecycle.test_finetune import stop_at_call
from tests.training.test_loop import assert_same_bits

PRICES, TEXTS = {"small": 100.0, "old": 150.0, "green": 300.0}, ["a small house", "the green house", "an old garden"]
UNITS = {"dollars": (1000.0, 0.0), "shares of a budget": (1e-9, 3e-7)}  # factor and offset


def write_prices(path: Path, factor: float = 1.0, offset: float = 0.0) -> str:
    draw, rows = random.Random(0), ["text,value"]
    for _ in range(60):
        word, price = draw.choice([*PRICES.items()])
        others = " ".join(draw.sample(WORDS, 3))
        rows.append(
            f"the {word} house, {others},{price * draw.uniform(0.9, 1.1) * factor + offset:.12g}".replace(",", " ", 1)
        )
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def values(run: str) -> np.ndarray:
    return np.array([predict(text, model=run).rows[0]["prediction"] for text in TEXTS])


@pytest.fixture
def options(home: Path) -> dict[str, object]:
    return {
        "from_": str(home / "runs" / "pretrain-tiny"),
        "epochs": 7,
        "batch_size": 4,
        "learning_rate": 2e-3,
        "eval_steps": 100,
        "baseline": False,
    }


@pytest.mark.slow
def test_values_are_learnt_alike_in_any_unit(workspace: Path, options: dict[str, object]) -> None:
    plain = finetune(write_prices(Path("prices.csv")), **options, out="plain")
    assert plain.metrics["pearson"] > 70
    for unit, (factor, offset) in UNITS.items():
        run = finetune(write_prices(Path(f"{unit}.csv"), factor, offset), **options, out=unit)
        assert run.metrics == pytest.approx(plain.metrics, abs=0.5)
        np.testing.assert_allclose((values(unit) - offset) / factor, values("plain"), rtol=0.15)
        assert evaluate(f"{unit}.csv", model=unit).metrics == pytest.approx(run.metrics, abs=1e-3)


def test_a_run_goes_on_with_the_head_and_the_unit_of_another(workspace: Path, options: dict[str, object]) -> None:
    dollars = write_prices(Path("dollars.csv"), *UNITS["dollars"])
    finetune(dollars, **options, out="first")
    before = values("first")
    finetune(dollars, **{**options, "from_": "first", "learning_rate": 1e-12, "epochs": 1}, out="second")
    np.testing.assert_allclose(values("second"), before, rtol=1e-4)


def test_a_run_that_was_interrupted_goes_on_in_its_unit(
    workspace: Path, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = write_prices(Path("shares.csv"), *UNITS["shares of a budget"])
    finetune(shares, **options, out="whole")
    with monkeypatch.context() as patch:
        stop_at_call(patch, 30)
        with pytest.raises(Interrupted):
            finetune(shares, **options, save_steps=20, out="cut")
    finetune(task="", resume=True, out="cut")
    assert_same_bits("whole", "cut")


def test_a_student_learns_the_values_of_its_teacher(workspace: Path, options: dict[str, object]) -> None:
    dollars = write_prices(Path("dollars.csv"), *UNITS["dollars"])
    finetune(dollars, **options, out="teacher")
    run = distill(
        dollars, teacher="teacher", layers=1, epochs=7, batch_size=4, learning_rate=2e-3, out="student", baseline=False
    )
    assert run.metrics["pearson"] > 70
    assert values("student")[1] > 1.5 * values("student")[0] > 50_000


def test_a_head_that_few_steps_of_training_make_worse_is_kept(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    dollars = write_prices(Path("dollars.csv"), *UNITS["dollars"])
    run = finetune(dollars, from_="bert-books", epochs=0.1, baseline=False)
    assert "training made it worse than the fitted head, which is kept: give more --epochs" in said.text
    assert run.best_step == 0
    assert any("No training was better than the head" in note for note in run.notes)
    beside = {"guess": {"difference": 1.0, "confidence_interval": [0.5, 1.5], "significant": True}}
    assert "ours: a head on the frozen model, kept as it is" in summary_lines(replace(run, baseline=beside))
    np.testing.assert_allclose(values(run.run), [100_000, 300_000, 150_000], atol=80_000)
