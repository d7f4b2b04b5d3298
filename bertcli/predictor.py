"""A loaded model that turns rows of input into records: one function a kind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Encoding

from bertcli.config import PredictConfig
from bertcli.data.batches import pack
from bertcli.data.conll import Sentences
from bertcli.data.prepared import Prepared, encode_split
from bertcli.data.span_answers import Answer
from bertcli.data.span_features import WindowRules
from bertcli.data.squad import SpanExample, split_words
from bertcli.data.tables import place_of
from bertcli.data.task_files import TextExamples
from bertcli.data.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.models.heads import Objective
from bertcli.models.loading import load_model
from bertcli.scoring import Record, Scorer, load_scorer
from bertcli.tasks.task import Files, Task
from bertcli.training.device import inference_device
from bertcli.training.run_folder import saved_config

logger = logging.getLogger("bertcli")
MASK = "[MASK]"


@dataclass
class Predictor:
    """A loaded model: rows of input in, records out, in the same order."""

    scorer: Scorer
    kind: str
    top_k: int
    file: str | None = None  # of the rows, for messages
    cut: int = 0  # inputs that were longer than the model takes

    @classmethod
    def load(cls, model: str, kind: str, config: PredictConfig) -> Predictor:
        """Load a model folder or a Hub name for its kind."""
        if kind == "fill":
            tokenizer = load_tokenizer(model)
            device = inference_device()
            objective = Objective(load_model(None, model), "fill").to(device).eval()
            scorer = Scorer(_task("classify", {}), objective, tokenizer, WindowRules(max_query_length=0), device)
        else:
            scorer = load_scorer(_task(kind, saved_config(model)), model, config.precision)
        return cls(scorer, kind, config.top_k, config.file)

    def __call__(self, rows: list[Record]) -> list[Record]:
        """One record a row."""
        return PREDICT.get(self.kind, _labels)(self, rows)


def _labels(predictor: Predictor, rows: list[Record]) -> list[Record]:
    pairs = [row["text_pair"] for row in rows] if "text_pair" in rows[0] else None
    texts = TextExamples([row["text"] for row in rows], pairs, None, "the input")
    return predictor.scorer.predict(_encode_quietly(predictor, Prepared("input", texts)))


def _choices(predictor: Predictor, rows: list[Record]) -> list[Record]:
    choices = [row["choices"] for row in rows]
    texts = TextExamples([row["text"] for row in rows], None, None, "the input", choices)
    records = predictor.scorer.predict(_encode_quietly(predictor, Prepared("input", texts)))
    return [
        {"choice": record["choice"], "text": mine[record["choice"]], **record}
        for record, mine in zip(records, choices, strict=True)
    ]


def _entities(predictor: Predictor, rows: list[Record]) -> list[Record]:
    """The entities of each text; its words are what the basic tokenizer takes for words."""
    from bertcli.metrics.entities import entities

    texts = [row["text"] for row in rows]
    encodings = predictor.scorer.tokenizer.encode(texts)
    places = [_words(encoding, text) for encoding, text in zip(encodings, texts, strict=True)]
    words = [[text[start:end] for start, end in spans] for text, spans in zip(texts, places, strict=True)]
    prepared = Prepared("input", sentences=Sentences(words, None, "the input"))
    records = predictor.scorer.predict(_encode_quietly(predictor, prepared))
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
    records = predictor.scorer.predict(_encode_quietly(predictor, Prepared("input", questions=questions)))
    return [
        _placed(record.pop("answer_object"), row["context"], record) for record, row in zip(records, rows, strict=True)
    ]


def _fills(predictor: Predictor, rows: list[Record]) -> list[Record]:
    return [_fill(predictor, row) for row in rows]


PREDICT: dict[str, Callable[[Predictor, list[Record]], list[Record]]] = {
    "choose": _choices,
    "tag": _entities,
    "span": _answers,
    "fill": _fills,
}


def _encode_quietly(predictor: Predictor, prepared: Prepared) -> Prepared:
    """Encode; what is cut is counted, to be said when all is predicted."""
    scorer, level = predictor.scorer, logger.level
    logger.setLevel(max(level, logging.WARNING))
    encoded = encode_split(scorer.task, prepared, scorer.tokenizer, scorer.rules)
    logger.setLevel(level)
    predictor.cut += encoded.features.truncated if encoded.features else 0
    return encoded


def _task(kind: Any, saved: dict[str, Any]) -> Task:
    """A task without data: all that prediction needs is the kind, and whether there may be no answer."""
    length, with_impossible = 384 if kind == "span" else 512, saved.get("with_impossible", False)
    return Task("input", kind, Files({}, {}), ("", None), (), max_seq_length=length, with_impossible=with_impossible)


def _placed(answer: Answer, context: str, record: Record) -> Record:
    """Find where the answer stands in the context, in characters."""
    word = next((c.first_word for c in answer.n_best if c.text == answer.text), -1)
    word_of_character = split_words(context)[1]
    start = -1
    if answer.text and word >= 0:
        start = context.find(answer.text, word_of_character.index(word))
    found = start >= 0
    return {  # where there is no valid span, SQuAD 1.1's script answers with the word `empty`
        "answer": record["answer"] if answer.had_candidate else "",
        "score": record["score"] if answer.had_candidate else 0.0,
        "start": start if found else None,
        "end": start + len(answer.text) if found else None,
    }


@torch.inference_mode()
def _fill(predictor: Predictor, row: Record) -> Record:
    """The most probable tokens for each [MASK] of a text."""
    scorer, top_k = predictor.scorer, predictor.top_k
    tokenizer: WordPiece = scorer.tokenizer
    parts = tokenizer.encode_ids(row["text"].split(MASK))
    ids = [tokenizer.special("cls")]
    masks = []
    for index, part in enumerate(parts):
        if index:
            masks.append(len(ids))
            ids.append(tokenizer.special("mask"))
        ids += part
    ids.append(tokenizer.special("sep"))
    longest = scorer.objective.model.config.max_position_embeddings
    if len(ids) > longest or not masks:
        where = place_of(Path(str(predictor.file)), row["line"]) if "line" in row else "The text"
        what = f"has {len(ids)} tokens; the model takes {longest}." if masks else "has no [MASK] in it."
        raise UserError(f"{where} {what}", "Shorten it." if masks else "Put [MASK] where a word is to be filled in.")
    batch = pack(np.array(ids), np.zeros(len(ids), dtype=np.int64), np.array([len(ids)]), np.array([0]))
    batch = replace(batch, labels={"masked_lm_positions": torch.tensor(masks)}).to(scorer.device)
    shares = torch.softmax(scorer.objective.outputs(batch)["masked_lm"].float(), dim=-1)  # [masks, V]
    best = shares[:, : tokenizer.size].topk(min(top_k, tokenizer.size))
    tokens = tokenizer.tokens
    fills = [
        {"token": tokens[int(token)], "score": round(float(share), 6), **({"mask": mask} if len(masks) > 1 else {})}
        for mask, (row, scores) in enumerate(zip(best.indices, best.values, strict=True))
        for token, share in zip(row, scores, strict=True)
    ]
    return {"fills": fills}
