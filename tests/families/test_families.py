"""Each family is found in one table, which costs no heavy import."""

import subprocess
import sys

import pytest
from transformers import CONFIG_MAPPING

from bertcli.errors import UserError
from bertcli.families import FAMILIES, family_of
from bertcli.families.bert import BERT
from bertcli.families.other import OTHER


def test_each_model_type_is_transformers_and_of_one_family() -> None:
    types = [model_type for family in FAMILIES for model_type in family.model_types]
    assert len(set(types)) == len(types)
    for model_type in types:
        assert model_type in CONFIG_MAPPING
        assert model_type in family_of(model_type).model_types
    assert family_of("convbert") is OTHER


def test_an_unknown_size_names_the_nearest() -> None:
    with pytest.raises(UserError, match="Unknown size `tinny`") as caught:
        BERT.get_size("tinny")
    assert "`tiny`" in caught.value.hint


def test_the_table_imports_no_torch() -> None:
    script = "import sys, bertcli.families; sys.exit(bool({'torch', 'transformers', 'numpy'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
