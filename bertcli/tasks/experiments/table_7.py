"""Table 7: fine-tuning on CoNLL-2003, and a BiLSTM on frozen layers."""

from bertcli.tasks.experiments.experiment import Column, Experiment, System
from bertcli.tasks.paper import FROZEN_SCORES, TABLES

FINETUNED = "BERT base"
DEV, TEST = TABLES[7].columns
SENTENCES = "Sentences are read alone; the paper adds the text around them, which is worth up to a point of test F1."
TABLE_7 = Experiment(
    "table-7",
    TABLES[7],
    (
        System(FINETUNED, words="fine-tuned"),
        *(
            System(layers, FINETUNED, finetune={"frozen": True, "frozen_layers": layers}, leaves_out=(TEST,))
            for layers in FROZEN_SCORES
        ),
    ),
    (Column(DEV, "conll2003", "f1"), Column(TEST, "conll2003", "f1", split="test")),
    (SENTENCES,),
)
