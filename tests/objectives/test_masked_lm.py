"""Masked-LM says on which side of its plateau a run ended."""

from bertcli.objectives.left_to_right import NEXT_TOKEN
from bertcli.objectives.masked_lm import MASKED_LM


def test_the_verdict_compares_the_loss_with_that_of_token_frequencies() -> None:
    assert "below it" in MASKED_LM.verdict({"masked_lm_loss": 2.0, "token_entropy": 5.0})
    assert "needs more steps" in MASKED_LM.verdict({"masked_lm_loss": 4.9, "token_entropy": 5.0})
    assert MASKED_LM.verdict({"masked_lm_loss": 4.9}) == ""  # data of before entropies were counted
    said = NEXT_TOKEN.verdict({"next_token_loss": 4.0, "token_entropy": 5.0})
    assert said.startswith("Next-token loss 4.00; knowing only how frequent each token is gives 5.00.")
    assert said.endswith("below it: the model uses the words before each.")
