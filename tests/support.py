"""Models of each kind of task, and of pre-training, as the tests build and load them by name; and what a model card shows."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForPreTraining, PreTrainedModel

from bertcli.data.text.tokenization import WordPiece
from bertcli.families.bert import BERT
from bertcli.kernels import cpu
from bertcli.kinds import KINDS
from bertcli.models import heads, loading
from bertcli.models.model_with_loss import ModelWithLoss
from bertcli.objectives.masked_lm import MLM
from bertcli.objectives.next_sentence import MLM_AND_NSP

HEADS = {name: (kind.outputs, kind.losses) for name, kind in KINDS.items()}
PRETRAINING = {"pretrain": MLM_AND_NSP, "masked_lm": MLM}
HEADS["pretrain"] = (MLM_AND_NSP.outputs, MLM_AND_NSP.losses)


def with_loss(model: PreTrainedModel, kind: str) -> ModelWithLoss:
    if kind in PRETRAINING:
        return PRETRAINING[kind].with_loss(model)
    if kind == "fill":  # the logits of the whole vocabulary, and their loss
        logits = lambda model, batch: {"masked_lm": heads.masked_lm_logits(model, batch)}  # noqa: E731
        return ModelWithLoss(model, logits, MLM.losses)
    return KINDS[kind].with_loss(model)


def take_kernels(patch: pytest.MonkeyPatch, tokens: int = 1) -> None:
    """Have predictions take kernels in each pass over so many tokens, from the first on."""
    patch.setattr(cpu, "MANY", tokens)
    patch.setattr(cpu, "WORTH_LOADING", 0)


def build(
    kind: str, size: str, tokenizer: WordPiece, labels: dict[str, Any], seed: int, deviation: float = 0.02
) -> PreTrainedModel:
    model_class = AutoModelForPreTraining if kind in PRETRAINING else KINDS[kind].model_class(None, labels)
    config = {**labels, "initializer_range": deviation}
    return loading.build_model(model_class, BERT, size, tokenizer, config, seed)


def load(kind: str | None, source: str, labels: dict[str, Any] | None = None, seed: int = 0) -> PreTrainedModel:
    if kind is None or kind in PRETRAINING:
        return loading.load_model(source, AutoModelForPreTraining if kind else None, labels, seed=seed)
    return KINDS[kind].load_model(source, labels, seed)


def use_card(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Do what the model card of a run shows: three lines of Python and a command; return what they print."""
    from bertcli.cli.main import main

    card = (run / "README.md").read_text(encoding="utf-8")
    (python,) = re.findall(r"^```python\n(.*?)^```$", card, flags=re.DOTALL | re.MULTILINE)
    assert len(python.strip().splitlines()) == 3
    exec(python, {})
    monkeypatch.setattr(
        sys, "argv", shlex.split(re.findall(r"^```bash\n(.*?)^```$", card, flags=re.DOTALL | re.MULTILINE)[0])
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out
