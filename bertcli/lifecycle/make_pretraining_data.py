"""Turn text into pre-training instances, a shard at a time."""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.config.data import MakePretrainingDataConfig
from bertcli.data.atomic import part_of, remove, replace, replacing
from bertcli.data.json_files import read_json, write_json
from bertcli.data.pretraining import writing
from bertcli.data.pretraining.instances import InstanceRules
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.pretraining.shards import MANIFEST
from bertcli.data.results import Result
from bertcli.data.text.documents import COMPRESSED, find_text_files, read_documents
from bertcli.data.text.tokenization import WordPiece, load_wordpiece
from bertcli.errors import UserError
from bertcli.lifecycle.workspace import latest_vocabulary, tokenizer_source
from bertcli.objectives import default_objective
from bertcli.training.progress import Progress
from bertcli.training.run_folder import LOCK, RunFolder

BYTES_PER_SHARD = 8_000_000
COMPRESSION = 3.5  # size of text relative to its .gz, .xz or .zst, roughly
BYTES_WRITTEN = {"static": 0.45, "dynamic": 0.35}  # for each byte of English text and pass over it, roughly
NOT_CONTENT = {"text", "tokenizer", "cased", "out", "workers", "overwrite"}  # options that leave the instances the same


@dataclass(frozen=True)
class PretrainingData(Result):
    """What `make_pretraining_data` wrote: a folder with a manifest and Parquet shards."""

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

    With one shard and static masking, rows and order equal the original's. With more, documents are dealt to the shards
    in turn, each made from `seed` + its number. Run again after an interruption, it makes the unfinished shards.
    """
    config = MakePretrainingDataConfig.build(text, options)
    started = time.perf_counter()
    files = find_text_files(config.text)
    tokenizer = load_wordpiece(tokenizer_source(config.tokenizer or latest_vocabulary()), config.cased)
    latest = "" if config.tokenizer else " (latest in this folder)"
    say(f"vocabulary: {tokenizer.source}, {tokenizer.size:,} tokens{latest}")
    out, part = Path(config.out), part_of(Path(config.out))
    request = _request(config, files, tokenizer)
    if _is_complete(out, request, config.overwrite):
        remove(part)  # the data that it has replaced, where the process was killed then
        say(f"{out} is complete already: the same text, vocabulary and options")
        return _result(out, _read(out / "manifest.json"), started)
    size = sum(path.stat().st_size * (COMPRESSION if path.suffix in COMPRESSED else 1) for path in files)
    shards = config.shards or max(1, round(size / BYTES_PER_SHARD))
    _say_sizes(len(files), size, shards, config)
    if config.dry_run:
        return PretrainingData(str(out), 0, 0, 0, 0, 0, shards, 0.0)

    part.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(part)
    folder.lock()
    if not _holds(part, request):
        documents = _deal_documents(files, part, {**request, "shards": shards}, config)
        counts = list(_make_shards(part, min(shards, documents), tokenizer, config))
        manifest = writing.make_manifest(request, counts, documents, tokenizer)
        with replacing(part / "tokenizer") as tokenizer_folder:
            tokenizer.save(tokenizer_folder, config.max_seq_length)
        write_json(part / MANIFEST, manifest, indent=2)
    for needless in part.iterdir():
        if needless.name not in (MANIFEST, "tokenizer") and needless.suffix != ".parquet":
            remove(needless)
    replace(part, out)
    folder.unlock()
    remove(part)
    return _result(out, _read(out / MANIFEST), started)


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, f"Remove it and start again: rm -r {path.parent}")


def _request(config: MakePretrainingDataConfig, files: list[Path], tokenizer: WordPiece) -> dict[str, Any]:
    """What decides the instances: the same request gives the same data."""
    options = {name: value for name, value in config.values().items() if name not in NOT_CONTENT}
    texts = [{"name": path.name, "bytes": path.stat().st_size, "modified": path.stat().st_mtime_ns} for path in files]
    return {"options": options, "text": texts, "tokenizer": tokenizer.source, "tokenizer_digest": tokenizer.digest}


def _holds(folder: Path, request: dict[str, Any]) -> bool:
    """Whether a folder holds the data of a request, whole."""
    made = _read(folder / MANIFEST) if (folder / MANIFEST).exists() else {}
    return all(made.get(key) == request[key] for key in ("options", "text", "tokenizer_digest"))


def _is_complete(out: Path, request: dict[str, Any], overwrite: bool) -> bool:
    """Whether `out` holds the data already. Raises UserError if it holds anything else, unless that may be replaced."""
    manifest = out / MANIFEST
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not manifest.exists())):
        raise UserError(f"`{out}` exists and is not a folder of pre-training data.", "Give another: --out NEW-FOLDER")
    if not manifest.exists():
        return False
    is_same = _holds(out, request)
    if not is_same and not overwrite:
        hint = "Keep it and write elsewhere: --out NEW-FOLDER; or replace it: --overwrite"
        raise UserError(f"`{out}` holds data of other text, vocabulary or options.", hint)
    return is_same


def _say_sizes(files: int, text_bytes: float, shards: int, config: MakePretrainingDataConfig) -> None:
    written = text_bytes * config.dupe_factor * BYTES_WRITTEN[config.masking]
    there = next(folder for folder in Path(config.out).resolve().parents if folder.exists())
    free = shutil.disk_usage(there).free
    warning = f", and only {free / 1e6:.0f} MB are free" if written + text_bytes > free else ""
    say(f"text: {files} files, about {text_bytes / 1e6:.1f} MB, to {shards} shards")
    say(f"about {written / 1e6:.0f} MB will be written{warning}")


def _deal_documents(files: list[Path], part: Path, request: dict[str, Any], config: MakePretrainingDataConfig) -> int:
    """Deal the documents to a text file per shard, one at a time, and count them: a bad line is found in seconds."""
    if (part / "request.json").exists():
        begun = _read(part / "request.json")
        if {key: begun[key] for key in request} == request:
            say(f"resuming with {len(list(part.glob('shard-*.json')))} finished shards in {part}")
            return int(begun["documents"])
    for old in part.iterdir():  # of another request
        if old.name != LOCK:
            remove(old)
    try:
        documents = writing.deal_documents(read_documents(files, config.join_files), part, request["shards"])
        if documents == 0:
            raise UserError("The text files hold blank lines only.", "Name files with text in them.")
        if documents < (shards := config.shards or 1):
            hint = f"Give --shards {documents} or less."
            raise UserError(f"{documents} documents cannot fill {shards} shards.", hint)
    except UserError:
        shutil.rmtree(part)
        raise
    if documents == 1:
        say("one document: no blank line in the text, so a random next sentence comes from the same document")
    write_json(part / "request.json", {**request, "documents": documents})
    return documents


def _make_shards(
    part: Path, shards: int, tokenizer: WordPiece, config: MakePretrainingDataConfig
) -> Iterator[dict[str, Any]]:
    """Make the unfinished shards in several processes; yield the counts of every shard."""
    from joblib import Parallel, delayed

    masking = MaskingRules.of(tokenizer, config.masked_lm_prob, config.max_predictions_per_seq, config.whole_word_mask)
    rules = InstanceRules(
        default_objective(config.next_sentence).cut,
        masking,
        static_masking=config.masking == "static",
        max_seq_length=config.max_seq_length,
        short_seq_prob=config.short_seq_prob,
        dupe_factor=config.dupe_factor,
    )
    unfinished = [shard for shard in range(shards) if not writing.counts_of(part, shard).exists()]
    sizes = {shard: writing.text_of(part, shard).stat().st_size for shard in unfinished}
    workers = min(config.workers or os.cpu_count() or 1, len(unfinished) or 1)
    make = delayed(writing.make_shard)
    jobs = (make(part.resolve(), tokenizer, rules, config.seed, shard) for shard in unfinished)
    with Progress("making instances", total=sum(sizes.values()), unit="B") as progress:
        for shard in Parallel(n_jobs=workers, return_as="generator_unordered")(jobs):
            progress.advance(sizes[shard])
    for shard in range(shards):
        yield _read(writing.counts_of(part, shard))


def _result(out: Path, manifest: dict[str, Any], started: float) -> PretrainingData:
    counts = {key: manifest[key] for key in ("documents", *writing.COUNTS)}
    seconds = round(time.perf_counter() - started, 2)
    result = PretrainingData(str(out), **counts, shards=len(manifest["shards"]), seconds=seconds)
    random = 100 * result.random_next / result.instances
    made = f"{result.instances:,} instances ({result.tokens / 1e6:.1f} M tokens, {random:.1f} % random next)"
    say(f"{out}: {made} of {result.documents:,} documents, {result.shards} shards, {result.seconds:.0f} s")
    return result
