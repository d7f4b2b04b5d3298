"""`bert similar`: find the rows of a file that are nearest to a text in meaning, or to each other."""

from dataclasses import replace
from typing import Any

import bertcli
from bertcli.cli.console import Output, is_piped
from bertcli.cli.options import command
from bertcli.config.use import SimilarConfig

MOST_CHARACTERS = 160  # of a text that is shown


@command(SimilarConfig)
def similar(config: SimilarConfig, output: Output) -> object:
    """Find the rows of a file that are nearest to a text in meaning, or near duplicates.

    Examples:
        bert similar --file texts.csv --text "card is late"
        bert similar --file texts.csv --text-column question --texts queries.txt --top-k 3
        bert similar --file texts.csv --pairs --threshold 0.95
        echo "card is late" | bert similar --file texts.csv
    """
    if config.file and not (config.text or config.texts or config.pairs) and is_piped():
        config = replace(config, texts="-")
    result = bertcli.similar(config)
    for found in result.texts:
        nearest = ([row["cosine"], row["line"], _on_one_line(row["text"])] for row in found["nearest"])
        output.table(["cosine", "line", "text"], nearest, _on_one_line(found["text"]))
    if result.pairs:
        pairs = ([pair["cosine"], *(row["line"] for row in pair["rows"]), *_texts(pair)] for pair in result.pairs)
        output.table(["cosine", "line", "and line", "text", "and text"], pairs)
    return result


def _texts(pair: dict[str, Any]) -> list[str]:
    return [_on_one_line(row["text"]) for row in pair["rows"]]


def _on_one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."
