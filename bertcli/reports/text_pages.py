"""Self-contained pages of one text: the words that moved a decision, and where heads attend."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bertcli.reports.rendering import render

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVELS = 255  # of an attention weight in a page
PARTS = {"text": "Text", "text_pair": "Second text"}


def explanation_page(texts: dict[str, str], prediction: dict[str, Any], model: str) -> str:
    """The page of an explained prediction; `texts` are the parts of its input."""
    found = prediction["explanation"]
    parts = {PARTS[name]: list(marked(text, name, found["words"])) for name, text in texts.items()}
    ranked = sorted(found["words"], key=lambda word: -abs(word["attribution"]))
    sizes = {"largest": largest_of(found["words"]), "score": prediction.get("scores", {}).get(found["label"])}
    return render("explanation.html", found=found, parts=parts, ranked=ranked, model=model, **sizes)


def largest_of(words: list[dict[str, Any]]) -> float:
    """The largest attribution, to which shares are; 1 where all are 0."""
    return max((abs(word["attribution"]) for word in words), default=0) or 1


def marked(text: str, part: str, words: list[dict[str, Any]]) -> Iterator[tuple[str, float | None]]:
    """The pieces of a text, each with its share of the largest attribution, -1 to 1; None between the words."""
    end, largest = 0, largest_of(words)
    for word in words:
        if word["part"] == part:
            yield text[end : word["start"]], None
            yield text[word["start"] : word["end"]], word["attribution"] / largest
            end = word["end"]
    yield text[end:], None


def attention_page(tokens: list[str], weights: NDArray[np.float32], model: str) -> str:
    """The page of the attention in one text, [L, A, T, T]."""
    layers, heads = weights.shape[:2]
    data = b64encode((weights * LEVELS).round().astype("uint8").tobytes()).decode()
    values = {"tokens": tokens, "layers": layers, "heads": heads, "weights": data}
    return render("attention.html", data=values, model=model)
