"""Add words to a model's vocabulary: in its unused slots, then in new rows of its embedding."""

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.config.data import BuildVocabConfig
from bertcli.config.options import default_of, flag
from bertcli.data.atomic import replacing
from bertcli.data.results import Result
from bertcli.data.text.coverage import Coverage, measure_coverage
from bertcli.data.text.documents import find_text_files, read_all_lines, read_lines
from bertcli.data.text.tokenization import MAX_CHARACTERS_PER_WORD, WordPiece, load_wordpiece
from bertcli.errors import UserError, check_vacant
from bertcli.lifecycle.workspace import resolve_model

SLOT = re.compile(r"\[unused\d+\]")
LEARNING_OPTIONS = ("vocab_size", "unused_tokens", "cased", "min_frequency", "limit_alphabet")
EXAMPLES = 3  # shown for each reason to skip a line

Skipped = dict[str, list[str]]  # reason to lines


@dataclass(frozen=True)
class NewWords(Result):
    """How many words were added and where, and how many lines of the file were skipped and why."""

    out: str
    model: str
    vocab_size: int
    in_slots: int
    in_new_rows: int
    were_unknown: int  # of these, those that were [UNK] before, and start as its embedding
    skipped: dict[str, int]
    before: Coverage | None  # of the text, if any was given
    after: Coverage | None
    seconds: float


def add_words(text: BuildVocabConfig | list[str] | str | None = None, **options: Any) -> NewWords:
    """Write a copy of the model `to` that has a token for each word of the file `add_words`.

    The words replace [unused0], [unused1] and so on; when these run out, the embedding and the decoder grow. The
    embedding of a word starts as the mean of those of its pieces. Coverage is measured on `text`, which should be held
    out from the text that the words were found in. Raises UserError if there is no model, no new word, or a file at `out`.
    """
    config = BuildVocabConfig.build(text, options)
    started = time.perf_counter()
    out = _checked_out(config)
    source = resolve_model(str(config.to))
    old = load_wordpiece(source)
    words, skipped = _sort_out(chain.from_iterable(map(read_lines, find_text_files([str(config.add_words)]))), old)
    if not words:
        what = f"`{config.add_words}` holds no word to add: {_why(skipped)}."
        raise UserError(what, "Give words that the model splits into pieces, one per line.")
    new = _with_words(old, words, out)
    from bertcli.models.embeddings import add_rows
    from bertcli.models.loading import check_vocabulary, load_generator, load_model, save_models
    from bertcli.models.model_with_loss import GENERATOR
    from bertcli.models.packed import is_joined

    model = load_model(source)
    if is_joined(model):
        what = f"`{source}` joins two encoders, and words are added to one."
        raise UserError(what, "Add words to another model, or to its vocabulary before the pre-training.")
    check_vocabulary(model, old, source)
    files = find_text_files(config.text, config.text_column) if config.text else []
    before, after = (
        measure_coverage(read_all_lines(files, config.text_column), tokenizer) if files else None
        for tokenizer in (old, new)
    )
    pieces = old.encode_ids(words)
    if not config.dry_run:
        models = {"": model} | ({GENERATOR: generator} if (generator := load_generator(source)) else {})
        for each in models.values():
            add_rows(each, {new.vocab[word]: ids for word, ids in zip(words, pieces, strict=True)}, new.size)
        with replacing(out) as part:
            save_models(models, new, part)
    grown = new.size - old.size
    unknown = sum(old.special("unk") in ids for ids in pieces)
    reasons = {reason: len(lines) for reason, lines in skipped.items()}
    places = (len(words) - grown, grown, unknown)
    seconds = round(time.perf_counter() - started, 2)
    made = NewWords(str(out), source, new.size, *places, reasons, before, after, seconds)
    _say(made, skipped, config.dry_run)
    return made


def _checked_out(config: BuildVocabConfig) -> Path:
    """Where to write. Raises UserError for options that belong to learning a vocabulary."""
    if not config.add_words or not config.to:
        raise UserError("--add-words and --to go together.", "Give both: bert build-vocab --add-words FILE --to MODEL")
    for declared in fields(config):
        if declared.name in LEARNING_OPTIONS and getattr(config, declared.name) != default_of(declared):
            raise UserError(f"{flag(declared)} does not go with --add-words.", "Leave it out.")
    out = Path(config.out or f"{os.path.basename(os.path.realpath(config.to))}-words")
    check_vacant(out)
    return out


def _sort_out(lines: Iterable[str], tokenizer: WordPiece) -> tuple[list[str], Skipped]:
    """The words to add, normalised by the tokenizer and in the order of the file, and the lines skipped, by reason."""
    words: dict[str, None] = {}
    skipped: Skipped = {}
    normalize = tokenizer.backend.normalizer.normalize_str
    split = tokenizer.backend.pre_tokenizer.pre_tokenize_str
    for line in lines:
        parts = [part for part, _ in split(normalize(line))]
        if not parts:
            reason = "blank"
        elif len(parts) > 1:
            reason = "several_words"  # split at spaces and punctuation marks
        elif parts[0] in words:
            reason = "repeated"
        elif parts[0] in tokenizer.vocab:
            reason = "known_already"
        elif len(parts[0]) > MAX_CHARACTERS_PER_WORD:
            reason = "too_long"
        else:
            words[parts[0]] = None
            continue
        skipped.setdefault(reason, []).append(line)
    return list(words), skipped


def _with_words(old: WordPiece, words: list[str], out: Path) -> WordPiece:
    """The vocabulary with the words in its unused slots, lowest id first, and the others after its end."""
    if len(old.vocab) != old.size:
        what = f"The vocabulary `{old.source}` has {old.size:,} ids for {len(old.vocab):,} tokens: one is in it twice."
        raise UserError(what, "Make all lines of its vocab.txt different.")
    vocab = dict(old.vocab)
    ids = [vocab.pop(token) for token in islice(filter(SLOT.fullmatch, old.tokens), len(words))]
    ids += range(old.size, old.size + len(words) - len(ids))
    return replace(old, vocab=vocab | dict(zip(words, ids, strict=True)), source=str(out))


def _say(made: NewWords, skipped: Skipped, dry_run: bool) -> None:
    what = f"{made.in_slots} words in unused slots, {made.in_new_rows} in new rows"
    left_out = f"; skipped {_why(skipped)}" if skipped else ""
    say(f"{'would write' if dry_run else 'wrote'} {made.out}: {what}{left_out}")
    if made.were_unknown:
        say(f"words that were unknown before, and start as the embedding of [UNK]: {made.were_unknown}")
    if made.before and made.after:
        say(f"{made.before.lines:,} lines, {made.before.words:,} words")
        say(f"before: {made.before}")
        say(f"after:  {made.after}")
    else:
        say("coverage was not measured; name held-out text: bert build-vocab TEXT --add-words ...")


def _why(skipped: Skipped) -> str:
    """Each reason with its count and first examples, such as `1 several words (co-pilot)`."""
    reasons = []
    for reason, lines in skipped.items():
        examples = ", ".join(line[:40] for line in lines[:EXAMPLES] if line)
        reasons.append(f"{len(lines)} {reason.replace('_', ' ')}" + (f" ({examples})" if examples else ""))
    return ", ".join(reasons)
