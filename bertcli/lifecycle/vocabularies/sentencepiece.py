"""A unigram vocabulary of sentence pieces, as ALBERT and XLNet have."""

import json
from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from bertcli import say
from bertcli.config.data import BuildVocabConfig
from bertcli.data.text.tokenization import Subwords
from bertcli.errors import UserError
from bertcli.families.family import Family
from bertcli.lifecycle.vocabularies.wordpiece import drops_marks, most_frequent, normalized

SYMBOLS = '()"-.–£€'  # never part of a longer piece, as in the vocabularies of ALBERT and XLNet
# A piece has no letter beside what is none, and a space only at its front, as SentencePiece has it. Nor has it digits beside
# marks: the authors of ALBERT and XLNet split such pieces again, and so do not all tokenizers.
PARTS = Regex(r"[()\"\-.–£€]|▁?[\p{L}\p{M}]+|▁?\p{N}+|▁?[^\p{L}\p{M}\p{N}▁()\"\-.–£€]+|▁")


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
        raise UserError(what, f"Give --vocab-size {reserved + 1000} or more, or a smaller --limit-alphabet.")
    backend = Tokenizer(models.Unigram())
    others = Regex("[^" + "".join(f"\\x{{{ord(character):x}}}" for character in alphabet) + "]")
    backend.normalizer = normalizers.Sequence([empty.normalizer, normalizers.Replace(others, " ")])
    backend.pre_tokenizer = pre_tokenizers.Sequence([empty.pre_tokenizer, pre_tokenizers.Split(PARTS, "isolated")])
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocab_size - len(special) + len(SYMBOLS),
        initial_alphabet=sorted({*alphabet, *SYMBOLS}),
        show_progress=False,
    )
    backend.train_from_iterator(lines, trainer)
    learnt = {piece: round(score, 3) for piece, score in json.loads(backend.to_str())["model"]["vocab"]}
    learnt = {piece: score for piece, score in learnt.items() if piece not in special}
    pieces = sorted(learnt.items(), key=lambda each: (-each[1], each[0]))
    vocab = [*first[: -len(family.last_tokens) or None], *pieces, *first[len(first) - len(family.last_tokens) :]]
    return family.new_tokenizer(source, vocab=vocab, **options), len(alphabet)
