"""Pre-training data read back: shards as rows that can be packed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.keyed import derive
from bertcli.data.packing.ragged import Ragged, TokenRows
from bertcli.data.pretraining.masking import MaskingRules, mask_batch
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError

MASK_STREAM = 1  # keeps the draws of masks apart from those of dropout and order


@dataclass(frozen=True)
class PretrainingExamples(TokenRows):
    """The instances of a folder that `bert make-pretraining-data` wrote, memory-mapped through `datasets`."""

    folder: Path
    manifest: dict[str, Any]
    tokenizer: WordPiece
    seed: int
    input_ids: Ragged
    token_type_ids: Ragged
    next_sentence_labels: NDArray[np.int64]
    masks: tuple[Ragged, Ragged] | None  # positions and ids, where they are on disk
    rules: MaskingRules = field(init=False)

    def __post_init__(self) -> None:
        options = self.manifest["options"]
        rules = MaskingRules.of(
            self.tokenizer, options["masked_lm_prob"], options["max_predictions_per_seq"], options["whole_word_mask"]
        )
        object.__setattr__(self, "rules", rules)

    @property
    def has_next_sentence(self) -> bool:
        """Whether the rows are pairs."""
        return bool(self.manifest["options"]["next_sentence"])

    @property
    def max_seq_length(self) -> int:
        """The longest row that the data may hold."""
        return int(self.manifest["options"]["max_seq_length"])

    def head(self, count: int) -> PretrainingExamples:
        """The same data cut to its first rows."""
        kept = np.arange(min(count, len(self.lengths)))

        def cut(column: Ragged) -> Ragged:
            values, lengths = column.take(kept)
            return Ragged([values], [np.concatenate([[0], np.cumsum(lengths)])], np.array([0, len(kept)]))

        masks = (cut(self.masks[0]), cut(self.masks[1])) if self.masks else None
        return replace(
            self,
            input_ids=cut(self.input_ids),
            token_type_ids=cut(self.token_type_ids),
            masks=masks,
            next_sentence_labels=self.next_sentence_labels[kept],
        )

    def unmasked(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The ids of rows end to end as the text had them, and the length of each row."""
        ids, lengths = self.input_ids.take(rows)
        if self.masks is not None:
            inside, counts = self.masks[0].take(rows)
            ids[inside + np.repeat(np.cumsum(lengths) - lengths, counts)] = self.masks[1].take(rows)[0]
        return ids, lengths

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack rows for masked-LM and next-sentence prediction; dynamic masks are drawn by (seed, `key`, row)."""
        ids, lengths = self.input_ids.take(rows)
        types, _ = self.token_type_ids.take(rows)
        if self.masks is None:
            positions, originals = mask_batch(ids, rows, lengths, self.rules, derive(self.seed, key, MASK_STREAM))
        else:
            inside, counts = self.masks[0].take(rows)
            originals, _ = self.masks[1].take(rows)
            positions = inside + np.repeat(np.cumsum(lengths) - lengths, counts)
        labels = {
            "masked_lm_positions": torch.from_numpy(positions),
            "masked_lm_ids": torch.from_numpy(originals),
            "next_sentence_labels": torch.from_numpy(self.next_sentence_labels[rows]),
        }
        counts_of = {"masked_lm": len(positions), "next_sentence": len(rows)}
        return replace(pack(ids, types, lengths, rows), labels=labels, counts=counts_of)


def load_pretraining_examples(folder: str | Path, seed: int) -> PretrainingExamples:
    """Open a folder of pre-training data.

    Raises:
        UserError: if it is not one, or not finished.
    """
    from datasets import Dataset, disable_progress_bars

    folder = Path(folder)
    if not (folder / "manifest.json").exists():
        raise UserError(
            f"`{folder}` holds no pre-training data.", f"Make some: bert make-pretraining-data TEXT --out {folder}"
        )
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    disable_progress_bars()
    files = [str(folder / shard["file"]) for shard in manifest["shards"]]
    missing = [name for name in files if not Path(name).exists()]
    if missing:
        raise UserError(
            f"`{missing[0]}` is missing.", "Make the data again: bert make-pretraining-data TEXT --overwrite"
        )
    # `datasets` memory-maps Arrow files, which it makes of the shards: kept with them, where that can be written.
    cache = str(folder / ".arrow") if os.access(folder, os.W_OK) else None
    table = Dataset.from_parquet(files, cache_dir=cache).data
    static = manifest["options"]["masking"] == "static"
    masks = (
        (Ragged.from_arrow(table["masked_lm_positions"]), Ragged.from_arrow(table["masked_lm_ids"])) if static else None
    )
    return PretrainingExamples(
        folder,
        manifest,
        load_tokenizer(folder / "tokenizer"),
        seed,
        Ragged.from_arrow(table["input_ids"]),
        Ragged.from_arrow(table["token_type_ids"]),
        table["next_sentence_label"].to_numpy().astype(np.int64),
        masks,
    )
