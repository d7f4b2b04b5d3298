"""The paper's experiments as values, one file each."""

from bertcli.tasks.experiments.experiment import Experiment
from bertcli.tasks.experiments.family import FAMILY
from bertcli.tasks.experiments.figure_5 import FIGURE_5
from bertcli.tasks.experiments.table_1 import TABLE_1
from bertcli.tasks.experiments.table_2 import TABLE_2
from bertcli.tasks.experiments.table_3 import TABLE_3
from bertcli.tasks.experiments.table_4 import TABLE_4
from bertcli.tasks.experiments.table_5 import TABLE_5
from bertcli.tasks.experiments.table_6 import TABLE_6
from bertcli.tasks.experiments.table_7 import TABLE_7
from bertcli.tasks.experiments.table_8 import TABLE_8

ALL = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_8, FIGURE_5, FAMILY)
EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in ALL}
