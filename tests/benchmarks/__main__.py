"""Start-up, data preparation, and the race with what people use today: `make bench`, on a quiet machine.

`python -m tests.benchmarks` runs all that this machine can and writes results-CHIP.md beside this file: of a GPU, a CPU with
matrix units, one with other units for bfloat16, or one that races in float32 alone, as bfloat16 would only be emulated;
with names of cases it runs those and puts their lines into that file; --quick shows with a tiny model that they run.
`python -m tests.benchmarks defaults` measures what fine-tuning gets with no options (defaults.py), `engines` predicts beside
other engines (engines.py).
"""

import argparse
import datetime
import os
import platform
import re
import sys
import tempfile
from itertools import chain
from pathlib import Path
from statistics import median

import torch
import transformers

from bertcli.errors import RunError, UserError
from tests.benchmarks import defaults, engines
from tests.benchmarks.cases import CPU_CASES, GPU_CASES, Case
from tests.benchmarks.materials import BESIDE, books
from tests.benchmarks.original import race_the_original
from tests.benchmarks.race import COLUMNS, race, run

ANSWER = ["bertcli", "predict", "--text", "It was a dark [MASK].", "--model", "bert-books"]
STARTS = {
    "bert --help": ["bertcli", "--help"],
    "bert tasks": ["bertcli", "tasks"],
    "bert predict --text": ANSWER,
    "from transformers import BertForMaskedLM, BertTokenizerFast": ["tests.benchmarks.import_transformers"],
}


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows])


def kind_of_chip() -> str:
    """What results are kept apart by."""
    if torch.cuda.is_available():
        return "gpu"
    if torch.cpu._is_amx_tile_supported():
        return "cpu-amx"
    return "cpu" if torch.cpu._is_avx512_bf16_supported() else "cpu-float32"


def machine() -> str:
    """Where and with what it was measured."""
    if torch.cuda.is_available():
        chip = torch.cuda.get_device_name()
    else:
        info = Path("/proc/cpuinfo")
        named = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
        abilities = {"AMX": torch.cpu._is_amx_tile_supported(), "AVX-512 BF16": torch.cpu._is_avx512_bf16_supported()}
        units = ", ".join(name for name, there in abilities.items() if there) or "no bfloat16 units"
        chip = f"{os.cpu_count()} cores of {named[1] if named else platform.processor()} ({units})"
    return f"{datetime.date.today()}, {chip}, torch {torch.__version__}, transformers {transformers.__version__}"


def start_up() -> str:
    """The median times of three of commands as whole processes, beside importing the classes that a prediction needs."""
    times: dict[str, list[float]] = {name: [] for name in STARTS}
    for name in [*STARTS] * 3:
        times[name].append(run(STARTS[name])["wall_seconds"])
    return table(["command", "seconds"], [[name, f"{median(each):.2f}"] for name, each in times.items()])


def preparation(folder: Path) -> str:
    """Our data preparation beside the original's."""
    beside = BESIDE / "text" / "standard_ebooks"
    text = beside if beside.exists() else books(Case("", "", {}, ()), folder)
    return table(["data", "cores", "time", "ratio"], race_the_original(sorted(text.glob("*.txt")), folder))


def the_race(cases: list[Case], folder: Path, rounds: int) -> str:
    """The table of the cases; one whose data are not here is said to be left out."""
    lines = []
    for case in cases:
        if not case.runs:
            print(f"left out, for bfloat16 would be emulated: {case.what}", flush=True)
            continue
        try:
            new = [line.cells() for line in race(case, folder, rounds)]
        except UserError as error:
            what = "failed" if isinstance(error, RunError) else "left out"
            new = [[case.what, f"{what}: {error.hint.strip().splitlines()[-1]}", *[""] * (len(COLUMNS) - 2)]]
        print(*(" | ".join(cells) for cells in new), sep="\n", flush=True)
        lines += new
    return table(COLUMNS, lines)


def put_into(text: str, raced: str, names: list[str], measured: str) -> str:
    """The results of before, with the new lines of some cases in the places of the old ones or last, and how they were measured."""
    new: dict[str, list[str]] = {}
    for line in raced.splitlines()[2:]:
        new.setdefault(line.split(" | ")[0], []).append(line)
    lines: list[str] = []
    for line in text.splitlines():
        what = line.split(" | ")[0]
        lines += new.get(what, [line])
        new |= {what: []} if what in new else {}
    lines += chain.from_iterable(new.values())
    again = f"Measured again, {', '.join(names)}: {measured}."
    return "\n".join([*lines[:3], "", again, *lines[3:]]) + "\n"


def main() -> None:
    """Measure, print, and write the table."""
    if sys.argv[1:2] == ["defaults"]:
        defaults.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["engines"]:
        text = f"# Engines\n\n{machine()}.\n\n{table(engines.COLUMNS, engines.main(sys.argv[2:]))}\n"
        (Path(__file__).parent / f"results-engines-{kind_of_chip()}.md").write_text(text, encoding="utf-8")
        return
    on_gpu = torch.cuda.is_available()
    all_cases = {case.name: case for case in (GPU_CASES if on_gpu else CPU_CASES)}
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("cases", nargs="*", metavar="CASE", help=f"some of: {', '.join(all_cases)}")
    options.add_argument("--rounds", type=int, default=3, choices=range(1, 100), metavar="N")
    options.add_argument("--quick", action="store_true")
    asked = options.parse_args()
    if unknown := set(asked.cases) - set(all_cases):
        options.error(f"no such case: {', '.join(sorted(unknown))}")
    cases = [all_cases[name] for name in asked.cases or all_cases]
    chip = kind_of_chip()
    if chip == "cpu-float32":
        cases = [case.in_float32() for case in cases]
    everything = not asked.cases and not asked.quick
    with tempfile.TemporaryDirectory() as made:
        # What takes minutes first, the race, which takes hours, last; each is printed when it is measured.
        parts = [] if on_gpu or not everything else [start_up(), preparation(Path(made))]
        print(*parts, sep="\n\n", flush=True)
        raced = the_race([case.quick() if asked.quick else case for case in cases], Path(made), asked.rounds)
    measured = f"{machine()}; load {os.getloadavg()[0]:.2f}; each the median of {asked.rounds}, in turn"
    results = Path(__file__).parent / f"results-{chip}.md"
    if asked.cases and not asked.quick and results.exists():
        results.write_text(
            put_into(results.read_text(encoding="utf-8"), raced, asked.cases, measured), encoding="utf-8"
        )
    if not everything:
        return
    text = "\n\n".join(["# Measured", measured, *parts, raced]) + "\n"
    results.write_text(text, encoding="utf-8")
    print("\n" + text)


if __name__ == "__main__":
    main()
