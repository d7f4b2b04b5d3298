"""Table 2: fine-tuning on SQuAD 1.1."""

from bertcli.tasks.experiments.experiment import Experiment, System, columns_of
from bertcli.tasks.paper import TABLES

TABLE_2 = Experiment("table-2", TABLES[2], (System("BERT base"),), columns_of(TABLES[2]))
