"""Start-up, data preparation and training speed on a quiet machine: `make bench`."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from bertcli.config import recipes_folder
from bertcli.data.documents import open_binary
from bertcli.data.tokenization import load_tokenizer
from bertcli.pretraining import pretrain
from bertcli.pretraining_data import make_pretraining_data
from bertcli.vocabulary import build_vocab
from tests.benchmarks.plain_original import make_rows

RUNS = 3


def seconds_of_command(arguments: list[str]) -> float:
    """The median time of a command as a whole process."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "bertcli", *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def uncompressed(folder: Path, out: Path) -> list[Path]:
    """The books as plain text, which the peer reads."""
    out.mkdir()
    books = []
    for path in sorted(folder.glob("*.txt*")):
        with open_binary(path) as file:
            (out / path.name.removesuffix(path.suffix if path.suffix != ".txt" else "")).write_bytes(file.read())
        books.append(out / path.name.removesuffix(path.suffix if path.suffix != ".txt" else ""))
    return books


def bench_data(books: list[Path], folder: Path) -> None:
    """Our data preparation beside the original's algorithm in plain Python: the same rows, the ratio of times."""
    build_vocab([str(book) for book in books], vocab_size=8000, out=str(folder / "vocab"))
    vocab = load_tokenizer(folder / "vocab").vocab
    size = sum(book.stat().st_size for book in books) / 1e6
    started = time.perf_counter()
    expected = make_rows(books, vocab, dupe_factor=5, seed=12345)
    plain = time.perf_counter() - started
    print(f"\ndata, {size:.1f} MB, 5 passes, one core: plain Python {plain:.1f} s, {len(expected):,} rows")
    for masking, workers in (("static", 1), ("dynamic", 1), ("static", 2), ("dynamic", 2)):
        out = folder / f"{masking}-{workers}"
        started = time.perf_counter()
        make_pretraining_data(
            [str(book) for book in books], tokenizer=str(folder / "vocab"), masking=masking, dupe_factor=5,
            shards=workers, workers=workers, out=str(out),
        )  # fmt: skip
        ours = time.perf_counter() - started
        print(f"  {masking:8} {workers} core(s)  {ours:6.1f} s  {plain / ours:5.1f} x")
    rows = pq.read_table(folder / "static-1" / "shard-00000.parquet").to_pylist()
    same = all(
        row["input_ids"] == ids and row["token_type_ids"] == types and bool(row["next_sentence_label"]) == is_random
        and row["masked_lm_positions"] == positions and row["masked_lm_ids"] == labels
        for row, (ids, types, is_random, positions, labels) in zip(rows, expected, strict=True)
    )  # fmt: skip
    print(f"  the same rows: {same}")


def bench_training(folder: Path) -> None:
    """Real tokens a second of pre-training, by size."""
    print()
    for size, steps in (("tiny", 20), ("mini", 10)):
        run = pretrain(
            size=size, steps=steps, batch_size=64, data=str(folder / "static-1"), out=str(folder / "runs" / size)
        )
        print(f"pretrain --size {size:6} {run.tokens_per_second:10,.0f} tokens/s")


def main() -> None:
    """Print everything."""
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    for arguments in (["--help"], ["tasks"]):
        print(f"bert {' '.join(arguments):10} {seconds_of_command(arguments):6.2f} s")
    beside = Path(__file__).parents[3] / "shared" / "data" / "text" / "standard_ebooks"
    with tempfile.TemporaryDirectory() as folder:
        books = (
            sorted(beside.glob("*.txt"))
            if beside.exists()
            else uncompressed(recipes_folder() / "demo" / "books", Path(folder) / "books")
        )
        bench_data(books, Path(folder))
        bench_training(Path(folder))


if __name__ == "__main__":
    main()
