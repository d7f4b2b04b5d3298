"""The vocabulary's cross entropy is torch's, in less memory."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from bertcli.models import cross_entropy as ours


@pytest.mark.parametrize("by_kernels", [True, False])
@pytest.mark.parametrize("masks", [0, 1, 7, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_are_those_of_torch(
    masks: int, dtype: torch.dtype, by_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERT_KERNELS", "on" if by_kernels else "off")
    monkeypatch.setattr(ours, "CPU_ELEMENTS", 32 * 300)  # several parts, the last of them shorter
    torch.manual_seed(0)
    logits = (10 * torch.randn(masks, 300)).to(dtype).requires_grad_()
    labels = torch.randint(0, 300, (masks,))
    expected = cross_entropy(logits.float(), labels, reduction="sum")
    (wanted,) = torch.autograd.grad(expected / 3, logits)
    found = ours.vocabulary_cross_entropy(logits, labels)
    (given,) = torch.autograd.grad(found / 3, logits)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    assert given.dtype == dtype
    torch.testing.assert_close(given, wanted, rtol=1e-5 if dtype == torch.float32 else 2**-8, atol=1e-7)


def test_a_row_wider_than_a_part_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERT_KERNELS", "off")
    monkeypatch.setattr(ours, "CPU_ELEMENTS", 10)
    logits, labels = torch.randn(3, 50), torch.tensor([0, 49, 7])
    expected = cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(ours.vocabulary_cross_entropy(logits, labels), expected)
