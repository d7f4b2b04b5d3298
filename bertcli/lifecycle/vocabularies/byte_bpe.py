"""A vocabulary of byte pairs, as GPT-2's, which RoBERTa has: no text has an unknown token."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bertcli.config.data import BuildVocabConfig
from bertcli.data.text.tokenization import Subwords
from bertcli.errors import UserError
from bertcli.families.family import Family


def learn(
    lines: Iterable[str], characters: Counter[str], config: BuildVocabConfig, family: Family, source: str
) -> tuple[Subwords, int]:
    """Learn pairs of bytes; the first word of a line is learnt without a space before it, as the original reads it.

    Upper case and accents always stay. Raises UserError if the size is too small for the bytes.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    last = [f"[unused{number}]" for number in range(config.unused_tokens)] + [*family.last_tokens]
    reserved = len(family.special_tokens) + len(alphabet) + len(last)
    if reserved > config.vocab_size:
        what = f"--vocab-size {config.vocab_size} is too small: special tokens and bytes take {reserved:,}."
        raise UserError(what, f"Give a larger one, such as --vocab-size {reserved + 1000}.")
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    first, size = list(family.special_tokens), config.vocab_size - len(last)
    frequent: Any = {"vocab_size": size, "min_frequency": config.min_frequency, "show_progress": False}
    backend.train_from_iterator(lines, trainers.BpeTrainer(special_tokens=first, initial_alphabet=alphabet, **frequent))
    model = json.loads(backend.to_str())["model"]
    vocab = {**model["vocab"], **{token: len(model["vocab"]) + number for number, token in enumerate(last)}}
    return family.new_tokenizer(source, vocab=vocab, merges=[tuple(pair) for pair in model["merges"]]), len(alphabet)
