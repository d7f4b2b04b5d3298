"""The first signal asks, the second one ends."""

import os
import signal

import pytest

from bertcli.training.stopping import Interruption


def test_interruption_is_asked_once_and_forced_twice() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
