"""Learn a vocabulary from text."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from bertcli import number_of, say
from bertcli.config.data import BuildVocabConfig
from bertcli.data.atomic import replacing
from bertcli.data.checksums import CHECKSUMS
from bertcli.data.remote import status_of
from bertcli.data.results import Result
from bertcli.data.text.coverage import Coverage, measure_coverage
from bertcli.data.text.documents import find_text_files, read_all_lines, read_lines
from bertcli.data.text.tokenization import TOKENIZER_FILES, WordPiece
from bertcli.errors import UserError, check_place
from bertcli.families import FAMILIES, get_family
from bertcli.families.bert import BERT
from bertcli.families.family import Family
from bertcli.lifecycle.vocabularies import LEARN
from bertcli.training.progress import Progress

OWN_FILES = {*TOKENIZER_FILES, "special_tokens_map.json", CHECKSUMS}
MAX_HELD_OUT = 1000  # lines; in a short text, one in a hundred


@dataclass(frozen=True)
class Vocabulary(Result):
    """A vocabulary that `build_vocab` wrote."""

    out: str
    vocab_size: int
    alphabet_size: int
    cased: bool
    lines: int
    coverage: Coverage | None  # of the held-out lines, if there are any
    seconds: float


def build_vocab(text: BuildVocabConfig | list[str] | str, **options: Any) -> Vocabulary:
    """Learn a vocabulary of `vocab_size` tokens from text files and write it to `out`.

    BERT's own builder was never published; these are the trainers of the `tokenizers` library and of SentencePiece, made
    reproducible: the same text gives the same file on every run and in any order of the files. Coverage is measured on
    lines held out from learning. Raises UserError if there is no text, `vocab_size` is too small or `out` is taken.
    """
    config = BuildVocabConfig.build(text, options)
    if config.add_words or config.to:
        what = "`build_vocab` learns a vocabulary; it adds no words."
        raise UserError(what, "Call bertcli.lifecycle.add_words.add_words.")
    started = time.perf_counter()
    files, out = find_text_files(config.text, config.text_column), Path(config.out or "vocab")
    write, wrote = _check_replaceable(out)
    family = _family(config)
    config = config.with_defaults(family.vocabulary_defaults)
    learn = LEARN[family.vocabularies[0]]
    if config.dry_run:
        say(f"would learn {config.vocab_size:,} tokens from {number_of(len(files), 'file')} and {write} {out}")
        return Vocabulary(str(out), config.vocab_size, 0, config.cased, 0, None, 0.0)

    with Progress("reading characters", total=sum(status_of(path).st_size for path in files), unit="B") as progress:
        characters, held_out, count = _count_characters(files, config.text_column, progress)
    lines_to_learn = (line for line in read_all_lines(files, config.text_column) if line not in held_out)
    with Progress("learning pieces", total=None, unit=""):
        vocabulary, alphabet_size = learn(lines_to_learn, characters, config, family, str(out))
    if vocabulary.size < config.vocab_size:
        say(f"the text gives only {vocabulary.size:,} tokens of the {config.vocab_size:,} asked for")
    with replacing(out) as part:
        vocabulary.save(part)
    seconds = time.perf_counter() - started
    say(f"{wrote} {out}: {vocabulary.size:,} tokens from {number_of(len(files), 'file')} in {seconds:.0f} s")
    coverage = _measure(held_out, vocabulary)
    return Vocabulary(str(out), vocabulary.size, alphabet_size, config.cased, count, coverage, round(seconds, 2))


def _family(config: BuildVocabConfig) -> Family:
    """The family that is named, else the first whose vocabularies are made by the algorithm. Raises UserError if both differ."""
    if config.family is None:
        algorithm = config.algorithm or BERT.vocabularies[0]
        return next(each for each in FAMILIES if each.vocabularies[0] == algorithm)
    family = get_family(config.family)
    if config.algorithm not in (None, family.vocabularies[0]):
        what = f"--algorithm {config.algorithm} does not make a vocabulary for {family.name}."
        raise UserError(what, f"Leave it out: {family.name} has {family.vocabularies[0]}.")
    return family


def _measure(held_out: Counter[str], vocabulary: WordPiece) -> Coverage | None:
    if not held_out:
        say("coverage was not measured: the text is too short to hold lines out")
        return None
    coverage = measure_coverage(held_out.elements(), vocabulary)
    say(f"{number_of(coverage.lines, 'held-out line')}, {coverage.words:,} words: {coverage}")
    return coverage


def _check_replaceable(out: Path) -> tuple[str, str]:
    """The verb for what writing there does, and its past. Raises UserError if it would replace anything but a vocabulary."""
    check_place(out)
    if out.exists() and (not out.is_dir() or not {child.name for child in out.iterdir()} <= OWN_FILES):
        raise UserError(f"`{out}` exists and is not a vocabulary folder.", "Give another: --out NEW-FOLDER")
    return ("replace", "replaced") if out.exists() else ("write", "wrote")


def _count_characters(
    files: Iterable[Path], text_column: str | None, progress: Progress
) -> tuple[Counter[str], Counter[str], int]:
    """Count the characters to learn from, the held-out lines and all lines; a bad line is found before anything is written.

    A line is held out by its checksum, whatever the order of the files. If these are more than a fiftieth of the text,
    as in a short one or where a line is frequent, none is held out.
    """
    characters: Counter[str] = Counter()
    held_out: Counter[str] = Counter()
    lines, limit = 0, 2**32 // 100
    for path in files:
        for line in read_lines(path, text_column):
            characters.update(line)
            lines += bool(line)
            if line and crc32(line.encode()) < limit:
                held_out[line] += 1
            while len(held_out) > MAX_HELD_OUT:
                limit //= 2
                held_out = Counter({line: count for line, count in held_out.items() if crc32(line.encode()) < limit})
        progress.advance(status_of(path).st_size)
    if not lines:
        raise UserError("The text files hold blank lines only.", "Name files with text in them.")
    if held_out.total() > lines / 50:
        held_out.clear()
    for line in held_out.elements():
        characters.subtract(line)
    return +characters, held_out, lines
