"""X-MOD runs padded, and says which language it reads."""

from pathlib import Path

import pytest

from tests.families.checks import KINDS, SIZES, check_outputs, save

CONFIG = {**SIZES, "languages": ["en_XX", "de_DE"]}


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_transformers(kind: str, tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    theirs = save("Xmod", CONFIG, KINDS[kind], tmp_path)
    theirs.set_default_language("en_XX")
    check_outputs("Xmod", CONFIG, kind, tmp_path, packed=False, theirs=theirs)
    assert "language: en_XX" in said.text
