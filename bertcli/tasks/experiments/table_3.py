"""Table 3: fine-tuning on SQuAD 2.0."""

from bertcli.tasks.experiments.experiment import Experiment, System, columns_of
from bertcli.tasks.paper import TABLES

NOTE = "answers are scored at the no-answer threshold 0; the paper took the threshold that is best on dev (a run's `best_f1`)"
TABLE_3 = Experiment("table-3", TABLES[3], (System("BERT large"),), columns_of(TABLES[3]), (NOTE,))
