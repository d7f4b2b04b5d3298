"""Table 4: fine-tuning on SWAG."""

from bertcli.tasks.experiments.experiment import Experiment, System, columns_of
from bertcli.tasks.paper import TABLES

TABLE_4 = Experiment("table-4", TABLES[4], (System("BERT base"),), columns_of(TABLES[4]))
