"""Pre-training data written: documents dealt to shards, shards as Parquet files, the manifest."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.data.atomic import part_of, replace
from bertcli.data.checksums import digest_of
from bertcli.data.json_files import write_json
from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.instances import InstanceColumns, InstanceRules, Instances, make_instances
from bertcli.data.text.corpus import tokenize
from bertcli.data.text.documents import read_documents
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError

ROWS_PER_GROUP = 8192
BUFFER_CHARACTERS = 1 << 18
COUNTS = ("instances", "tokens", "random_next", "masked_tokens", "text_tokens", "unused_tokens")
UNKNOWN = "unknown_tokens"  # counted in the manifest where there are some


def text_of(folder: Path, shard: int) -> Path:
    """The text file with the documents of a shard."""
    return folder / "spool" / f"{shard:05}.txt"


def counts_of(folder: Path, shard: int) -> Path:
    """The file with the counts of a finished shard."""
    return folder / f"shard-{shard:05}.json"


def deal_documents(documents: Iterable[list[str]], folder: Path, shards: int) -> int:
    """Deal the documents to the shards in turn, to a text file each; return how many there are."""
    (folder / "spool").mkdir()
    buffers, count = [""] * shards, 0
    for count, document in enumerate(chain(documents, [None] * shards)):
        shard = count % shards
        buffers[shard] += "\n".join(document) + "\n\n" if document else ""
        if document is None or len(buffers[shard]) > BUFFER_CHARACTERS:
            with text_of(folder, shard).open("a", encoding="utf-8", newline="\n") as file:
                file.write(buffers[shard])
            buffers[shard] = ""
    return count + 1 - shards


def make_shard(folder: Path, tokenizer: WordPiece, rules: InstanceRules, seed: int, shard: int) -> int:
    """Make one shard from its text file: a Parquet file and, last, a JSON file with its counts."""
    corpus = tokenize(read_documents([text_of(folder, shard)]), tokenizer, rules.ends_lines)
    draws = Draws(seed + shard)
    instances, order = make_instances(corpus, rules, draws)
    path = counts_of(folder, shard).with_suffix(".parquet")
    counts = _write_parquet(path, instances, order, tokenizer.size)
    counts |= {"file": path.name, "sha256": digest_of(path), "rng_random_after": draws.random()}
    write_json(counts_of(folder, shard), counts)
    return shard


def _write_parquet(path: Path, instances: Instances, order: NDArray[np.int64], vocab_size: int) -> dict[str, Any]:
    """Write the instances in their order; return their counts and the frequency of each token."""
    import pyarrow.parquet as pq

    part, is_static = part_of(path), instances.rules.static_masking
    counts = dict.fromkeys(COUNTS, 0) | {"instances": len(order), "text_tokens": len(instances.corpus.tokens)}
    counts["unused_tokens"] = instances.unused_tokens()
    if unknown := int((instances.corpus.tokens == instances.rules.masking.unk_id).sum()):
        counts[UNKNOWN] = unknown
    frequency = np.zeros(vocab_size, dtype=np.int64)
    schema = _table(instances.columns(order[:0]), vocab_size, is_static).schema
    with pq.ParquetWriter(part, schema, compression="zstd", use_dictionary=False) as writer:
        for start in range(0, len(order), ROWS_PER_GROUP):
            columns = instances.columns(order[start : start + ROWS_PER_GROUP])
            writer.write_table(_table(columns, vocab_size, is_static))
            counts["tokens"] += len(columns.input_ids)
            counts["random_next"] += int(columns.next_sentence_labels.sum())
            counts["masked_tokens"] += len(columns.masked_lm_ids)
            seen = columns.masked_lm_ids if is_static else columns.input_ids
            frequency += np.bincount(seen, minlength=vocab_size)
    replace(part, path)
    return {**counts, "token_counts": frequency.tolist()}


def _table(columns: InstanceColumns, vocab_size: int, static_masking: bool) -> Any:
    """The columns as an Arrow table, in the smallest integers that hold them; no value is null."""
    import pyarrow as pa

    token = pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()
    types = {"input_ids": token, "token_type_ids": pa.uint8()}
    types |= {"masked_lm_positions": pa.uint16(), "masked_lm_ids": token} if static_masking else {}
    arrays = {}
    for name, type_ in types.items():
        offsets = pa.array(columns.masked_lm_offsets if name.startswith("masked") else columns.offsets, pa.int32())
        values, list_type = pa.array(getattr(columns, name), type_), pa.list_(pa.field("element", type_, False))
        arrays[name] = pa.ListArray.from_arrays(offsets, values, list_type)
    arrays["next_sentence_label"] = pa.array(columns.next_sentence_labels)
    schema = pa.schema([pa.field(name, array.type, False) for name, array in arrays.items()])
    return pa.table(list(arrays.values()), schema)


Json = dict[str, Any]


def make_manifest(request: Json, shards: list[Json], documents: int, tokenizer: WordPiece) -> Json:
    """Sum up the data: the request, counts and token frequencies. Raises UserError if there is no instance."""
    totals = {key: sum(shard.get(key, 0) for shard in shards) for key in COUNTS}
    if not totals["instances"]:
        if totals["text_tokens"]:
            length = request["options"]["max_seq_length"]
            few = f"its {totals['text_tokens']:,} tokens are too few for a row of {length}"
            raise UserError(f"The text gives no instance: {few}.", "Give more text, or a smaller --max-seq-length.")
        raise UserError("The text gives no instance: no line has a token in it.", "Check the text and the vocabulary.")
    frequency = np.sum([shard.pop("token_counts") for shard in shards], axis=0)
    frequency[[tokenizer.special("cls"), tokenizer.special("sep")]] = 0
    most = int(frequency.argmax())
    shares = frequency[frequency > 0] / frequency.sum()
    facts = {"vocab_size": tokenizer.size, "cased": tokenizer.cased, "documents": documents, **totals}
    if unknown := sum(shard.get(UNKNOWN, 0) for shard in shards):
        facts[UNKNOWN] = unknown
    frequent = {"id": most, "token": tokenizer.tokens[most]}
    entropy = round(float(-(shares * np.log(shares)).sum()), 4)
    return {**request, **facts, "most_frequent_token": frequent, "token_entropy": entropy, "shards": shards}
