"""The words that moved a prediction: integrated gradients on the embeddings, or exact Shapley values of a short text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import chain, pairwise
from math import comb
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertcli import say
from bertcli.data.atomic import write_text
from bertcli.data.packing.batches import PackedBatch, longest_first
from bertcli.data.packing.text_features import TextFeatures
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import check_extra
from bertcli.kinds.kind import Encoder
from bertcli.kinds.types import Prediction
from bertcli.lifecycle.scoring.task_model import TaskModel
from bertcli.reports.text_pages import PARTS, explanation_page
from bertcli.training.device import inference_tokens

# n copies of a text of T tokens, W words, H hidden, C outputs

Row = dict[str, Any]
MOST_WORDS = 10  # for exact Shapley values, which run all 2^W subsets of the words
STEPS, MOST_STEPS = 32, 1024  # of the path from the baseline to the text
SHARE_OF_TOKENS = 4  # a pass with gradients takes a quarter of the tokens of one without
TOLERANCE = 0.05  # of the difference to the baseline, which the words sum to
FIRST_NUMBER = 2**30  # the numbers of tokens begin here, above any id
NEGLIGIBLE = 1e-4  # an error of the sum that counts as none


@dataclass(frozen=True)
class Word:
    """A word of a text, its place in the characters, and what it adds to the output."""

    text: str
    part: str  # of the input: text or text_pair
    start: int
    end: int
    attribution: float = 0.0


def explained(
    model: TaskModel, found: Iterable[tuple[Row, Prediction]], page: str | None, name: str, most_steps: int = MOST_STEPS
) -> Iterator[tuple[Row, Prediction]]:
    """Add to each prediction its explanation, which is also written to the file `page`, if given, with the name of the model."""
    for row, prediction in found:
        prediction |= {"explanation": Explainer(model, row, most_steps).explain()}
        if page:
            texts = {part: row[part] for part in PARTS if part in row}
            write_text(Path(page), explanation_page(texts, prediction, name))
            say(f"wrote {page}")
        yield row, prediction


class Explainer:
    """Explains the prediction for one input: how far each word moves an output from that of a text of only [MASK]."""

    def __init__(self, model: TaskModel, row: Row, most_steps: int = MOST_STEPS) -> None:
        examples = model.kind.input_examples([row], model.tokenizer)
        self.model, self.row, self.most_steps = model, row, most_steps
        both = (Encoder(cast(Any, each), model.rules) for each in (model.tokenizer, _Numbered(model.tokenizer)))
        self.features, numbered = (cast(TextFeatures, model.kind.encode(model.task, examples, each)) for each in both)
        self.windows = np.arange(len(self.features.input_ids))  # of a text, which has one unless it is read in several
        self.ids = self.features.input_ids.take(self.windows)[0]  # [T]
        self.words, self.places = self._words(numbered.input_ids.take(self.windows)[0])
        masked = self.ids.copy()
        masked[list(chain.from_iterable(self.places))] = model.tokenizer.special("mask")
        self.masked = masked
        with torch.no_grad():
            ends = self._logits(torch.from_numpy(np.stack([self.masked, self.ids])))
            self.output = int(ends[1].argmax())
            self.before, self.after = self._evidence(ends).tolist()

    def explain(self) -> Prediction:
        """The explanation as plain values. Raises UserError if captum is missing and the text is not short."""
        if len(self.words) > MOST_WORDS:
            use, instead = f"Explaining {len(self.words):,} words", f"give at most {MOST_WORDS} words"
            check_extra("explain", "captum", use=use, instead=instead)
        if find_spec("captum"):
            method, steps, of_words = "integrated gradients", *self._integrated_gradients()
        else:
            method, steps, of_words = "Shapley values", 2 ** len(self.words), self._shapley_values()
        labels = self.model.task.labels
        what = {"label": labels[self.output] if labels else None, "unit": self.model.kind.evidence_unit}
        how = {"method": method, "steps": steps, "baseline": round(self.before, 6), "output": round(self.after, 6)}
        shares = [round(float(share), 6) for share in of_words]
        words = [replace(word, attribution=share) for word, share in zip(self.words, shares, strict=True)]
        return {**what, **how, "words": [*map(asdict, words)]}

    def _words(self, numbers: NDArray[Any]) -> tuple[list[Word], list[list[int]]]:
        """The words that the model reads, and the places of each, several where windows overlap, by the numbers of the tokens, [T]."""
        words: list[Word] = []
        places: list[list[int]] = []
        begin, known = FIRST_NUMBER, {*numbers.tolist()}
        for part in filter(self.row.__contains__, PARTS):
            (encoding,) = self.model.tokenizer.encode([self.row[part]])
            for tokens in _runs(encoding.word_ids):
                read = [token for token in tokens if begin + token in known]
                if read:
                    start, end = encoding.offsets[read[0]][0], encoding.offsets[read[-1]][1]
                    text = self.row[part][start:end]
                    start += len(text) - len(text.lstrip())
                    words.append(Word(text.strip(), part, start, end))
                    places.append(np.flatnonzero(np.isin(numbers, np.add(read, begin))).tolist())
            begin += len(encoding.ids)
        return words, places

    def _order(self, count: int) -> Tensor:
        """Where each token of a packed batch stands in the copies, [n, T]: a batch has the longest windows first."""
        lengths = np.tile(self.features.input_ids.lengths, count)
        ends, windows = np.cumsum(lengths), longest_first(np.arange(len(lengths)), lengths)
        return torch.from_numpy(np.concatenate([np.arange(ends[each] - lengths[each], ends[each]) for each in windows]))

    def _batch(self, ids: Tensor) -> PackedBatch:
        """Copies of the input with other token ids, [n, T]."""
        packed: PackedBatch = self.features.pack(np.zeros(len(ids), dtype=np.int64), 0)
        return replace(packed, input_ids=ids.flatten()[self._order(len(ids))]).to(self.model.device)

    def _logits(self, ids: Tensor, embeddings: Tensor | None = None) -> Tensor:
        """The logits of copies of the input, [n, C], with other token ids, [n, T], or other embeddings of them, [n, T, H]."""
        inner = self.model.model.model

        def replaced(_: Any, __: Any, output: Tensor) -> Tensor:
            assert embeddings is not None
            rows = output.flatten(0, -2)
            mine = embeddings.flatten(0, 1)[self._order(len(embeddings))].to(rows.dtype)
            return torch.cat([mine, rows[len(mine) :]]).view_as(output)

        hook = inner.get_input_embeddings().register_forward_hook(replaced) if embeddings is not None else None
        try:
            return self.model.kind.outputs(inner, self._batch(ids))["logits"].float()
        finally:
            if hook:
                hook.remove()

    def _evidence(self, logits: Tensor) -> Tensor:
        return self.model.kind.evidence(logits, self.output)

    def _integrated_gradients(self) -> tuple[int, NDArray[np.float64]]:
        """Number of steps, and what each word adds, [W], by captum (Sundararajan et al. 2017)."""
        from captum.attr import IntegratedGradients

        ids = torch.from_numpy(self.ids)
        table = self.model.model.model.get_input_embeddings()
        text, baseline = (
            table(torch.from_numpy(each).to(self.model.device)).detach()[None] for each in (self.ids, self.masked)
        )  # [1, T, H]

        def score(embeddings: Tensor) -> Tensor:
            return self._evidence(self._logits(ids.expand(len(embeddings), -1), embeddings))

        method = IntegratedGradients(score)
        at_once = max(1, inference_tokens() // SHARE_OF_TOKENS // len(self.ids))
        steps, wanted = STEPS, self.after - self.before
        while True:
            found = method.attribute(text, baseline, n_steps=steps, internal_batch_size=at_once)
            of_tokens = found.detach().sum(-1)[0].double().cpu().numpy()  # [T]
            error = abs(of_tokens.sum() - wanted)
            if error <= TOLERANCE * abs(wanted) or error <= NEGLIGIBLE or steps >= self.most_steps:
                break
            steps *= 2
        if error > max(TOLERANCE * abs(wanted), NEGLIGIBLE):
            say(f"the words sum to {of_tokens.sum():.3f} instead of {wanted:.3f}, in {steps} steps")
        return steps, np.array([of_tokens[tokens].sum() for tokens in self.places])

    @torch.no_grad()
    def _shapley_values(self) -> NDArray[np.float64]:
        """What each word adds, [W]: the mean over all orders in which the words may take the places of [MASK] (Shapley 1953)."""
        count = len(self.words)
        shown = np.arange(2**count)[:, None] >> np.arange(count) & 1  # [2^W, W] which words are there
        ids = np.tile(self.masked, (len(shown), 1))
        for word, tokens in enumerate(self.places):
            ids[np.ix_(shown[:, word] == 1, tokens)] = self.ids[tokens]
        at_once = max(1, inference_tokens() // len(self.ids))
        scores = np.concatenate(
            [self._evidence(self._logits(part)).cpu().numpy() for part in torch.split(torch.from_numpy(ids), at_once)]
        ).astype(np.float64)
        weights = [1 / (count * comb(count - 1, size)) for size in range(count)]
        of_words = np.zeros(count)
        for word in range(count):
            without = np.flatnonzero(shown[:, word] == 0)
            sizes = shown[without].sum(1)
            of_words[word] = ((scores[without | 1 << word] - scores[without]) * np.take(weights, sizes)).sum()
        return of_words


class _Numbered:
    """A tokenizer that gives the tokens of texts numbers, from FIRST_NUMBER on, in place of ids."""

    def __init__(self, tokenizer: WordPiece) -> None:
        self.tokenizer, self.end = tokenizer, FIRST_NUMBER

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def encode_ids(self, texts: list[str]) -> list[list[int]]:
        """The numbers of the tokens of one text."""
        begin, (ids,) = self.end, self.tokenizer.encode_ids(texts)
        self.end += len(ids)
        return [[*range(begin, self.end)]]


def _runs(numbers: list[int | None]) -> Iterator[list[int]]:
    """The places of equal neighbours."""
    cuts = [0, *(place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1]), len(numbers)]
    yield from (list(range(*ends)) for ends in pairwise(cuts) if ends[0] < ends[1])
