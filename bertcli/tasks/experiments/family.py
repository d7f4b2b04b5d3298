"""BERT's family at equal compute: each is pre-trained on the same text for the same floating-point operations."""

from bertcli.tasks.experiments.experiment import MINUTES, Column, Experiment, Options, System
from bertcli.tasks.paper import PaperTable

WORDS = "masked words"
BERT = "BERT"
DOCUMENTS: Options = {"objective": "doc-sentences"}
PAIRS: Options = {"objective": "sentence-pairs"}
MEMORY: Options = {"objective": "permutation-lm", "memory": 16}
STUDENT = "DistilBERT's operations and minutes are its own and its teacher's answers; those of the teacher's training come first."
ORIGINAL = System(BERT, pretrain={"objective": "mlm+nsp"})
TASKS = ("glue/sst2", "glue/cola", "glue/mrpc", "glue/rte", "glue/stsb", "conll2003", "banking77")
METRICS = {"glue/cola": "matthews_correlation", "glue/mrpc": "f1", "glue/stsb": "spearmanr", "conll2003": "f1"}
FAMILY = Experiment(
    "family",
    PaperTable("Families at equal compute", (), {}),
    (
        ORIGINAL,
        System("BERT, one text", BERT, {"objective": "mlm"}, {"next_sentence": False}),
        System("BERT, whole words", BERT, {"objective": "mlm+nsp", "whole_word_mask": True}),
        System("BERT, spans", BERT, {"objective": "mlm+nsp", "span_mask": True}),
        System("BERT, sentence order", BERT, {"objective": "mlm+sop"}, {"objective": "mlm+sop"}),
        System("BERT, capitals", BERT, {"objective": "mlm+nsp"}, vocabulary={"cased": True}),
        System("DistilBERT", BERT, {}, {"next_sentence": False}, teacher=ORIGINAL, note=STUDENT),
        System("RoBERTa", BERT, {"objective": "full-sentences"}, family="roberta"),
        System("RoBERTa, documents", "RoBERTa", DOCUMENTS, DOCUMENTS, family="roberta"),
        System("RoBERTa, sentence pairs", "RoBERTa", PAIRS, PAIRS, family="roberta"),
        System("ALBERT", BERT, {"objective": "mlm+sop"}, family="albert"),
        System("ALBERT, single tokens", "ALBERT", {"objective": "mlm+sop", "ngram_mask": 0}, family="albert"),
        System("ELECTRA", BERT, {"objective": "replaced-tokens"}, leaves_out=(WORDS,), family="electra"),
        System("XLNet", BERT, {"objective": "permutation-lm"}, leaves_out=(WORDS,), family="xlnet"),
        System("XLNet, memory", "XLNet", MEMORY, leaves_out=(WORDS,), family="xlnet"),
        System("DeBERTa", BERT, {"objective": "masked-ngrams"}, family="deberta"),
        System("DeBERTa 3", BERT, {"objective": "rtd-gdes"}, leaves_out=(WORDS,), family="deberta-v3"),
        System("DeBERTa 3, shared", "DeBERTa 3", {"objective": "rtd-es"}, leaves_out=(WORDS,), family="deberta-v3"),
        System("DeBERTa 3, apart", "DeBERTa 3", {"objective": "rtd-none"}, leaves_out=(WORDS,), family="deberta-v3"),
    ),
    (
        Column("", "", MINUTES),
        Column(WORDS, "", "masked_lm_accuracy", name=f"{WORDS}, accuracy"),
        *(Column("", task, METRICS.get(task, "accuracy")) for task in TASKS),
    ),
    ("Accuracies of masked words compare only between rows with the same vocabulary and masks.",),
    equal_compute=True,
)
