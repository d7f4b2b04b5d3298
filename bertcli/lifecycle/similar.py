"""Find the rows of a file that are nearest to a text in meaning, or to each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import number_of, quietly, say
from bertcli.config.use import SimilarConfig
from bertcli.data.labelled.examples import is_blank
from bertcli.data.results import Result, Rows
from bertcli.data.text.tables import check_file
from bertcli.errors import UserError
from bertcli.lifecycle.predicting.inputs import read_texts
from bertcli.lifecycle.pretrained import MINILM, is_sentence_encoder
from bertcli.lifecycle.workspace import model_for_meaning, resolve_model
from bertcli.training.progress import Progress

if TYPE_CHECKING:
    from bertcli.lifecycle.similarity.encoder import TextEncoder, Vectors
    from bertcli.lifecycle.similarity.vector_cache import Found, TextVectors

Row = dict[str, Any]
Texts = dict[int, str]  # the texts of a file by the number of their row


@dataclass(frozen=True)
class Similar(Result):
    """The rows nearest to each text, or the nearest pairs of rows, with their cosines."""

    model: str
    file: str
    compared: int  # number of rows that have a text
    texts: list[Row] = field(default_factory=list)  # each `text` with its `nearest` rows
    pairs: list[Row] = field(default_factory=list)  # the `cosine` and the two `rows` of each
    pairs_found: int | None = None  # number of pairs above the threshold, of which the nearest are in `pairs`

    @property
    def rows(self) -> Rows:
        """A row for each row that is near a text, or for each pair."""
        near = [{"query": each["text"], **_plain(row)} for each in self.texts for row in each["nearest"]]
        found = [(pair["cosine"], *pair["rows"]) for pair in self.pairs]
        pairs = [{"cosine": cosine, **_plain(a, "first_"), **_plain(b, "second_")} for cosine, a, b in found]
        return near + pairs


def _plain(row: Row, prefix: str = "") -> Row:
    return {prefix + name: value for name, value in row.items() if name != "columns"}


def similar(config: SimilarConfig | str | None = None, **options: Any) -> Similar:
    """Find the rows of a file that are nearest in meaning to each text, or with `pairs` to each other.

    Vectors are means of the last hidden states, of length 1; those of the file are kept beside it. Raises UserError if the
    options do not go together, or the file has no texts.
    """
    if isinstance(config, str):
        config, options = None, {"file": config, **options}
    config = SimilarConfig.build(config, options)
    _check_options(config)
    model = resolve_model(config.model) if config.model else model_for_meaning()
    asked = [] if config.pairs else _asked_for(config, model)
    if not is_sentence_encoder(model):
        what = f"{model} was not trained to compare meanings: its cosines tell less than those of {MINILM.name}"
        say(what if MINILM.folder else f"{what} ({MINILM.how_to_get})")
    texts = _texts(config, model)
    result = Similar(model, str(config.file), len(texts))
    if config.dry_run:
        say(f"would compare {len(texts):,} rows of {config.file} by {model}")
        return result
    return _pairs(config, texts, result) if config.pairs else _nearest(config, texts, asked, result)


def _check_options(config: SimilarConfig) -> None:
    if config.file in (None, "-"):
        raise UserError("Which file is to be searched?", 'Name it: bert similar --file texts.csv --text "..."')
    if config.texts not in (None, "-"):
        check_file(Path(config.texts), "Give --texts a file with a text on each line; - is standard input.")
    given = [f"--{name}" for name in ("text", "texts", "pairs") if getattr(config, name)]
    if len(given) != 1:
        what = f"{given[0]} and {given[1]} do not go together." if given else "There is nothing to search for."
        raise UserError(what, 'Give one: --text "..." or --texts FILE or --pairs')


def _asked_for(config: SimilarConfig, model: str) -> list[str]:
    """The texts to find the nearest rows of. Raises UserError if all are empty."""
    given = config.text or (row["text"] for row in read_texts(str(config.texts), None, model))
    asked = [text for text in given if not is_blank(text)]
    if empty := len(config.text) - len(asked) if config.text else 0:
        say(f"{number_of(empty, 'empty text')} left out")
    if not asked:
        raise UserError("There is nothing to search for.", 'Give a text: --text "..."')
    return asked


def _texts(config: SimilarConfig, model: str) -> Texts:
    """The texts of the file; rows without one are left out."""
    rows = enumerate(read_texts(str(config.file), config.text_column, model))
    texts = {number: row["text"] for number, row in rows if not is_blank(row["text"])}
    if not texts:
        raise UserError(f"`{config.file}` holds no texts.", "Put one text on each line, or name a --text-column.")
    return texts


def _nearest(config: SimilarConfig, texts: Texts, asked: list[str], result: Similar) -> Similar:
    """The rows nearest to each text that is asked for."""
    from bertcli.lifecycle.similarity.nearest import nearest

    encoder = _encoder(result.model, config)
    queries = encoder().encode(asked)
    cosines, places = _search(partial(nearest, queries=queries, count=config.top_k), texts, result, config, encoder)
    numbers = [*texts]
    rows = _rows(config, result.model, {numbers[place] for place in places.flat})

    def found(query: int, text: str) -> dict[str, Any]:
        pairs = zip(cosines[query].tolist(), places[query].tolist(), strict=True)
        return {"text": text, "nearest": [{"cosine": round(near, 6), **rows[numbers[place]]} for near, place in pairs]}

    return replace(result, texts=[found(query, text) for query, text in enumerate(asked)])


def _pairs(config: SimilarConfig, texts: Texts, result: Similar) -> Similar:
    """The nearest pairs of rows."""
    from bertcli.lifecycle.similarity.nearest import near_pairs

    with Progress("comparing", len(texts), "rows") as progress:
        find = partial(near_pairs, threshold=config.threshold, count=config.top_k, advance=progress.advance)
        cosines, places, count = _search(find, texts, result, config, _encoder(result.model, config))
    numbers = [*texts]
    rows = _rows(config, result.model, {numbers[place] for place in places.flat})
    found = zip(cosines.tolist(), places.tolist(), strict=True)
    pairs = [{"cosine": round(cosine, 6), "rows": [rows[numbers[place]] for place in pair]} for cosine, pair in found]
    shown = f"the nearest {len(pairs):,} are shown; " if len(pairs) < count else ""
    say(f"{count:,} pairs have a cosine of at least {config.threshold:g} ({shown}--threshold changes it)")
    return replace(result, pairs=pairs, pairs_found=count)


def _encoder(model: str, config: SimilarConfig) -> Callable[[], TextEncoder]:
    """A function that loads the encoder at its first call."""

    @cache
    def load() -> TextEncoder:
        from bertcli.lifecycle.similarity.encoder import load_text_encoder

        return load_text_encoder(model, config.precision)

    return load


def _search(
    find: Callable[[TextVectors], Found],
    texts: Texts,
    result: Similar,
    config: SimilarConfig,
    encoder: Callable[[], TextEncoder],
) -> Found:
    """Search the vectors of the file, which are made if none are kept."""
    from bertcli.lifecycle.similarity import vector_cache

    listed = [*texts.values()]

    def make() -> Vectors:
        with Progress("encoding", len(listed), "rows") as progress:
            return encoder().encode(listed, progress.advance)

    identity = vector_cache.identity_of(listed, result.model, config.precision)
    return vector_cache.search(vector_cache.place_of(result.file), identity, make, find)


def _rows(config: SimilarConfig, model: str, numbers: set[int]) -> dict[int, Row]:
    """The rows of the file with these numbers: line, text and all columns."""
    with quietly():
        rows = enumerate(read_texts(str(config.file), config.text_column, model))
        kept = ("line", "text", "columns")
        return {number: {name: row[name] for name in kept} for number, row in rows if number in numbers}
