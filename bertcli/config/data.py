"""The options of the commands that make vocabularies and pre-training data."""

from dataclasses import dataclass
from typing import Literal

from bertcli.config.options import Config, argument, option


@dataclass(kw_only=True)
class BuildVocabConfig(Config):
    """Options of `bert build-vocab`."""

    text: list[str] = argument([], "Text files (may be .gz, .xz, .zst), folders of them, or patterns.", "TEXT...")
    out: str | None = option(None, "Folder to write; default: vocab, or with --add-words the model's name + -words.")
    vocab_size: int = option(30522, "Number of tokens, the special and unused ones included.", minimum=10)
    unused_tokens: int = option(0, "Places kept free for words added later (unused0, unused1, ...).", minimum=0)
    cased: bool = option(False, "Keep upper case and accents.")
    min_frequency: int = option(2, "A piece must occur this often to be merged.", minimum=1)
    limit_alphabet: int = option(1000, "Keep this many characters, the most frequent ones.", minimum=1)
    add_words: str | None = option(None, "Learn nothing; add the words of this file, one a line, to a model.")
    to: str | None = option(None, "With --add-words: a run, a folder or a Hub name; a copy of it gets the words.")


@dataclass(kw_only=True)
class MakePretrainingDataConfig(Config):
    """Options of `bert make-pretraining-data` (defaults of create_pretraining_data.py)."""

    text: list[str] = argument([], "Text files (may be .gz, .xz, .zst), folders of them, or patterns.", "TEXT...")
    tokenizer: str | None = option(None, "Folder, Hub name or vocab.txt; default: the newest vocabulary here.")
    cased: bool = option(False, "Keep upper case (only for a bare vocab.txt; a folder knows its own casing).")
    out: str = option("pretraining-data", "Folder to write.")
    max_seq_length: int = option(128, "Longest instance, in tokens with [CLS] and [SEP].", minimum=5)
    max_predictions_per_seq: int = option(20, "Most masked tokens an instance.", minimum=1)
    masked_lm_prob: float = option(0.15, "Share of tokens masked.", minimum=0, maximum=1)
    dupe_factor: int = option(10, "Passes over the text, each with other splits and masks.", minimum=1)
    short_seq_prob: float = option(0.1, "Share of documents cut to a shorter random length.", minimum=0, maximum=1)
    whole_word_mask: bool = option(False, "Mask all pieces of a word together.")
    masking: Literal["static", "dynamic"] = option(
        "static", "static: masks on disk, as the original; dynamic: drawn anew for each batch."
    )
    next_sentence: bool = option(True, "Make pairs for next-sentence prediction; without: one run of text a row.")
    join_files: bool = option(False, "As the original: only a blank line ends a document, not the end of a file.")
    seed: int = option(12345, "Seed of all draws.", minimum=0)
    shards: int | None = option(None, "Number of shards; default: one for each 8 MB of text.", minimum=1)
    workers: int | None = option(None, "Processes at work; default: one a core. Does not change the result.", minimum=1)
    overwrite: bool = option(False, "Replace data that was made with other options.")
