"""Table 8: what masked words are replaced by, as percentages of [MASK]/same/random."""

from bertcli.tasks.experiments.experiment import Column, Experiment, Options, System
from bertcli.tasks.paper import TABLES

MNLI, TAGS, FEATURES = TABLES[8].columns
PAPERS_CHOICE, *OTHERS = TABLES[8].rows  # 80/10/10 is what `bert pretrain` does anyway
OBJECTIVE: Options = {"objective": "mlm+nsp"}
TABLE_8 = Experiment(
    "table-8",
    TABLES[8],
    (
        System(PAPERS_CHOICE, pretrain=OBJECTIVE),
        *(System(row, PAPERS_CHOICE, {**OBJECTIVE, "mask_shares": row.replace("/", ",")}) for row in OTHERS),
    ),
    (
        Column(MNLI, "glue/mnli", "accuracy"),
        Column(TAGS, "conll2003", "f1"),
        Column(FEATURES, "conll2003", "f1", finetune={"frozen": True, "frozen_layers": "concat-last-four"}),
    ),
    ("Words are tagged with the vocabulary of all tasks, which is uncased unless --tokenizer names a cased one.",),
)
