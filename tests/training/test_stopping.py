"""The first signal asks, the second one ends."""

import os
import signal

import pytest

from bertcli.errors import Interrupted
from bertcli.training.stopping import Interruption, exit_code_of


def test_interruption_is_asked_once_which_is_said_and_forced_twice(said: pytest.LogCaptureFixture) -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.asked
        assert "a second signal stops at once" in said.text
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_first_signal_ends_at_once_what_can_be_made_again() -> None:
    with Interruption() as interruption:
        assert interruption.unless_asked(lambda: 1, applies=True) == 1
        assert interruption.unless_asked(lambda: os.kill(os.getpid(), signal.SIGTERM) or 1, applies=True) is None
        assert interruption.asked == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            interruption.unless_asked(lambda: os.kill(os.getpid(), signal.SIGINT), applies=False)


def test_where_all_can_be_made_again_each_signal_ends_it_and_is_known() -> None:
    with Interruption(is_at_once=True), pytest.raises(KeyboardInterrupt) as stopped:
        os.kill(os.getpid(), signal.SIGTERM)
    assert exit_code_of(stopped.value) == 143
    assert exit_code_of(KeyboardInterrupt()) == 130
    assert exit_code_of(Interrupted("Stopped.", "Continue: bert finetune --resume", signal.SIGTERM)) == 143
