"""Turn text into masked-LM and next-sentence instances, a shard at a time."""

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli import say
from bertcli.config.data import MakePretrainingDataConfig
from bertcli.config.recipes import shipped
from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.instances import Instances, Rows
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.pretraining.next_sentence import make_instances
from bertcli.data.text.corpus import tokenize
from bertcli.data.text.documents import COMPRESSED, find_text_files, read_documents
from bertcli.data.text.tokenization import WordPiece, load_wordpiece
from bertcli.errors import UserError
from bertcli.training.progress import Progress
from bertcli.training.run_folder import RunFolder

BYTES_PER_SHARD = 8_000_000
COMPRESSION = 3.5  # how much larger text is than its .gz, .xz or .zst, roughly
BYTES_WRITTEN = {"static": 0.45, "dynamic": 0.35}  # for each byte of English text and pass over it, roughly
ROWS_PER_GROUP = 8192
SPOOL_BYTES = 1 << 18


@dataclass(frozen=True)
class PretrainingData:
    """What `make_pretraining_data` made: a folder with a manifest and Parquet shards."""

    out: str
    instances: int
    tokens: int
    documents: int
    random_next: int
    masked_tokens: int
    shards: int
    seconds: float


def make_pretraining_data(text: MakePretrainingDataConfig | list[str] | str, **options: Any) -> PretrainingData:
    """Write the instances of `text` to the folder `out`, one a row, as create_pretraining_data.py makes them.

    With one shard and static masking the rows, their order and the generator's state afterwards are the original's.
    With more, documents are dealt to the shards in turn and each shard is made alone, from `seed` + its number.
    Interrupted and run again, it goes on with the shards that are finished.
    """
    config = MakePretrainingDataConfig.build(text, options)
    started = time.perf_counter()
    files = find_text_files(config.text)
    name = config.tokenizer or newest_vocabulary()
    tokenizer = load_wordpiece(shipped(name), config.cased)
    say(f"vocabulary: {name}, {tokenizer.size:,} tokens{'' if config.tokenizer else ' (the newest here)'}")
    out = Path(config.out)
    request = _request(config, files, tokenizer)
    if _is_complete(out, request, config.overwrite):
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
        say(f"{out} is complete already: the same text, vocabulary and options")
        return _result(out, manifest, started)
    size = sum(path.stat().st_size * (COMPRESSION if path.suffix in COMPRESSED else 1) for path in files)
    shards = config.shards or max(1, round(size / BYTES_PER_SHARD))
    _say_sizes(len(files), size, shards, config)
    if config.dry_run:
        return PretrainingData(str(out), 0, 0, 0, 0, 0, shards, 0.0)

    part = out.with_name(f".{out.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    work = RunFolder(part)
    work.lock()
    documents = _spool(files, part, shards, request, config)
    shards = min(shards, documents)
    counts = list(_make_shards(part, shards, tokenizer, config))
    manifest = _manifest(request, counts, documents, shards, tokenizer)
    tokenizer.save(part / "tokenizer", config.max_seq_length)
    shutil.rmtree(part / "spool")
    for finished in part.glob("*.json"):
        finished.unlink()
    (part / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    work.unlock()
    if out.exists():
        shutil.rmtree(out)
    part.rename(out)
    return _result(out, manifest, started)


def _say_sizes(files: int, text_bytes: float, shards: int, config: MakePretrainingDataConfig) -> None:
    written = text_bytes * config.dupe_factor * BYTES_WRITTEN[config.masking]
    there = next(folder for folder in Path(config.out).resolve().parents if folder.exists())
    free = shutil.disk_usage(there).free
    warning = f", and only {free / 1e6:.0f} MB are free" if written + text_bytes > free else ""
    say(
        f"text: {files} files, about {text_bytes / 1e6:.1f} MB, to {shards} shards; about {written / 1e6:.0f} MB will be written{warning}"
    )


def newest_vocabulary(otherwise: str | None = None) -> str:
    """The vocabulary folder that was written last, here, or `otherwise` where there is none.

    Raises:
        UserError: if there is neither.
    """
    found = sorted(Path().glob("*/vocab.txt"), key=lambda path: path.stat().st_mtime)
    if not found and otherwise:
        return otherwise
    if not found:
        raise UserError("There is no vocabulary here yet.", "Make one: bert build-vocab TEXT, or give --tokenizer.")
    return str(found[-1].parent)


def _request(config: MakePretrainingDataConfig, files: list[Path], tokenizer: WordPiece) -> dict[str, Any]:
    """What decides the instances: the same request gives the same folder."""
    own = {"text", "tokenizer", "cased", "out", "workers", "overwrite"}
    options = {name: value for name, value in config.values().items() if name not in own}
    texts = [{"name": path.name, "bytes": path.stat().st_size, "modified": path.stat().st_mtime_ns} for path in files]
    return {"options": options, "text": texts, "tokenizer": tokenizer.source, "tokenizer_digest": tokenizer.digest}


def _is_complete(out: Path, request: dict[str, Any], overwrite: bool) -> bool:
    if not out.exists():
        return False
    if not out.is_dir() or (any(out.iterdir()) and not (out / "manifest.json").exists()):
        raise UserError(f"`{out}` exists and is not a folder of pre-training data.", "Give another: --out NEW-FOLDER")
    if not (out / "manifest.json").exists():
        return False
    made = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    if all(made.get(key) == request[key] for key in ("options", "text", "tokenizer_digest")):
        return True
    if overwrite:
        return False
    raise UserError(
        f"`{out}` holds data of other text, vocabulary or options.",
        "Keep it and write elsewhere: --out NEW-FOLDER; or replace it: --overwrite",
    )


def _spool(
    files: list[Path], part: Path, shards: int, request: dict[str, Any], config: MakePretrainingDataConfig
) -> int:
    """Deal the documents to a text file for each shard; return how many there are.

    Reads all text once before any instance is made, so that a bad line is found in seconds, and memory holds a
    document, never the corpus.
    """
    wanted = {**request, "shards": shards}
    if (part / "request.json").exists():
        begun = json.loads((part / "request.json").read_text(encoding="utf-8"))
        if {key: begun[key] for key in wanted} == wanted:
            say(f"going on with {len(list(part.glob('*.json'))) - 1} finished shards in {part}")
            return int(begun["documents"])
    for old in part.iterdir():  # of another request
        if old.is_dir():
            shutil.rmtree(old)
        elif old.name != ".lock":
            old.unlink()
    (part / "spool").mkdir()
    try:
        documents = _deal(read_documents(files, config.join_files), part / "spool", shards)
        _check_documents(documents, config.shards or 1)
    except UserError:
        shutil.rmtree(part)
        raise
    (part / "request.json").write_text(json.dumps({**wanted, "documents": documents}), encoding="utf-8")
    return documents


def _deal(documents: Iterable[list[str]], folder: Path, shards: int) -> int:
    buffers = [""] * shards
    count = 0
    for count, document in enumerate(documents, start=1):
        shard = (count - 1) % shards
        buffers[shard] += "\n".join(document) + "\n\n"
        if len(buffers[shard]) > SPOOL_BYTES:
            _append(folder, shard, buffers)
    for shard in range(shards):
        _append(folder, shard, buffers)
    return count


def _append(folder: Path, shard: int, buffers: list[str]) -> None:
    with (folder / f"{shard:05}.txt").open("a", encoding="utf-8", newline="\n") as file:
        file.write(buffers[shard])
    buffers[shard] = ""


def _check_documents(documents: int, shards: int) -> None:
    if documents == 0:
        raise UserError("The text files hold blank lines only.", "Name files with text in them.")
    if documents < shards:
        raise UserError(f"{documents} documents cannot fill {shards} shards.", f"Give --shards {documents} or less.")
    if documents == 1:
        say("one document: no blank line in the text, so a random next sentence comes from the same document")


def _make_shards(
    part: Path, shards: int, tokenizer: WordPiece, config: MakePretrainingDataConfig
) -> Iterator[dict[str, Any]]:
    """Make the shards that are not finished, on several cores; yield the counts of every shard."""
    from joblib import Parallel, delayed

    unfinished = [shard for shard in range(shards) if not (part / f"shard-{shard:05}.json").exists()]
    sizes = {shard: (part / "spool" / f"{shard:05}.txt").stat().st_size for shard in unfinished}
    workers = min(config.workers or os.cpu_count() or 1, len(unfinished) or 1)
    jobs = (delayed(make_shard)(part.resolve(), tokenizer, config, shard) for shard in unfinished)
    with Progress("making instances", total=sum(sizes.values()), unit="B") as progress:
        for shard in Parallel(n_jobs=workers, return_as="generator_unordered")(jobs):
            progress.advance(sizes[shard])
    for shard in range(shards):
        yield json.loads((part / f"shard-{shard:05}.json").read_text(encoding="utf-8"))


def make_shard(folder: Path, tokenizer: WordPiece, config: MakePretrainingDataConfig, shard: int) -> int:
    """Make one shard from its spooled text: a Parquet file and, last, a JSON file with its counts."""
    corpus = tokenize(read_documents([folder / "spool" / f"{shard:05}.txt"]), tokenizer)
    draws = Draws(config.seed + shard)
    rules = MaskingRules.of(tokenizer, config.masked_lm_prob, config.max_predictions_per_seq, config.whole_word_mask)
    instances, order = make_instances(corpus, config, rules, draws)
    path = folder / f"shard-{shard:05}.parquet"
    counts = _write_parquet(path, instances, order, tokenizer.size)
    counts |= {"file": path.name, "rng_random_after": draws.random()}
    (folder / f"shard-{shard:05}.json").write_text(json.dumps(counts), encoding="utf-8")
    return shard


def _write_parquet(path: Path, instances: Instances, order: NDArray[np.int64], vocab_size: int) -> dict[str, Any]:
    """Write the instances in their order; return what there is of each."""
    import pyarrow.parquet as pq

    part = path.with_suffix(".part")
    counts = {"instances": len(order), "tokens": 0, "random_next": 0, "masked_tokens": 0}
    frequency = np.zeros(vocab_size, dtype=np.int64)
    schema = _table(instances.rows(order[:0]), vocab_size, instances.static_masking).schema
    with pq.ParquetWriter(part, schema, compression="zstd", use_dictionary=False) as writer:
        for start in range(0, len(order), ROWS_PER_GROUP):
            rows = instances.rows(order[start : start + ROWS_PER_GROUP])
            writer.write_table(_table(rows, vocab_size, instances.static_masking))
            counts["tokens"] += len(rows.input_ids)
            counts["random_next"] += int(rows.next_sentence_labels.sum())
            counts["masked_tokens"] += len(rows.masked_lm_ids)
            seen = rows.masked_lm_ids if instances.static_masking else rows.input_ids
            frequency += np.bincount(seen, minlength=vocab_size)
    part.rename(path)
    return {**counts, "token_counts": frequency.tolist()}


def _table(rows: Rows, vocab_size: int, static_masking: bool) -> Any:
    """The rows as Arrow columns, in the smallest integers that hold them; nothing may be missing."""
    import pyarrow as pa

    token = pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()
    columns = {
        "input_ids": (token, rows.input_ids, rows.offsets),
        "token_type_ids": (pa.uint8(), rows.token_type_ids, rows.offsets),
    }
    if static_masking:
        columns["masked_lm_positions"] = (pa.uint16(), rows.masked_lm_positions, rows.masked_lm_offsets)
        columns["masked_lm_ids"] = (token, rows.masked_lm_ids, rows.masked_lm_offsets)
    arrays = {
        name: pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(values, kind), pa.list_(pa.field("element", kind, nullable=False))
        )
        for name, (kind, values, offsets) in columns.items()
    }
    arrays["next_sentence_label"] = pa.array(rows.next_sentence_labels)
    return pa.table(
        list(arrays.values()), pa.schema([pa.field(name, array.type, False) for name, array in arrays.items()])
    )


def _manifest(
    request: dict[str, Any], counts: list[dict[str, Any]], documents: int, shards: int, tokenizer: WordPiece
) -> dict[str, Any]:
    """Sum up: options, tokenizer digest and counts; what stands by itself needs no other file."""
    totals = {
        key: sum(shard[key] for shard in counts) for key in ("instances", "tokens", "random_next", "masked_tokens")
    }
    if not totals["instances"]:
        raise UserError("The text gives no instance: no line has a token in it.", "Check the text and the vocabulary.")
    frequency = np.sum([shard.pop("token_counts") for shard in counts], axis=0)
    frequency[[tokenizer.special("cls"), tokenizer.special("sep")]] = 0
    most = int(frequency.argmax())
    shares = frequency[frequency > 0] / frequency.sum()
    return {
        **request,
        "vocab_size": tokenizer.size,
        "cased": tokenizer.cased,
        "documents": documents,
        **totals,
        "most_frequent_token": {"id": most, "token": tokenizer.tokens[most]},
        "token_entropy": round(float(-(shares * np.log(shares)).sum()), 4),
        "shards": counts,
    }


def _result(out: Path, manifest: dict[str, Any], started: float) -> PretrainingData:
    counts = {key: manifest[key] for key in ("instances", "tokens", "documents", "random_next", "masked_tokens")}
    result = PretrainingData(
        str(out), **counts, shards=len(manifest["shards"]), seconds=round(time.perf_counter() - started, 2)
    )
    random = 100 * result.random_next / result.instances
    made = f"{result.instances:,} instances ({result.tokens / 1e6:.1f} M tokens, {random:.1f} % random next)"
    say(f"{out}: {made} of {result.documents:,} documents, {result.shards} shards, {result.seconds:.0f} s")
    return result
