"""Options of the commands that make vocabularies and pre-training data."""

from dataclasses import dataclass

from bertcli.config.options import MAX_SEED, Config, option
from bertcli.families import DISTILLED, objectives, pretrainable
from bertcli.families.bert import BERT

FAMILY_OF_VOCABULARY = "Family whose special tokens are in it: {choices}."
FAMILY_OF_DATA = "Family to pre-train: {choices}; it sets what is not given."
TEXT = "Text files or tables (may be .gz, .xz, .zst), folders of them, patterns, or URLs such as s3://bucket/*.txt."
TEXT_COLUMN = "Column of the texts in a table (CSV, TSV, JSONL, Parquet); default: by its name."
OBJECTIVE = "Pre-training objective: {choices}"
SENTENCES = "Cut each line, such as a paragraph, into sentences at . ! ? …"
MASKING = ("static", "dynamic")
MASK_SHARES = "Percentages of masked tokens that become [MASK], stay the same, become random."
ALGORITHMS = ("wordpiece", "byte-bpe", "sentencepiece")
NGRAM_MASK = "Mask runs of up to this many tokens (words with --whole-word-mask), short ones more often; 0: no runs."
SPAN_MASK = "Mask spans of up to ten words, their lengths geometric (SpanBERT)."


@dataclass(kw_only=True)
class BuildVocabConfig(Config):
    """Options of `bert build-vocab`."""

    text: list[str] = option([], TEXT, metavar="TEXT...")
    text_column: str | None = option(None, TEXT_COLUMN)
    out: str | None = option(None, "Output folder; default: vocab, or with --add-words the model's name + -words.")
    algorithm: str | None = option(None, "How pieces are learnt: {choices}; default: the family's.", choices=ALGORITHMS)
    family: str | None = option(None, FAMILY_OF_VOCABULARY, choices=pretrainable, elsewhere=DISTILLED)
    vocab_size: int = option(30522, "Vocabulary size, including special and unused tokens.", minimum=10)
    unused_tokens: int = option(0, "Number of unused tokens, reserved for words that are added later.", minimum=0)
    cased: bool = option(False, "Keep upper case and accents.")
    min_frequency: int = option(2, "Minimum frequency of a pair of pieces to be merged.", minimum=1)
    limit_alphabet: int = option(1000, "Maximum number of characters; the most frequent are kept.", minimum=1)
    add_words: str | None = option(None, "Instead of learning, add the words of this file, one per line, to --to.")
    to: str | None = option(None, "With --add-words: a run, a folder or a Hub name; a copy of it gets the words.")


@dataclass(kw_only=True)
class MakePretrainingDataConfig(Config):
    """Options of `bert make-pretraining-data` (defaults of create_pretraining_data.py)."""

    text: list[str] = option([], TEXT, metavar="TEXT...")
    text_column: str | None = option(None, TEXT_COLUMN)
    family: str = option(BERT.key, FAMILY_OF_DATA, choices=pretrainable, elsewhere=DISTILLED)
    objective: str | None = option(None, f"{OBJECTIVE}; default: the family's.", choices=objectives)
    tokenizer: str | None = option(None, "Folder, Hub name or vocab.txt; default: the latest in this folder.")
    cased: bool = option(False, "Keep upper case (for a vocab.txt alone; a folder states its own casing).")
    out: str = option("pretraining-data", "Output folder, or a URL such as s3://bucket/folder.", takes_url=True)
    max_seq_length: int = option(128, "Maximum length of an instance in tokens, [CLS] and [SEP] included.", minimum=5)
    max_predictions_per_seq: int = option(20, "Maximum number of masked tokens per instance.", minimum=1)
    masked_lm_prob: float = option(0.15, "Proportion of masked tokens, at least one a row.", minimum=0, maximum=1)
    dupe_factor: int = option(10, "Number of passes over the text; splits and masks differ in each.", minimum=1)
    short_seq_prob: float = option(0.1, "Probability of a shorter, random instance length.", minimum=0, maximum=1)
    whole_word_mask: bool = option(False, "Mask all pieces of a word together.")
    mask_shares: str = option("80,10,10", MASK_SHARES)
    span_mask: bool = option(False, SPAN_MASK)
    ngram_mask: int = option(0, NGRAM_MASK, minimum=0)
    masking: str = option("static", "static: masks are stored; dynamic: drawn for each batch.", choices=MASKING)
    next_sentence: bool = option(True, "Make sentence pairs for next-sentence prediction; else one text per instance.")
    blanks_separate_docs: bool = option(True, "A blank line ends a document.")
    split_sentences: bool = option(False, SENTENCES)
    join_files: bool = option(False, "Only a blank line ends a document, not the end of a file, as in the original.")
    seed: int = option(12345, "Random seed.", minimum=0, maximum=MAX_SEED)
    shards: int | None = option(None, "Number of shards; default: one per 8 MB of text.", minimum=1)
    workers: int | None = option(None, "Number of processes; the data stay the same; default: cores.", minimum=1)
    engine: str = option("local", "local: processes of this machine; ray: a Ray cluster.", choices=("local", "ray"))
    ray_address: str | None = option(None, "With --engine ray: the cluster, e.g. auto; default: one on this machine.")
    overwrite: bool = option(False, "Replace data that was made with other options.")
