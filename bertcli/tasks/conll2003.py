"""CoNLL-2003: named entities in news; the paper has the document around each sentence, this task does not."""

from bertcli.tasks.task import Files, Task

DEV, TEST = ("valid.txt", "dev.txt", "testa.txt", "testa", "eng.testa"), ("test.txt", "testb.txt", "testb", "eng.testb")
FILES = {"train": ("train.txt", "eng.train"), "dev": DEV, "test": TEST}
CONLL2003 = Task(
    "conll2003",
    "tag",
    Files({split: "|".join(f"conll2003/{name}" for name in names) for split, names in FILES.items()}),
    ("tomaarsen/conll2003", None),
    ("f1", "precision", "recall"),
    ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"),
)
