"""Table 1: fine-tuning on GLUE."""

from bertcli.tasks.experiments.experiment import Column, Experiment, System, columns_of
from bertcli.tasks.paper import TABLES

DEV = "Ours are scores of dev; the paper's are of test, whose labels are not public."
TABLE_1 = Experiment(
    "table-1", TABLES[1], (System("BERT base"),), (*columns_of(TABLES[1]), Column("average", "", "average")), (DEV,)
)
