"""Pre-training data read back: the rows of a folder of shards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.data.checksums import digest_of
from bertcli.data.json_files import check_values, read_json
from bertcli.data.packing.keyed import WindowOrder, derive, rows_of_step
from bertcli.data.packing.ragged import Ragged
from bertcli.data.pretraining.destination import MANIFEST, TOKENIZER, copy_small_files, no_data
from bertcli.data.pretraining.masking import SHARES, MaskingRules
from bertcli.data.pretraining.shard_cache import MAKE_AGAIN, ShardCache
from bertcli.data.remote import is_url, path_of, reaching
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError, flag_of, quoted

OPTION_TYPES = {"next_sentence": bool, "max_seq_length": int, "masking": str, "whole_word_mask": bool}
OPTION_TYPES |= {"masked_lm_prob": float, "max_predictions_per_seq": int, "mask_shares": str, "span_mask": bool}
OPTION_TYPES |= {"ngram_mask": int}
MASKING_DEFAULTS = {"mask_shares": SHARES, "span_mask": False, "ngram_mask": 0}  # of data older than these options
LIST_COLUMNS, LABEL = ("input_ids", "token_type_ids", "masked_lm_positions", "masked_lm_ids"), "next_sentence_label"
CACHE_GB = 20.0  # larger data are shuffled in windows of shards
WINDOW_BYTES = 250e6  # of a window, which lies in memory, also on a small machine
MASK_STREAM = 1  # separates the draws of masks from those of dropout and order

# N rows, T tokens of all of them, M masked tokens


@dataclass(frozen=True)
class UnpackedRows:
    """Rows of the data end to end, before an objective makes its targets of them."""

    rows: NDArray[np.int64]  # [N] their numbers in the data
    lengths: NDArray[np.int64]  # [N] tokens of each
    input_ids: NDArray[np.int64]  # [T] with the static masks; targets may change them in place
    token_type_ids: NDArray[np.int64]  # [T]
    next_sentence_labels: NDArray[np.int64]  # [N]
    masks: tuple[NDArray[np.int64], NDArray[np.int64]] | None  # [M] static: positions among all tokens, original ids
    rules: MaskingRules
    key: int  # draws for a row depend on this and its number alone

    def unmasked_ids(self) -> NDArray[np.int64]:
        """The token ids without static masks, [T]."""
        ids = self.input_ids.copy()
        if self.masks is not None:
            ids[self.masks[0]] = self.masks[1]
        return ids


@dataclass(frozen=True)
class PretrainingExamples:
    """The instances of a folder that `bert make-pretraining-data` wrote; shards are opened when first read."""

    folder: Path  # or a URL
    manifest: dict[str, Any]
    digest: str  # of the manifest, which names the digests of the shards and of the tokenizer
    tokenizer: WordPiece
    seed: int
    cache: ShardCache
    shards_per_window: int = 0  # whose rows are shuffled together; 0: all
    first: int | None = None  # use only this many rows
    masking: Mapping[str, Any] = field(default_factory=dict)  # options of dynamic masks, in the place of the data's
    opened: OpenShards = field(default_factory=lambda: OpenShards(), repr=False)

    @property
    def has_pairs(self) -> bool:
        """Whether the rows are pairs of texts, made for next-sentence prediction."""
        return bool(self.manifest["options"]["next_sentence"])

    @property
    def family(self) -> str:
        """The name of the family that the data were made for."""
        return str(self.manifest.get("family", "bert"))

    @property
    def max_seq_length(self) -> int:
        """The longest row that the data may hold."""
        return int(self.manifest["options"]["max_seq_length"])

    def head(self, count: int) -> PretrainingExamples:
        """The same data limited to its first rows."""
        return replace(self, first=count)

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options that the data were made with, and those of masking that are in their place."""
        return {**MASKING_DEFAULTS, **self.manifest["options"], **self.masking}

    @cached_property
    def rules(self) -> MaskingRules:
        """The rules of masking."""
        return masking_rules(self.tokenizer, self.options)

    def masked_by(self, masking: Mapping[str, Any]) -> PretrainingExamples:
        """The same data with other options of masking. Raises UserError if their masks are static."""
        if masking and self.options["masking"] == "static":
            flags = ", ".join(flag_of(name) for name in masking)
            what = f"`{self.folder}` has static masks, which {flags} cannot change."
            raise UserError(what, self.how_to_make_other("--masking dynamic"))
        given = dict(masking)
        if share := given.get("masked_lm_prob"):  # the limit of the data is that of their own share
            most = round(share * self.max_seq_length)
            given["max_predictions_per_seq"] = max(most, self.options["max_predictions_per_seq"])
        made = replace(self, masking=given)
        masking_rules(self.tokenizer, made.options)  # are refused before anything is written
        return made

    def how_to_make_other(self, change: str) -> str:
        """What to type for data of the same text, vocabulary and length in a new folder, with other options."""
        family = f" --family {self.manifest['family']}" if "family" in self.manifest else ""
        kept = f"--tokenizer {quoted(self.folder / TOKENIZER)} --max-seq-length {self.max_seq_length}{family}"
        return f"Make other data: bert make-pretraining-data TEXT {kept} {change} --out {quoted(f'{self.folder}-2')}"

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first row of each shard, and the number of all rows."""
        return (0, *accumulate(shard["instances"] for shard in self.manifest["shards"]))

    def __len__(self) -> int:
        return min(self.starts[-1], self.first or self.starts[-1])

    @property
    def lengths(self) -> RowLengths:
        """Tokens of each row, [N]."""
        return RowLengths(self)

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> NDArray[np.int64]:
        """The rows of the batch of one step, a function of these alone; the shards of later steps are fetched meanwhile."""
        if not self.shards_per_window:
            return rows_of_step(seed, step, batch_size, len(self))
        rows, coming = WindowOrder(self.starts, self.shards_per_window).rows_of_step(seed, step, batch_size)
        self.opened.fetch(self, coming)
        return rows

    def take(self, rows: NDArray[np.int64], step: int = 0) -> UnpackedRows:
        """Read rows; an objective draws for them as a function of (seed, step, row)."""
        columns, places = self.columns_of(rows)
        ids, lengths = columns["input_ids"].take(places)
        types, _ = columns["token_type_ids"].take(places)
        masks = None
        if self.manifest["options"]["masking"] == "static":
            inside, counts = columns["masked_lm_positions"].take(places)
            originals, _ = columns["masked_lm_ids"].take(places)
            masks = inside + np.repeat(np.cumsum(lengths) - lengths, counts), originals
        key = derive(self.seed, step, MASK_STREAM)
        labels = columns["next_sentence_label"].take(places)[0]
        return UnpackedRows(rows, lengths, ids, types, labels, masks, self.rules, key)

    def columns_of(self, rows: NDArray[np.int64]) -> tuple[dict[str, Ragged], NDArray[np.int64]]:
        """The columns of the shards that hold some rows, by name, and the places of the rows in them."""
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        needed = np.unique(shards) if self.shards_per_window else np.arange(len(self.starts) - 1)
        sizes = np.diff(self.starts)[needed]
        places = rows - np.asarray(self.starts)[shards] + (np.cumsum(sizes) - sizes)[np.searchsorted(needed, shards)]
        return self.opened.columns(self, tuple(needed.tolist())), places

    def table(self, shard: int) -> Any:
        """The rows of a shard as a table of Arrow. Raises UserError if they are not what the manifest says."""
        facts = self.manifest["shards"][shard]
        path, static = self.folder / facts["file"], self.manifest["options"]["masking"] == "static"
        table = self.cache.open(path, facts.get("sha256"))
        names = [*(name for name in LIST_COLUMNS if static or not name.startswith("masked")), LABEL]
        if len(table) != facts["instances"] or not all(_is_integers(table, name, name != LABEL) for name in names):
            raise UserError(f"`{path}` is damaged: its columns or rows are not those of its manifest.", MAKE_AGAIN)
        return table.select(names)


def masking_rules(tokenizer: WordPiece, options: Mapping[str, Any]) -> MaskingRules:
    """The rules of masking of a tokenizer and the options of data. Raises UserError if they do not go together."""
    if options["ngram_mask"] and options["span_mask"]:
        raise UserError("Masks are of n-grams or of spans.", "Leave --span-mask out, or give --ngram-mask 0.")
    names = ("masked_lm_prob", "max_predictions_per_seq", "whole_word_mask", "mask_shares", "span_mask")
    return replace(MaskingRules.of(tokenizer, *(options[name] for name in names)), ngram_mask=options["ngram_mask"])


class RowLengths:
    """Tokens of each row, read when they are asked for."""

    def __init__(self, examples: PretrainingExamples) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        columns, places = self.examples.columns_of(rows)
        return columns["input_ids"].lengths_of(places)


class OpenShards:
    """The shards that a process has open: all of them, or those of the last windows."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.tables: dict[int, dict[str, Ragged]] = {}  # the last used is last
        self.joined: tuple[tuple[int, ...], dict[str, Ragged]] = ((), {})
        self.fetching: list[int] = []

    def columns(self, examples: PretrainingExamples, shards: tuple[int, ...]) -> dict[str, Ragged]:
        """The columns of some shards, one after another."""
        with self.lock:
            if self.joined[0] != shards:
                parts = [self._open(examples, shard) for shard in shards]
                self.joined = shards, {name: Ragged.joined([part[name] for part in parts]) for name in parts[0]}
                while examples.shards_per_window and len(self.tables) > len(shards) + examples.shards_per_window:
                    del self.tables[next(iter(self.tables))]
            return self.joined[1]

    def _open(self, examples: PretrainingExamples, shard: int) -> dict[str, Ragged]:
        columns = self.tables.pop(shard, None)
        if columns is None:
            table = examples.table(shard)
            columns = {name: Ragged.from_arrow(table[name]) for name in table.column_names if name != LABEL}
            columns[LABEL] = _single_values(table[LABEL])
        self.tables[shard] = columns
        return columns

    def fetch(self, examples: PretrainingExamples, shards: list[int]) -> None:
        """Fetch shards to the cache meanwhile; what fails is fetched again, and its error raised, when it is read."""
        if shards == self.fetching:
            return
        self.fetching = shards

        def fetch_all() -> None:
            with suppress(Exception):  # whatever it is, the reading that needs the shard meets it again
                for shard in shards:
                    examples.table(shard)

        Thread(target=fetch_all, daemon=True).start()


def load_pretraining_examples(
    folder: str | Path, seed: int, cache_gb: float = CACHE_GB, shards_per_window: int | None = None
) -> PretrainingExamples:
    """Open data in a folder or at a URL, in the order of `shards_per_window` or, without it, in one for this cache.

    Raises UserError if there are none, they are not finished, or the order needs a larger cache.
    """
    there = path_of(str(folder))
    local = copy_small_files(str(folder)) if is_url(folder) else there
    if not (local / MANIFEST).exists():
        raise no_data(folder)
    manifest = _read_manifest(local / MANIFEST)
    with reaching(folder):
        names = {path.name for path in there.iterdir()}
    missing = [shard["file"] for shard in manifest["shards"] if shard["file"] not in names]
    if missing:
        raise UserError(f"`{there / missing[0]}` is missing.", MAKE_AGAIN)
    tokenizer = load_tokenizer(local / TOKENIZER)
    if tokenizer.digest != manifest.get("tokenizer_digest", tokenizer.digest):
        raise UserError(f"`{there / TOKENIZER}` is not the tokenizer that the data were made with.", MAKE_AGAIN)
    size = opened_bytes(manifest)
    if shards_per_window is None:
        shards_per_window = _window(size, len(manifest["shards"]), cache_gb * 1e9)
    else:
        _check_order(folder, shards_per_window, len(manifest["shards"]), size, cache_gb)
    digest, cache = digest_of(local / MANIFEST), ShardCache(cache_gb * 1e9)
    return PretrainingExamples(there, manifest, digest, tokenizer, seed, cache, shards_per_window)


def _check_order(folder: str | Path, shards_per_window: int, count: int, size: float, cache_gb: float) -> None:
    """Raise UserError if the order of a run that is resumed is none of these shards, or needs a larger cache."""
    if not 0 <= shards_per_window <= count:
        what = f"The run was begun with {shards_per_window} shards at a time, but `{folder}` has {count}."
        raise UserError(what, "Name the data it was begun with: --data FOLDER; or start a new run.")
    if shards_per_window == 0 and size > cache_gb * 1e9:
        what = f"`{folder}` takes {size / 1e9:.3g} GB once it is opened, and this run was begun with all of it in the cache."
        raise UserError(what, f"Give a larger cache: --data-cache-gb {math.ceil(size / 1e9)}")


def opened_bytes(manifest: dict[str, Any]) -> float:
    """The size of all shards as they are in the cache, without compression."""
    token = 3 if manifest["vocab_size"] <= 1 << 16 else 5  # its id and its type
    share_masked = 0.2 if manifest["options"]["masking"] == "static" else 0.0  # with their places
    return float(manifest["tokens"] * token * (1 + share_masked) + manifest["instances"] * 17)


def _is_integers(table: Any, name: str, is_list: bool) -> bool:
    """Whether a column holds an integer a row, or a list of them, and no nulls."""
    import pyarrow as pa

    if name not in table.column_names or table[name].null_count:
        return False
    type_ = table[name].type
    if not is_list:
        return bool(pa.types.is_integer(type_))
    chunks = table[name].chunks
    return bool(pa.types.is_list(type_) and pa.types.is_integer(type_.value_type)) and not any(
        chunk.values.null_count for chunk in chunks
    )


def _single_values(column: Any) -> Ragged:
    """A column with one value a row."""
    chunks = [chunk.to_numpy(zero_copy_only=True) for chunk in column.chunks if len(chunk)]
    return Ragged(chunks, [_ramp(len(chunk) + 1) for chunk in chunks], np.cumsum([0, *map(len, chunks)]))


@lru_cache(maxsize=4)
def _ramp(count: int) -> NDArray[np.int32]:
    return np.arange(count, dtype=np.int32)


def _window(size: float, shards: int, cache_bytes: float) -> int:
    """How many shards are shuffled at a time: 0, which is all, where the cache holds them."""
    return 0 if size <= cache_bytes else max(1, int(min(WINDOW_BYTES, cache_bytes / 3) / (size / shards)))


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path, MAKE_AGAIN, options=dict, shards=list, instances=int, tokens=int, vocab_size=int)
    check_values(path, MAKE_AGAIN, {**MASKING_DEFAULTS, **manifest["options"]}, OPTION_TYPES)
    for shard in manifest["shards"]:
        check_values(path, MAKE_AGAIN, shard, {"file": str, "instances": int, "sha256": str | None})
    counts = [shard["instances"] for shard in manifest["shards"]]
    if min(counts, default=0) < 0 or sum(counts) < 1:
        raise UserError(f"`{path}` is damaged: its shards hold no instances.", MAKE_AGAIN)
    return manifest
