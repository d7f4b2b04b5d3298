"""A unigram vocabulary of sentence pieces, as ALBERT and XLNet have."""

import io
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import Regex, normalizers

from bertcli import say
from bertcli.config.data import BuildVocabConfig
from bertcli.data.text.tokenization import Subwords
from bertcli.errors import UserError
from bertcli.families.family import Family
from bertcli.lifecycle.vocabularies.wordpiece import drops_marks, most_frequent, normalized

SYMBOLS = '()"-.–£€'  # never part of a longer piece, as in the vocabularies of ALBERT and XLNet
# No piece has digits beside marks: the authors of ALBERT and XLNet split such pieces again, and so do not all tokenizers.
DIGITS_AND_MARKS = re.compile(r"(?<=\d)(?=[^\w\s])|(?<=[^\w\s])(?=\d)")
APART = "\x01"  # put between what no piece may join
THREADS = 16  # on any machine, as sums depend on it
LONGEST_LINE = 1 << 30  # bytes


def learn(
    lines: Iterable[str], characters: Counter[str], config: BuildVocabConfig, family: Family, source: str
) -> tuple[Subwords, int]:
    """Learn pieces and their probabilities, of text normalized as the family's tokenizer does.

    Raises UserError if the size is too small for the characters, or the tokenizer drops a script's vowel signs.
    """
    unused = [f"[unused{number}]" for number in range(config.unused_tokens)]
    special = [*family.special_tokens, *SYMBOLS, *unused, *family.last_tokens]
    options = {"do_lower_case": not config.cased}
    first = [(token, 0.0) for token in special]  # also of symbols, as SentencePiece has it
    empty = family.new_tokenizer(source, vocab=first, **options).backend
    if drops_marks(characters, empty):
        options["keep_accents"] = True
        empty = family.new_tokenizer(source, vocab=first, **options).backend
        if drops_marks(characters, empty):
            what = f"The tokenizer of {family.name} in transformers drops the vowel signs of this script."
            raise UserError(what, "Give a family whose tokenizer keeps them: --family deberta-v3")
        say("accents and vowel signs are kept, as this script has them")
    alphabet = most_frequent(normalized(characters, empty), config.limit_alphabet)
    if (reserved := len({*special, *alphabet, "▁"})) > config.vocab_size:
        what = f"--vocab-size {config.vocab_size} is too small: special tokens and alphabet take {reserved:,}."
        raise UserError(
            what, f"Give a larger one, such as --vocab-size {reserved + 1000}, or a smaller --limit-alphabet."
        )
    others = Regex("[^" + "".join(f"\\x{{{ord(character):x}}}" for character in alphabet) + "]")
    normalizer = normalizers.Sequence([empty.normalizer, normalizers.Replace(others, " ")])
    learnt = _pieces(lines, normalizer, config.vocab_size - len(special))
    pieces = sorted(learnt.items(), key=lambda each: (-each[1], each[0]))
    vocab = [*first[: -len(family.last_tokens) or None], *pieces, *first[len(first) - len(family.last_tokens) :]]
    return family.new_tokenizer(source, vocab=vocab, **options), len(alphabet)


def _pieces(lines: Iterable[str], normalizer: Any, count: int) -> dict[str, float]:
    """The pieces that SentencePiece learns, each with the logarithm of its probability: `count`, or fewer from a small text."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=(DIGITS_AND_MARKS.sub(APART, normalizer.normalize_str(line)) for line in lines),
        model_writer=written,
        vocab_size=count + len(SYMBOLS) + 1,
        hard_vocab_limit=False,
        user_defined_symbols=[*SYMBOLS],
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        character_coverage=1.0,
        normalization_rule_name="identity",
        pretokenization_delimiter=APART,
        max_sentence_length=LONGEST_LINE,
        num_threads=THREADS,
        minloglevel=2,
    )
    made = SentencePieceProcessor(model_proto=written.getvalue())
    scores = {made.id_to_piece(number): made.get_score(number) for number in range(1, made.get_piece_size())}
    return {piece: round(score, 3) for piece, score in scores.items() if piece not in SYMBOLS}
