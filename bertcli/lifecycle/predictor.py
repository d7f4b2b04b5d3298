"""A loaded model that turns rows of input into records: one function a kind."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tokenizers import Encoding

from bertcli.config.use import PredictConfig
from bertcli.data.labelled.conll import Sentences
from bertcli.data.labelled.official_files import TextExamples
from bertcli.data.labelled.squad import SEPARATORS, Questions, SpanExample, split_words
from bertcli.data.labelled.tables import chunks_of, place_of
from bertcli.data.packing.batches import evaluation_batches
from bertcli.data.packing.mask_features import MaskFeatures, encode_masks
from bertcli.data.packing.ragged import Ragged
from bertcli.data.packing.span_answers import Answer
from bertcli.data.packing.span_features import WindowRules
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.kinds.architecture import load, with_loss
from bertcli.lifecycle.scoring import Record, Scorer, load_scorer
from bertcli.lifecycle.sources import Prepared, encode
from bertcli.models.encoder import in_precision, longest_input
from bertcli.tasks.task import Files, Task
from bertcli.training.device import inference_device, resolve_precision
from bertcli.training.run_folder import saved_config

logger = logging.getLogger("bertcli")
FILL_TOKENS = 2048  # at once: each mask has a number for every token of the vocabulary


@dataclass
class Predictor:
    """A loaded model: rows of input in, records out, in the same order."""

    scorer: Scorer
    kind: str
    top_k: int
    file: str | None = None  # of the rows, for messages
    cut: int = 0  # inputs that were longer than the model takes

    @classmethod
    def load(cls, model: str, kind: str, config: PredictConfig) -> Self:
        """Load a model folder or a Hub name for its kind."""
        if kind == "fill":
            device = inference_device()
            objective = with_loss(load(None, model), "fill").to(device).eval()
            rules = WindowRules(max_query_length=0)
            dtype = resolve_precision(config.precision)
            scorer = Scorer(_task("classify"), objective, load_tokenizer(model), rules, device, dtype)
        else:
            with_impossible = saved_config(model).get("with_impossible", False)
            scorer = load_scorer(_task(kind, with_impossible), model, config.precision, fast=True)
        return cls(scorer, kind, config.top_k, config.file)

    def __call__(self, rows: list[Record]) -> Iterable[Record]:
        """One record a row."""
        return PREDICT.get(self.kind, _labels)(self, rows)


def texts_of(rows: list[Record]) -> TextExamples:
    """Texts, pairs, or texts with choices, by what the first row has."""
    pairs, choices = ([row[key] for row in rows] if key in rows[0] else None for key in ("text_pair", "choices"))
    return TextExamples([row["text"] for row in rows], pairs, choices=choices, origin="the input")


def _predict(predictor: Predictor, prepared: Prepared) -> list[Record]:
    """Encode without a word, and predict; what is cut is counted, to be said when all is predicted."""
    scorer = predictor.scorer
    encoded = encode(scorer.task, prepared, scorer.tokenizer, scorer.rules)
    predictor.cut += encoded.features.truncated if encoded.features else 0
    return scorer.predict(encoded)


def _labels(predictor: Predictor, rows: list[Record]) -> list[Record]:
    return _predict(predictor, Prepared("input", texts_of(rows)))


def _choices(predictor: Predictor, rows: list[Record]) -> list[Record]:
    records = _labels(predictor, rows)
    return [
        {"choice": record["choice"], "text": row["choices"][record["choice"]], **record}
        for record, row in zip(records, rows, strict=True)
    ]


def _entities(predictor: Predictor, rows: list[Record]) -> list[Record]:
    """The entities of each text; its words are what the basic tokenizer takes for words."""
    from bertcli.metrics.entities import entities

    texts = [row["text"] for row in rows]
    encodings = predictor.scorer.tokenizer.encode(texts)
    places = [_words(encoding, text) for encoding, text in zip(encodings, texts, strict=True)]
    words = [[text[start:end] for start, end in spans] for text, spans in zip(texts, places, strict=True)]
    prepared = Prepared("input", Sentences(words, origin="the input"))
    records = _predict(predictor, prepared)
    found: list[Record] = []
    for text, spans, record in zip(texts, places, records, strict=True):
        mine = []
        for label, first, last in entities(record["tags"]):
            start, end = spans[first][0], spans[last][1]
            score = round(float(np.mean(record["scores"][first : last + 1])), 6)
            mine.append({"text": text[start:end], "label": label, "start": start, "end": end, "score": score})
        found.append({"entities": mine})
    return found


def _words(encoding: Encoding, text: str) -> list[tuple[int, int]]:
    """Start and end of each word, in characters; a space before it, which some tokenizers count in, is not of it."""
    spans: dict[int | None, tuple[int, int]] = {}
    for word, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
        spans[word] = (spans[word][0] if word in spans else start, end)
    return [(end - len(text[start:end].lstrip()), end) for start, end in spans.values()]


def _answers(predictor: Predictor, rows: list[Record]) -> list[Record]:
    questions = [SpanExample(str(i), row["question"], split_words(row["context"])[0]) for i, row in enumerate(rows)]
    records = _predict(predictor, Prepared("input", Questions(questions, {}, origin="the input")))
    return [_placed(record, row["context"]) for record, row in zip(records, rows, strict=True)]


def _fills(predictor: Predictor, rows: list[Record]) -> Iterator[Record]:
    """The most probable tokens for each [MASK] of each text."""
    scorer, size = predictor.scorer, predictor.scorer.tokenizer.size
    names, top_k = scorer.tokenizer.tokens, min(predictor.top_k, size)
    for texts in chunks_of(_masked(predictor, rows), len(rows)):  # those before one that is wrong come before its error
        features = MaskFeatures(*map(Ragged.from_lists, zip(*texts, strict=True)))
        fills: list[list[Record]] = [[] for _ in texts]
        with torch.inference_mode(), in_precision(scorer.objective, scorer.dtype):
            for batch in evaluation_batches(features, FILL_TOKENS):
                logits = scorer.objective.outputs(batch.to(scorer.device))["masked_lm"]
                shares, ids = logits.float().softmax(-1)[:, :size].topk(top_k)  # [masks, top_k]
                for text, best, scores in zip(batch.rows.tolist(), ids.tolist(), shares.tolist(), strict=True):
                    mask = {"mask": len(fills[text]) // top_k} if len(texts[text][1]) > 1 else {}
                    fills[text] += [
                        {"token": names[token], "score": round(score, 6), **mask}
                        for token, score in zip(best, scores, strict=True)
                    ]
        yield from ({"fills": found} for found in fills)


def _masked(predictor: Predictor, rows: list[Record]) -> Iterator[tuple[list[int], list[int]]]:
    longest = longest_input(predictor.scorer.objective.model)
    for row in rows:
        ids, places = encode_masks(row["text"], predictor.scorer.tokenizer)
        if len(ids) > longest or not places:
            where = place_of(Path(str(predictor.file)), row["line"]) if "line" in row else "The text"
            what = f"has {len(ids)} tokens; the model takes {longest}." if places else "has no [MASK] in it."
            raise UserError(
                f"{where} {what}", "Shorten it." if places else "Put [MASK] where a word is to be filled in."
            )
        yield ids, places


PREDICT: dict[str, Callable[[Predictor, list[Record]], Iterable[Record]]] = {
    "choose": _choices,
    "tag": _entities,
    "span": _answers,
    "fill": _fills,
}


def _task(kind: Any, with_impossible: bool = False) -> Task:
    """A task without data: all that prediction needs is the kind, and whether there may be no answer."""
    length = 384 if kind == "span" else 512
    return Task("input", kind, Files({}, {}), ("", None), (), max_seq_length=length, with_impossible=with_impossible)


def _placed(record: Record, context: str) -> Record:
    """Find where the answer stands in the context, in characters."""
    answer: Answer = record["answer_object"]
    if not answer.had_candidate:  # then the script of SQuAD 1.1 answers with the word `empty`
        return {"answer": "", "score": 0.0, "start": None, "end": None}
    word = next((c.first_word for c in answer.n_best if c.text == answer.text), -1)
    place = None
    if answer.text and word >= 0:  # it is of the words from this one on, which one space or more keeps apart
        spelt = re.compile(re.escape(answer.text).replace("\\ ", f"[{SEPARATORS}]+"))
        place = spelt.search(context, split_words(context)[1].index(word))
    start, end = place.span() if place else (None, None)
    return {"answer": record["answer"], "score": record["score"], "start": start, "end": end}
