"""A part is claimed by one process at a time; the claim of a dead process is no longer one."""

import json
import os
from pathlib import Path

import pytest

from bertcli.lifecycle.reproducing import claims
from bertcli.lifecycle.reproducing.claims import Claims


def test_a_claim_keeps_others_away_until_it_is_released(tmp_path: Path) -> None:
    mine, theirs = Claims(tmp_path), Claims(tmp_path)
    with mine.hold("finetuned/a-1") as is_held:
        assert is_held
        assert theirs.holder("finetuned/a-1") == f"process {os.getpid()} on {os.uname().nodename}"
        with theirs.hold("finetuned/a-1") as is_held_too, theirs.hold("finetuned/a-2") as is_other_held:
            assert not is_held_too
            assert is_other_held
    assert theirs.holder("finetuned/a-1") == ""
    with theirs.hold("finetuned/a-1") as is_held:
        assert is_held
    theirs.forget("finetuned/a-1")
    assert [path.name for path in (tmp_path / "claims").iterdir()] == ["finetuned-a-2.1"]


def test_the_claim_of_a_killed_process_is_taken_over_and_its_time_counts(tmp_path: Path) -> None:
    if not (child := os.fork()):
        with Claims(tmp_path).hold("part"):
            os._exit(9)
    os.waitpid(child, 0)
    (claim,) = (tmp_path / "claims").iterdir()
    os.utime(claim, (0, json.loads(claim.read_text())["started"] + 60))
    with Claims(tmp_path).hold("part") as is_held:
        assert is_held
        assert Claims(tmp_path).seconds("part") == pytest.approx(60, abs=2)


def test_a_killed_process_whose_parent_has_not_seen_it_holds_nothing(tmp_path: Path) -> None:
    if not (child := os.fork()):
        with Claims(tmp_path).hold("part"):
            os._exit(9)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with Claims(tmp_path).hold("part") as is_held:
        assert is_held
    os.waitpid(child, 0)


def test_two_that_see_the_same_dead_claim_do_not_both_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Claims(tmp_path), Claims(tmp_path)
    dead = {"machine": claims._this_process()["machine"], "process": 2**22 + 1, "born": 0.0}
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "part.1").write_text(json.dumps(dead))
    seen = second._claims("part")
    with first.hold("part") as is_held:
        assert is_held
        with monkeypatch.context() as patch:  # as if it had looked before the first one claimed it
            patch.setattr(second, "_claims", lambda part: seen)
            with second.hold("part") as is_held_too:
                assert not is_held_too


def test_another_machine_is_dead_when_it_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Claims(tmp_path)
    (tmp_path / "claims").mkdir()
    claim = tmp_path / "claims" / "part.1"
    claim.write_text(json.dumps({"machine": "elsewhere x", "process": 1, "born": 0.0}))
    now = 0.0
    monkeypatch.setattr(claims.time, "monotonic", lambda: now)
    assert ours.holder("part") == "process 1 on elsewhere"
    now = claims.SILENT_SECONDS - 1
    os.utime(claim, (5, 5))  # a sign of life, by the clock of the other machine
    assert ours.holder("part")
    now = 2 * claims.SILENT_SECONDS
    assert not ours.holder("part")
