"""The teacher of a distillation, and what is learnt from it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from bertcli.config.distillation import HIDDEN, LOGITS, DistillConfig
from bertcli.data.checksums import digest_of
from bertcli.errors import UserError
from bertcli.lifecycle.workspace import resolve_model

TEACHER_FILES = ("*.safetensors", "config.json", "vocab.txt", "tokenizer.json")  # which decide its answers


def targets_of(config: DistillConfig, is_pretraining: bool) -> set[str]:
    """What is learnt from the teacher: as asked, or logits, and at pre-training hidden states."""
    return set(config.targets) or ({LOGITS, HIDDEN} if is_pretraining else {LOGITS})


def check_weights(weights: Mapping[str, float]) -> None:
    """Raise UserError if no part of the loss has a weight."""
    if not any(weights.values()):
        raise UserError("Every part of the loss has the weight 0.", "Leave out one of the options --...-weight.")


def find_teacher(config: DistillConfig, saved: dict[str, Any]) -> tuple[str, str]:
    """The folder of the teacher and the digest of its files.

    Raises UserError if there is none, or a resumed run, whose configuration is `saved`, had another.
    """
    folder = resolve_model(config.teacher)
    digest = _digest(Path(folder))
    if saved.get("teacher_digest", digest) != digest:
        what = f"`{config.teacher}` is not the teacher that the run in `{saved.get('out')}` was begun with."
        raise UserError(what, "Name that one: --teacher MODEL; or start a new run.")
    return folder, digest


def _digest(folder: Path) -> str:
    """A digest of the files that decide what a model answers."""
    paths = sorted({path for pattern in TEACHER_FILES for path in folder.glob(pattern)})
    return sha256(" ".join(f"{path.name} {digest_of(path)}" for path in paths).encode()).hexdigest()
