"""Pre-training data read back: the rows of a folder of shards."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bertcli.data.checksums import digest_of
from bertcli.data.json_files import check_values, read_json
from bertcli.data.packing.keyed import derive
from bertcli.data.packing.ragged import Ragged
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.remote import MANIFEST, download, is_url
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError

MAKE_AGAIN = "Make the data again: bert make-pretraining-data TEXT --overwrite"
OPTION_TYPES = {"next_sentence": bool, "max_seq_length": int, "masking": str, "whole_word_mask": bool}
OPTION_TYPES |= {"masked_lm_prob": float, "max_predictions_per_seq": int}
LISTS = ("_ids", "_positions")  # ends of the names of columns with a list a row
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
    """The instances of a folder that `bert make-pretraining-data` wrote; they are opened when first read."""

    folder: Path
    manifest: dict[str, Any]
    tokenizer: WordPiece
    seed: int
    first: int | None = None  # use only this many rows
    opened: dict[str, Any] = field(default_factory=dict, repr=False)  # the columns, by name

    @cached_property
    def digest(self) -> str:
        """A hash of the manifest, which names the digests of the shards and of the tokenizer."""
        return digest_of(self.folder / MANIFEST)

    @property
    def has_pairs(self) -> bool:
        """Whether the rows are pairs of texts, made for next-sentence prediction."""
        return bool(self.manifest["options"]["next_sentence"])

    @property
    def max_seq_length(self) -> int:
        """The longest row that the data may hold."""
        return int(self.manifest["options"]["max_seq_length"])

    def head(self, count: int) -> PretrainingExamples:
        """The same data limited to its first rows."""
        return replace(self, first=count)

    @cached_property
    def rules(self) -> MaskingRules:
        """The rules of masking that the data were made with."""
        names = ("masked_lm_prob", "max_predictions_per_seq", "whole_word_mask")
        return MaskingRules.of(self.tokenizer, *(self.manifest["options"][name] for name in names))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, [N]."""
        return cast(Ragged, self._column("input_ids")).lengths[: self.first]

    def _column(self, name: str) -> Any:
        """A column of all rows, memory-mapped: `datasets` converts the shards to Arrow files beside them if it may."""
        if not self.opened:
            from datasets import Dataset, disable_progress_bars

            _check_shards(self.folder, self.manifest)
            disable_progress_bars()
            cache = str(self.folder / ".arrow") if os.access(self.folder, os.W_OK) else None
            table = Dataset.from_parquet(_shard_files(self.folder, self.manifest), cache_dir=cache).data
            labels = np.asarray(table["next_sentence_label"].to_numpy(), dtype=np.int64)
            lists = {name: Ragged.from_arrow(table[name]) for name in table.column_names if name.endswith(LISTS)}
            self.opened.update(lists, next_sentence_label=labels)
        return self.opened[name]

    def take(self, rows: NDArray[np.int64], step: int = 0) -> UnpackedRows:
        """Read rows; an objective draws for them as a function of (seed, step, row)."""
        ids, lengths = self._column("input_ids").take(rows)
        types, _ = self._column("token_type_ids").take(rows)
        masks = None
        if self.manifest["options"]["masking"] == "static":
            inside, counts = self._column("masked_lm_positions").take(rows)
            originals, _ = self._column("masked_lm_ids").take(rows)
            masks = inside + np.repeat(np.cumsum(lengths) - lengths, counts), originals
        key = derive(self.seed, step, MASK_STREAM)
        labels = self._column("next_sentence_label")[rows]
        return UnpackedRows(rows, lengths, ids, types, labels, masks, self.rules, key)


def load_pretraining_examples(folder: str | Path, seed: int) -> PretrainingExamples:
    """Open a folder of pre-training data. Raises UserError if it is not one, or is not finished."""
    folder = download(str(folder)) if is_url(folder) else Path(folder)
    if not (folder / MANIFEST).exists():
        hint = f"Make some: bert make-pretraining-data TEXT --out {folder}"
        raise UserError(f"`{folder}` holds no pre-training data.", hint)
    manifest = _read_manifest(folder / MANIFEST)
    missing = [name for name in _shard_files(folder, manifest) if not Path(name).exists()]
    if missing:
        raise UserError(f"`{missing[0]}` is missing.", MAKE_AGAIN)
    tokenizer = load_tokenizer(folder / "tokenizer")
    if tokenizer.digest != manifest.get("tokenizer_digest", tokenizer.digest):
        what = f"`{folder / 'tokenizer'}` is not the tokenizer that the data were made with."
        raise UserError(what, MAKE_AGAIN)
    return PretrainingExamples(folder, manifest, tokenizer, seed)


def _check_shards(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise UserError if a shard differs from its digest; data of an older version have none."""
    digests = {folder / shard["file"]: shard["sha256"] for shard in manifest["shards"] if "sha256" in shard}
    with ThreadPoolExecutor() as threads:
        for (path, digest), found in zip(digests.items(), threads.map(digest_of, digests), strict=True):
            if found != digest:
                raise UserError(f"`{path}` is damaged: it differs from its checksum.", MAKE_AGAIN)


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path, MAKE_AGAIN, options=dict, shards=list, instances=int, tokens=int, vocab_size=int)
    check_values(path, MAKE_AGAIN, manifest["options"], OPTION_TYPES)
    for shard in manifest["shards"]:
        check_values(path, MAKE_AGAIN, shard, {"file": str, "instances": int})
    return manifest


def _shard_files(folder: Path, manifest: dict[str, Any]) -> list[str]:
    return [str(folder / shard["file"]) for shard in manifest["shards"]]
