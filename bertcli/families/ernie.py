"""ERNIE (Sun et al. 2019), which is built as BERT and has its heads."""

from bertcli.families.family import Family

ERNIE = Family("ERNIE", ("ernie",), is_packed=True)
