"""BERT's family at equal compute: each is pre-trained on the same text for the same floating-point operations."""

from bertcli.tasks.experiments.experiment import Column, Experiment, Options, System
from bertcli.tasks.paper import PaperTable

WORDS = "masked words"
BERT = "BERT"
DOCUMENTS: Options = {"objective": "doc-sentences"}
TASKS = ("glue/sst2", "glue/cola", "glue/mrpc", "glue/rte", "glue/stsb", "conll2003", "banking77")
METRICS = {"glue/cola": "matthews_correlation", "glue/mrpc": "f1", "glue/stsb": "spearmanr", "conll2003": "f1"}
FAMILY = Experiment(
    "family",
    PaperTable("Families at equal compute", (), {}),
    (
        System(BERT, pretrain={"objective": "mlm+nsp"}),
        System("BERT, one text", BERT, {"objective": "mlm"}, {"next_sentence": False}),
        System("BERT, whole words", BERT, {"objective": "mlm+nsp", "whole_word_mask": True}),
        System("BERT, spans", BERT, {"objective": "mlm+nsp", "span_mask": True}),
        System("BERT, sentence order", BERT, {"objective": "mlm+sop"}, {"objective": "mlm+sop"}),
        System("RoBERTa", BERT, {"objective": "full-sentences"}, family="roberta"),
        System("RoBERTa, documents", "RoBERTa", DOCUMENTS, DOCUMENTS, family="roberta"),
        System("ALBERT", BERT, {"objective": "mlm+sop"}, family="albert"),
        System("ELECTRA", BERT, {"objective": "replaced-tokens"}, leaves_out=(WORDS,), family="electra"),
        System("XLNet", BERT, {"objective": "permutation-lm"}, leaves_out=(WORDS,), family="xlnet"),
        System("DeBERTa", BERT, {"objective": "masked-ngrams"}, family="deberta"),
        System("DeBERTa 3", BERT, {"objective": "rtd-gdes"}, leaves_out=(WORDS,), family="deberta-v3"),
        System("DeBERTa 3, shared", "DeBERTa 3", {"objective": "rtd-es"}, leaves_out=(WORDS,), family="deberta-v3"),
    ),
    (
        Column(WORDS, "", "masked_lm_accuracy", name=f"{WORDS}, accuracy"),
        *(Column("", task, METRICS.get(task, "accuracy")) for task in TASKS),
    ),
    ("Accuracies of masked words compare only between rows with the same vocabulary and masks.",),
    equal_compute=True,
)
