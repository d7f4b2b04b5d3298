"""Table 3: fine-tuning on SQuAD 2.0."""

from bertcli.tasks.experiments.experiment import Experiment, System, columns_of
from bertcli.tasks.paper import TABLES

TABLE_3 = Experiment("table-3", TABLES[3], (System("BERT large"),), columns_of(TABLES[3]))
