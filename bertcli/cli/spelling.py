"""The option that was meant by a name that is not one."""

import difflib
from collections.abc import Iterable

# What other tools, and other commands of this one, call the same option.
SYNONYMS = (
    ("--from", "--model", "--model-name-or-path", "--bert-model", "--init-checkpoint"),
    ("--out", "--output", "--output-dir", "--output-path"),
    ("--learning-rate", "--lr"),
    ("--batch-size", "--train-batch-size", "--per-device-train-batch-size", "--bs"),
    ("--epochs", "--num-train-epochs", "--num-epochs"),
    ("--steps", "--max-steps", "--num-train-steps"),
    ("--warmup-steps", "--num-warmup-steps"),
    ("--max-seq-length", "--max-length", "--max-seq-len"),
    ("--file", "--input", "--input-file"),
    ("--task", "--task-name"),
    ("--limit", "--max-train-samples", "--max-eval-samples"),
)


def nearest_option(name: str, options: Iterable[str]) -> str:
    """The one of a command's options that a name most likely means; "" for none."""
    options, name = list(options), name.lower().replace("_", "-")
    if name in options:
        return name
    alike = next((group for group in SYNONYMS if name in group), ())
    return next(iter([*filter(options.__contains__, alike), *difflib.get_close_matches(name, options, 1, 0.75)]), "")
