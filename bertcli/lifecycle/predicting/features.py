"""Hidden states of texts, written as Parquet, .npz or JSON lines (BERT section 5.3)."""

import json
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from bertcli import number_of, say
from bertcli.config.use import PredictConfig
from bertcli.data.atomic import replacing
from bertcli.data.packing.batches import evaluation_batches
from bertcli.data.packing.text_features import TextFeatures, encode_texts
from bertcli.data.text.coverage import Unknown, count_unknown
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.models.encoder import in_precision, longest_input
from bertcli.models.loading import load_with_tokenizer
from bertcli.models.own.frozen import combine, layer_states, say_if_fewer
from bertcli.models.packed import reads_last
from bertcli.training.device import inference_device, inference_tokens, resolve_precision

# L tokens of a text, D numbers of each

States = NDArray[np.float32]
TextStates = list[tuple[list[str], States]]  # the tokens of each text, and what is read off them, [L, D] or [D]
ROWS_AT_ONCE = 256  # 512 tokens each, of 3,072 numbers, are 1.6 GB


def write_hidden_states(model: str, rows: Iterator[dict[str, Any]], config: PredictConfig) -> int:
    """Write the chosen layers' states of each text or pair, a chunk at a time (.npz: all at the end); return the count."""
    path = Path(str(config.features))
    with replacing(path) as part, part.open("wb") as file:
        count = WRITERS[path.suffix](_chunks(model, rows, config), file)
    say(f"wrote {path}: {config.layers} of {count:,} texts, {config.pooling}")
    return count


def _chunks(name: str, rows: Iterator[dict[str, Any]], config: PredictConfig) -> Iterator[TextStates]:
    model, tokenizer = load_with_tokenizer(name)
    model.to(inference_device()).eval()
    say_if_fewer(config.layers, model.config.num_hidden_layers)
    vocabulary, truncated, unknown = tokenizer.tokens, 0, Unknown()
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        features = encode_texts(CLASSIFICATION.input_examples(chunk, tokenizer), tokenizer, longest_input(model), None)
        truncated += features.truncated
        unknown += count_unknown(features.input_ids.values, tokenizer)
        ids = [features.input_ids.take(np.array([row]))[0] for row in range(len(chunk))]
        states = _states(model, features, config)
        yield [([vocabulary[id_] for id_ in mine], read) for mine, read in zip(ids, states, strict=True)]
    if truncated:
        say(f"{number_of(truncated, 'input')} longer than the model takes, cut")
    if words := str(unknown):
        say(words)


@torch.inference_mode()
def _states(model: PreTrainedModel, features: TextFeatures, config: PredictConfig) -> list[States]:
    """What is read off each text, [L, D], or pooled, [D]."""
    found: dict[int, States] = {}
    with in_precision(model, resolve_precision(config.precision)):
        for batch in evaluation_batches(features, inference_tokens()):
            states = combine(layer_states(model, batch.to(model.device), config.layers), config.layers)  # [T, D]
            texts = np.split(states.float().cpu().numpy(), np.cumsum(batch.lengths)[:-1])
            place = -1 if reads_last(model) else 0  # of [CLS]
            found |= zip(batch.rows.tolist(), (POOL[config.pooling](text, place) for text in texts), strict=True)
    return [found[row] for row in range(len(found))]


POOL: dict[str, Callable[[States, int], States]] = {
    "tokens": lambda states, place: states,
    "cls": lambda states, place: states[place].copy(),
    "mean": lambda states, place: states.mean(axis=0),  # [CLS] and [SEP] too
}


def _write_parquet(chunks: Iterator[TextStates], file: IO[bytes]) -> int:
    """A row a text: `features`, and for each token its string in `tokens`."""
    from pyarrow.parquet import ParquetWriter

    tables = map(_table, chunks)
    first = next(tables)
    count = 0
    with ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            count += len(table)
    return count


def _table(rows: TextStates) -> Any:
    import pyarrow as pa

    flat = np.concatenate([states.ravel() for _, states in rows])
    features = pa.FixedSizeListArray.from_arrays(flat, rows[0][1].shape[-1])
    if rows[0][1].ndim == 1:
        return pa.table({"features": features})
    offsets = np.cumsum([0, *(len(tokens) for tokens, _ in rows)], dtype=np.int32)
    tokens = pa.array([tokens for tokens, _ in rows])
    return pa.table({"tokens": tokens, "features": pa.ListArray.from_arrays(offsets, features)})


def _write_npz(chunks: Iterator[TextStates], file: IO[bytes]) -> int:
    """`features` of all texts, [texts, D]; or of their tokens end to end, [tokens, D], where `lengths` cuts them."""
    rows = list(chain.from_iterable(chunks))
    states = [read for _, read in rows]
    if states[0].ndim == 1:
        np.savez(file, features=np.stack(states))
    else:
        tokens = np.array([token for tokens, _ in rows for token in tokens])
        np.savez(file, features=np.concatenate(states), tokens=tokens, lengths=[len(read) for read in states])
    return len(rows)


def _write_jsonl(chunks: Iterator[TextStates], file: IO[bytes]) -> int:
    """An object a text: `features`, and for each token its string in `tokens`; to six decimals."""
    count = 0
    for tokens, states in chain.from_iterable(chunks):
        count += 1
        record: dict[str, Any] = {"tokens": tokens} if states.ndim == 2 else {}
        record["features"] = states.astype(np.float64).round(6).tolist()
        file.write((json.dumps(record, ensure_ascii=False) + "\n").encode())
    return count


WRITERS = {".parquet": _write_parquet, ".npz": _write_npz, ".jsonl": _write_jsonl}
