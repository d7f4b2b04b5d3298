"""CoNLL-2003: the names in news (paper: Table 7; each sentence had the document around it there, and stands alone here)."""

from bertcli.tasks.task import Files, Task

CONLL2003 = Task(
    "conll2003",
    "tag",
    Files(
        {
            "train": "conll2003/train.txt|conll2003/eng.train",
            "dev": "conll2003/valid.txt|conll2003/dev.txt|conll2003/testa.txt|conll2003/testa|conll2003/eng.testa",
            "test": "conll2003/test.txt|conll2003/testb.txt|conll2003/testb|conll2003/eng.testb",
        },
        {},
    ),
    ("tomaarsen/conll2003", None),
    ("f1", "precision", "recall"),
    ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"),
    paper={"dev": {"base f1": 96.4, "large f1": 96.6}, "test": {"base f1": 92.4, "large f1": 92.8}},
)

# Dev F1 of the paper's base model by what a BiLSTM reads of it, frozen (Table 7).
FROZEN_SCORES = {
    "embeddings": 91.0,
    "second-to-last": 95.6,
    "last": 94.9,
    "weighted-sum-last-four": 95.9,
    "concat-last-four": 96.1,
    "weighted-sum-all": 95.5,
}
