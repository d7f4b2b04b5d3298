"""The command line: one file per command, which parses, calls the core and shows the result."""

import gc

# Nearly all that imports make stays: to look through it for garbage as often as Python does took an eighth of `--help`.
gc.set_threshold(10_000)
