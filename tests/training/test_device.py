"""The memory that a step frees is there for the next one, without the system clearing its pages again."""

import platform
import subprocess
import sys

import pytest

PAGES_OF_AN_ARRAY = """
import resource, sys, torch
from bertcli.training.device import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(30):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(10 << 20)  # 40 MiB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def new_pages(what: str) -> int:
    """How many pages the thirtieth array of a process asks the system for; the first ones may lie side by side."""
    run = subprocess.run([sys.executable, "-c", PAGES_OF_AN_ARRAY, what], capture_output=True, text=True, check=True)
    return int(run.stdout)


@pytest.mark.torture
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep memory")
def test_an_array_takes_the_pages_of_the_one_before() -> None:
    assert new_pages("keep") < new_pages("leave") / 10
