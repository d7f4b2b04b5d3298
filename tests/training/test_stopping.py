"""The first signal asks, the second one ends."""

import os
import signal

import pytest

from bertcli.training.stopping import Interruption


def test_interruption_is_asked_once_which_is_said_and_forced_twice(said: pytest.LogCaptureFixture) -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.asked
        assert "a second signal stops at once" in said.text
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
