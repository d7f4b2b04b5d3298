"""A wrong request is said in two lines."""

import os
import pickle
from pathlib import Path

import pytest

from bertcli.errors import UserError, check_file, check_place


def test_a_wrong_request_keeps_its_words_on_the_way_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(UserError("what", "hint")))
    assert (error.message, error.hint) == ("what", "hint")


def test_a_folder_into_which_nothing_may_be_put_is_said_at_once(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "closed").mkdir(mode=0o500)
    for path in (tmp_path / "closed", tmp_path / "closed" / "runs" / "new"):
        with pytest.raises(UserError, match="cannot be written: nothing may be put there"):
            check_place(path)
    with pytest.raises(UserError, match="cannot be written"):
        check_file(tmp_path / "closed" / "out.csv", "--output")
