"""A WordPiece vocabulary, as BERT, ELECTRA and DistilBERT have."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer, trainers

from bertcli import say
from bertcli.config.data import BuildVocabConfig
from bertcli.data.text.tokenization import SPECIAL_TOKENS, WordPiece, plain_backend
from bertcli.errors import UserError
from bertcli.families.family import Family

EMOJI_FORMS = "\ufe0e\ufe0f"  # which say how the sign before them is drawn
LEAST_MARKS = 0.01  # of the characters of a text, whose script then has them


def learn(
    lines: Iterable[str], characters: Counter[str], config: BuildVocabConfig, family: Family, source: str
) -> tuple[WordPiece, int]:
    """Learn a vocabulary; return it and the size of its alphabet. Raises UserError if it is too small for that."""
    backend = plain_backend({"[UNK]": 0}, config.cased)
    if drops_marks(characters, backend):
        say("an uncased vocabulary drops the vowel signs of this script, as the original's does: --cased keeps them")
    alphabet = most_frequent(normalized(characters, backend), config.limit_alphabet)
    tokens = _learn(lines, _reserved_tokens(alphabet, backend, config), backend, config)
    return WordPiece({token: index for index, token in enumerate(tokens)}, config.cased, source), len(alphabet)


def normalized(characters: Counter[str], backend: Tokenizer) -> Counter[str]:
    """The counts of the characters that normalisation makes of others."""
    counts: Counter[str] = Counter()
    for character, count in characters.items():
        for normal in backend.normalizer.normalize_str(character).strip():
            counts[normal] += count
    return counts


def drops_marks(characters: Counter[str], backend: Tokenizer) -> bool:
    """Whether a tokenizer drops marks that are a hundredth of the characters or more: vowel signs, not the accents of letters."""
    of_mark = (each for each in characters if unicodedata.category(each) in ("Mn", "Mc"))
    marks = [each for each in of_mark if not unicodedata.combining(each) and each not in EMOJI_FORMS]
    dropped = sum(characters[each] for each in marks if not backend.normalizer.normalize_str(each))
    return dropped >= LEAST_MARKS * characters.total()


def most_frequent(counts: Counter[str], limit: int) -> list[str]:
    """The most frequent characters, in code-point order; says what share of the text they are, if some are dropped."""
    kept = sorted(counts, key=lambda character: (-counts[character], character))[:limit]
    dropped = len(counts) - len(kept)
    if dropped:
        share = sum(counts[c] for c in kept) / counts.total()
        say(f"kept {len(kept):,} characters ({100 * share:.4f} % of the text) and dropped the {dropped:,} rarest")
    return sorted(kept)


def _reserved_tokens(alphabet: list[str], backend: Tokenizer, config: BuildVocabConfig) -> list[str]:
    """Special and unused tokens, the alphabet, and its `##` pieces, whose ids are fixed before training.

    The trainer numbers `##x` pieces in the order of a hash map and breaks ties by number: no two vocabularies are alike.
    """
    split, normalize = backend.pre_tokenizer.pre_tokenize_str, backend.normalizer.normalize_str
    joins = [character for character in alphabet if len(split(normalize(f"a{character}"))) == 1]
    unused = [f"[unused{number}]" for number in range(config.unused_tokens)]
    reserved = [*SPECIAL_TOKENS, *unused, *alphabet, *(f"##{c}" for c in joins)]
    if len(reserved) > config.vocab_size:
        what = f"--vocab-size {config.vocab_size} is too small: special tokens and alphabet take {len(reserved):,}."
        raise UserError(
            what, f"Give a larger one, such as --vocab-size {len(reserved) + 1000}, or a smaller --limit-alphabet."
        )
    return reserved


def _learn(lines: Iterable[str], reserved: list[str], backend: Tokenizer, config: BuildVocabConfig) -> list[str]:
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        limit_alphabet=0,
        special_tokens=reserved,
        show_progress=False,
        continuing_subword_prefix="##",
    )
    backend.train_from_iterator(lines, trainer)
    vocab = backend.get_vocab(with_added_tokens=True)
    return sorted(vocab, key=vocab.__getitem__)
