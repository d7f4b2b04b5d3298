"""Data preparation beside the original's algorithm in plain Python: the same rows, the ratio of times."""

import time
from pathlib import Path

import pyarrow.parquet as pq

from bertcli.data.text.tokenization import load_tokenizer
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from tests.benchmarks.plain_original import make_rows

PASSES, SEED = 5, 12345


def race_the_original(books: list[Path], folder: Path) -> list[list[str]]:
    """Rows of a table: masking, cores, seconds, how many times as fast as plain Python."""
    build_vocab([str(book) for book in books], vocab_size=8000, out=str(folder / "vocab"))
    started = time.perf_counter()
    expected = make_rows(books, load_tokenizer(folder / "vocab").vocab, dupe_factor=PASSES, seed=SEED)
    plain = time.perf_counter() - started
    size = sum(book.stat().st_size for book in books) / 1e6
    lines = [[f"plain Python, {size:.1f} MB, {PASSES} passes, {len(expected):,} rows", "1", f"{plain:.1f} s", ""]]
    for masking, workers in (("static", 1), ("dynamic", 1), ("static", 2), ("dynamic", 2)):
        started = time.perf_counter()
        make_pretraining_data(
            [str(book) for book in books],
            tokenizer=str(folder / "vocab"),
            masking=masking,
            dupe_factor=PASSES,
            seed=SEED,
            shards=workers,
            workers=workers,
            out=str(folder / f"{masking}-{workers}"),
        )
        seconds = time.perf_counter() - started
        lines.append([f"ours, {masking}", str(workers), f"{seconds:.1f} s", f"{plain / seconds:.1f} ×"])
    rows = pq.read_table(folder / "static-1" / "shard-00000.parquet").to_pylist()
    same = all(
        row["input_ids"] == ids
        and row["token_type_ids"] == types
        and bool(row["next_sentence_label"]) == is_random
        and row["masked_lm_positions"] == positions
        and row["masked_lm_ids"] == labels
        for row, (ids, types, is_random, positions, labels) in zip(rows, expected, strict=True)
    )
    return [*lines, [f"the same rows: {'yes' if same else 'NO'}", "", "", ""]]
