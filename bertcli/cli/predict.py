"""`bert predict`: use a model on a text, a pair, choices, a question, a file or a split of a task."""

import sys
from dataclasses import replace
from itertools import combinations
from typing import Any

from bertcli.cli.console import Output, is_piped
from bertcli.cli.options import command
from bertcli.config.use import PredictConfig
from bertcli.lifecycle.predicting.options import INPUTS

MOST_WORDS = 10  # of an explanation
ROWS_PER_TABLE = 1000  # of a long file, shown as it is predicted


@command(PredictConfig)
def predict(config: PredictConfig, output: Output) -> dict[str, Any] | None:
    """Use a model on a text, a pair, choices, a question, a file or a split of a task.

    Examples:
        bert predict --text "a gripping, beautiful film"
        bert predict --text "Paris is the [MASK] of France."
        bert predict --text "She closed the door and" --choice "left." --choice "ate the moon."
        bert predict --question "Who wrote it?" --context "It was written by Ada."
        bert predict --file reviews.csv --output predictions.csv
        echo "a gripping, beautiful film" | bert predict
        bert predict --file reviews.txt --features states.parquet --layers concat-last-four
        bert predict --text "a gripping, beautiful film" --explain
        bert predict --text "a gripping, beautiful film" --explain attention
        bert predict --compare "river bank" "bank account" --word bank
        bert predict squad --data-dir data --split dev --output predictions.json
    """
    from bertcli.data.text.tables import chunks_of
    from bertcli.kinds import KINDS
    from bertcli.lifecycle.predict import stream

    result = stream(_with_piped_input(config))
    if result.output or config.dry_run:
        return {"model": result.model, "output": result.output, "predictions": result.count}
    if config.task and KINDS[result.kind].official_file:
        output.emit({record["id"]: record["answer"] for record in result.records})
    elif output.json or config.output == "-" or not sys.stdout.isatty():
        for record in result.records:
            output.emit(record)
    else:
        for records in chunks_of(result.records, ROWS_PER_TABLE):
            (_show_comparison if config.compare else _show)(records, output)
            _show_explanations(records, config, output)
    return None


def _with_piped_input(config: PredictConfig) -> PredictConfig:
    """The request; where it has no input, with that of a pipe or a file on standard input."""
    if any(getattr(config, name) not in ("", None, []) for name in ("task", *INPUTS, "compare")):
        return config
    return replace(config, file="-") if is_piped() else config


def _show(records: list[dict[str, Any]], output: Output) -> None:
    """Show one prediction as its most probable labels or its parts, several as a row each."""
    first = records[0]
    parts = first.get("fills") or first.get("entities") or first.get("words") or [_plain(first)]
    if len(records) > 1:
        output.table(_plain(first), (_plain(record).values() for record in records))
    elif isinstance(first.get("scores"), dict):
        output.table(["label", "probability"], sorted(first["scores"].items(), key=lambda item: -item[1])[:5])
    else:
        output.table(parts[0], (part.values() for part in parts))


def _show_comparison(records: list[dict[str, Any]], output: Output) -> None:
    """Show the cosines of a word's vectors, a row a layer and a column a pair of texts."""
    for record in records:
        output.table(["", "text"], enumerate(record["texts"], start=1))
        pairs = (f"{one} and {other}" for one, other in combinations(range(1, len(record["texts"]) + 1), 2))
        rows = ([layer["layer"], *layer["cosines"]] for layer in record["layers"])
        output.table(["layer", *pairs], rows, f"cosines of `{record['word']}`")


def _show_explanations(records: list[dict[str, Any]], config: PredictConfig, output: Output) -> None:
    """Show a text with its words shaded by what they add, and those that add most."""
    from bertcli.reports.text_pages import PARTS, marked

    for found in (record["explanation"] for record in records if "explanation" in record):
        words = sorted(found["words"], key=lambda word: -abs(word["attribution"]))
        for part in PARTS:
            if text := getattr(config, part):
                output.shaded(marked(text, part, found["words"]))
        title = f"{found['unit']}{' of ' + found['label'] if found['label'] else ''}, by {found['method']}"
        rows: list[list[object]] = [[word["text"], f"{word['attribution']:+.4f}"] for word in words[:MOST_WORDS]]
        if others := words[MOST_WORDS:]:
            rows.append([f"{len(others)} other words", f"{sum(word['attribution'] for word in others):+.4f}"])
        rows += [["without words", f"{found['baseline']:+.4f}"], ["all", f"{found['output']:+.4f}"]]
        output.table(["word", "adds"], rows, title)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """A prediction on one line: without the probabilities of all labels, lists as words."""
    shown = {key: value for key, value in record.items() if key not in ("scores", "explanation")}
    return {key: ", ".join(map(_word, value)) if isinstance(value, list) else value for key, value in shown.items()}


def _word(part: str | dict[str, Any]) -> str:
    """A label by its name; a fill or an entity with its probability."""
    if isinstance(part, str):
        return part
    return f"{part['token'] if 'token' in part else part['text'] + '/' + part['label']} {part['score']:.2f}"
