"""A left-to-right and a right-to-left BERT, joined: made by `bert pretrain --objective two-directions`."""

from bertcli.families.bert import BERT
from bertcli.families.family import Family

TWO_DIRECTIONS = Family("two directions", ("two-directions",), is_packed=True, sizes=BERT.sizes, settings=BERT.settings)
