"""A vocabulary cut to the tokens of a teacher that occur in some texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from bertcli import say
from bertcli.data.atomic import replacing
from bertcli.data.text.documents import find_text_files, read_all_lines
from bertcli.data.text.tokenization import SPECIAL_TOKENS, WordPiece, load_wordpiece
from bertcli.errors import UserError, check_vacant

LINES_AT_ONCE = 10_000


def cut_vocabulary(teacher: str, texts: list[str], size: int | None, out: Path) -> WordPiece:
    """Write the tokens of a teacher's vocabulary that occur in texts to a folder, in their order.

    With `size`, the most frequent ones; other words are then split into smaller pieces, for which the single characters
    stay. Those of ASCII always stay: books may lack the signs that questions have. Raises UserError if there is no room.
    """
    whole = load_wordpiece(teacher)
    counts = _counts(texts, whole)
    tokens = whole.tokens
    kept = _kept(counts, whole, size)
    cut = replace(whole, vocab={tokens[each]: number for number, each in enumerate(kept)}, source=str(out))
    share = sum(counts[each] for each in kept) / max(1, counts.total())
    say(f"vocabulary: {cut.size:,} of {whole.size:,} tokens, {share:.2%} of the {counts.total():,} in the texts")
    if out.exists() and load_wordpiece(out).digest == cut.digest:
        return cut
    check_vacant(out)
    with replacing(out) as part:
        cut.save(part)
    return cut


def _counts(texts: list[str], tokenizer: WordPiece) -> Counter[int]:
    """How often each token occurs."""
    counts: Counter[int] = Counter()
    lines = read_all_lines(find_text_files(texts))
    for chunk in iter(lambda: [*islice(lines, LINES_AT_ONCE)], []):
        counts.update(chain.from_iterable(tokenizer.encode_ids(chunk)))
    return counts


def _kept(counts: Counter[int], tokenizer: WordPiece, size: int | None) -> list[int]:
    """The ids of the tokens that are kept, in their order."""
    tokens, vocab = tokenizer.tokens, tokenizer.vocab
    always = {vocab[token] for token in SPECIAL_TOKENS}
    characters = {*map(chr, range(128)), *(each for row in counts for each in tokens[row].removeprefix("##"))}
    always |= {vocab[part + each] for part in ("", "##") for each in characters if part + each in vocab}
    if size is not None and size < len(always):
        what = f"--vocab-size {size:,} leaves no room: special tokens and single characters are {len(always):,}."
        raise UserError(what, f"Give {len(always):,} or more.")
    frequent = [each for each, _ in counts.most_common() if each not in always]
    return sorted([*always, *frequent[: None if size is None else size - len(always)]])
