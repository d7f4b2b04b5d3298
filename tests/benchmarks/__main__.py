"""Start-up times and training speed, each the median of several runs, with the machine's load beside them."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(arguments: list[str], runs: int = 5) -> float:
    """The median time of a command as a whole process."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "bertcli", *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def pretraining_tokens_per_second() -> dict[str, float]:
    """Real tokens a second of pre-training on the shipped novels, by size."""
    from bertcli.config import recipes_folder
    from bertcli.pretraining import pretrain
    from bertcli.pretraining_data import make_pretraining_data
    from bertcli.vocabulary import build_vocab

    books = str(recipes_folder() / "demo" / "books")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        build_vocab(books, vocab_size=8000)
        make_pretraining_data(books, dupe_factor=1)
        return {
            size: pretrain(size=size, steps=steps, batch_size=32, out=str(Path(folder) / size)).tokens_per_second
            for size, steps in (("tiny", 20), ("mini", 10))
        }


def main() -> None:
    """Print a table."""
    print(f"load before: {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    for arguments in (["--help"], ["tasks"]):
        print(f"bert {' '.join(arguments):24} {seconds(arguments):8.2f} s")
    for size, speed in pretraining_tokens_per_second().items():
        print(f"pretrain --size {size:12} {speed:10,.0f} tokens/s")


if __name__ == "__main__":
    main()
