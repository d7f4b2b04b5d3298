"""Progress: how much time is left, and how many lines a log gets."""

import json
import logging
import os
import sys
import time
from io import StringIO

import pytest
from rich.console import Console

from bertcli.training import progress
from bertcli.training.checkpoint import History
from bertcli.training.progress import Progress


class Clock:
    """A clock that is moved by hand."""

    now = 0.0

    def perf_counter(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    """The clock that progress is measured by."""
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    caplog.set_level(logging.INFO, logger="bertcli")
    return made


@pytest.mark.parametrize(("steps", "seconds_per_step"), [(100, 3.0), (12_000, 0.1), (400, 4.5), (10_000, 3.6)])
def test_a_log_has_a_line_every_half_minute_and_at_most_sixty(
    clock: Clock, caplog: pytest.LogCaptureFixture, steps: int, seconds_per_step: float
) -> None:
    times = []
    with Progress("training", steps) as shown:
        for _ in range(steps):
            clock.now += seconds_per_step
            before = len(caplog.records)
            shown.advance(1)
            times += [clock.now] * (len(caplog.records) - before)
    total = steps * seconds_per_step
    assert len(times) <= 60
    longest = max(after - before for before, after in zip([0, *times], [*times, total], strict=True))
    assert longest <= max(30, total / 50)


def test_the_first_steps_do_not_spoil_the_estimate(clock: Clock) -> None:
    with Progress("training", 500) as shown:
        for step in range(8):
            clock.now += 30 if step == 0 else 5 if step < 3 else 1
            shown.advance(1)
        assert shown.seconds_left() == pytest.approx(492, rel=0.01)


def test_nothing_is_said_of_the_time_left_before_the_second_step(clock: Clock) -> None:
    with Progress("training", 100) as shown:
        clock.now += 60
        shown.advance(1)
        assert shown.seconds_left() == 0
        clock.now += 2
        shown.advance(1)
        assert shown.seconds_left() == pytest.approx(196)


def test_no_less_than_nothing_is_left_where_the_costs_of_steps_add_up_to_more_than_all(clock: Clock) -> None:
    with Progress("training", 3 * 0.1) as shown:
        for _ in range(3):
            clock.now += 2
            shown.advance(0.1 + 1e-9)
        assert shown.done > shown.total
        assert shown.seconds_left() == 0


def test_a_resumed_run_is_estimated_by_its_own_steps(clock: Clock) -> None:
    with Progress("training", 1000) as shown:
        shown.start_at(900)
        for _ in range(10):
            clock.now += 2
            shown.advance(1)
        assert shown.seconds_left() == pytest.approx(180, rel=0.01)


def test_the_live_line_has_the_best_score_on_dev_and_none_of_a_head_before_training() -> None:
    best = {"step": 3, "metrics": {"accuracy": 70.0}}
    on_dev, cross_validated = History(metrics={"accuracy": 65.0}, best=best), History(metrics={}, best=best)
    assert "accuracy 70.0" in on_dev.describe(10, 0)
    assert "accuracy" not in cross_validated.describe(10, 0)


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_line_of_a_long_run_shows_all_of_it_on_a_terminal_of_80_columns(clock: Clock, width: int) -> None:
    history = History(steps=12_207, losses=[10.4835], metrics={"matthews_correlation": 82.71})
    history.time(tokens=11_550, flops=1.0, seconds=1, is_warm=True)
    words = history.describe(12_375, 7 * 2**29)
    shown = Progress("training", 12_375)
    console = Console(width=width, file=StringIO())
    shown._bar = shown._make_bar(console)
    for _ in range(9):
        clock.now += 1
        shown.advance(1, words)
    console.print(shown._bar)
    (line,) = console.file.getvalue().splitlines()
    assert line.strip().endswith("3 h 26 left  step 12207/12375  loss 10.5  matthews 82.7  11,550 tokens/s  3.8 GB")
    assert line.startswith("training" if width > 80 else "3 h 26 left")


def test_a_terminal_has_one_live_display_which_shows_the_progress_inside_it(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("alone", 9) as alone:
        assert alone._bar is not None
    for outer in (lambda: progress.doing("working"), lambda: Progress("working", 9)):
        shown: list[str] = []
        with outer(), Progress("inside", 9) as inside, monkeypatch.context() as patch:
            assert inside._bar is None
            patch.setattr(progress, "_show", shown.append)
            clock.now += 60
            inside.advance(1)
        assert shown[0].startswith("inside  11 %")
    assert caplog.text == ""
    with Progress("after", 9) as after:
        assert after._bar is not None


def test_in_a_log_work_and_its_parts_get_about_sixty_lines_together(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bertcli")
    with Progress("training", 100) as whole:
        for step in range(1, 101):
            clock.now += 60
            whole.advance(1)
            if step in (33, 66, 100):
                with Progress("predicting", 100) as part:
                    for _ in range(100):
                        clock.now += 20
                        part.advance(1)
    lines = caplog.text.splitlines()
    assert 30 < len(lines) < 70
    assert any("predicting" in line for line in lines)


def test_a_log_hears_of_silent_work_that_takes_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "bertcli")
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.05)
    with progress.doing("fitting"):
        pass
    assert caplog.text == ""
    with progress.doing("fitting"):
        while "fitting, since" not in caplog.text:
            time.sleep(0.01)
    said = caplog.text
    time.sleep(0.2)
    assert caplog.text == said


def test_a_notebook_shows_the_bar_and_a_result_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    bar = "from bertcli.training.progress import Progress\nwith Progress('reading', 2) as bar:\n    bar.advance(2)\n    import time; time.sleep(1)"
    result = (
        "from bertcli.training.result import TrainingResult\nTrainingResult(task='<b>', seed=0, metrics={'f1': 9.5})"
    )
    cells = [nbformat.v4.new_code_cell(source) for source in (bar, result)]
    notebook = nbclient.NotebookClient(nbformat.v4.new_notebook(cells=cells), kernel_name="python3").execute()
    shown = json.dumps(notebook.metadata["widgets"], ensure_ascii=False)
    assert "reading" in shown
    assert "100 %" in shown
    table = notebook.cells[1].outputs[0]["data"]["text/html"]
    assert "<td>&lt;b&gt;</td>" in table
    assert "<td>9.5</td>" in table
