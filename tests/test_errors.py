"""A wrong request is said in two lines."""

import pickle

from bertcli.errors import UserError


def test_a_wrong_request_keeps_its_words_on_the_way_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(UserError("what", "hint")))
    assert (error.message, error.hint) == ("what", "hint")
