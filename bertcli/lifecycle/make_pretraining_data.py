"""Turn text into pre-training instances, a shard at a time."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcli import in_millions, number_of, say
from bertcli.config.data import MakePretrainingDataConfig
from bertcli.data.atomic import remove, replacing
from bertcli.data.json_files import read_json, write_json
from bertcli.data.pretraining import writing
from bertcli.data.pretraining.destination import MANIFEST, TOKENIZER, Destination
from bertcli.data.pretraining.engines import ShardJob, check_ray, make_locally, make_on_ray
from bertcli.data.pretraining.instances import InstanceRules
from bertcli.data.pretraining.masking import parse_shares
from bertcli.data.pretraining.shards import MASKING_DEFAULTS, masking_rules
from bertcli.data.remote import status_of, version_of
from bertcli.data.results import Result
from bertcli.data.text.coverage import Unknown
from bertcli.data.text.documents import find_text_files, read_documents
from bertcli.data.text.files import COMPRESSED
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError, quoted
from bertcli.families import get_family
from bertcli.families.bert import BERT
from bertcli.families.family import Family
from bertcli.lifecycle.workspace import latest_vocabulary, tokenizer_source
from bertcli.objectives import check_objective, default_objective, get_objective
from bertcli.objectives.objective import Objective
from bertcli.training.progress import Progress
from bertcli.training.run_folder import LOCK, RunFolder

BYTES_PER_SHARD = 8_000_000
DENSE, COMPRESSION = (*COMPRESSED, ".parquet"), 3.5  # size of text relative to such files, roughly
MUCH = 0.02  # of the text's tokens, from which on it is said that they are not used
BYTES_WRITTEN = {"static": 0.45, "dynamic": 0.35}  # for each byte of English text and pass over it, roughly
# Options that leave the instances the same.
NOT_CONTENT = {"text", "tokenizer", "cased", "out", "workers", "overwrite", "engine", "ray_address"}


@dataclass(frozen=True)
class PretrainingData(Result):
    """What `make_pretraining_data` wrote: a folder with a manifest and Parquet shards."""

    out: str
    instances: int
    tokens: int
    documents: int
    random_next: int
    masked_tokens: int
    text_tokens: int
    unused_tokens: int  # of the text, in no instance
    unknown_tokens: int  # of the text: [UNK]
    shards: int
    seconds: float


def make_pretraining_data(text: MakePretrainingDataConfig | list[str] | str, **options: Any) -> PretrainingData:
    """Write the instances of `text` to the folder `out`, one a row, as create_pretraining_data.py makes them.

    With one shard and static masking, rows and order equal the original's. With more, documents are dealt to the shards
    in turn, each made from `seed` + its number. Run again after an interruption, it makes the unfinished shards.
    """
    config, family, objective = with_family(MakePretrainingDataConfig.build(text, options))
    started = time.perf_counter()
    _check_engine(config)
    parse_shares(config.mask_shares)
    files = find_text_files(config.text, config.text_column)
    tokenizer = load_tokenizer(tokenizer_source(config.tokenizer or latest_vocabulary(family=family)), config.cased)
    family.check_vocabulary(tokenizer)
    masking_rules(tokenizer, config.values())  # are refused before anything is written
    latest = "" if config.tokenizer else " (latest in this folder)"
    say(f"vocabulary: {tokenizer.source}, {tokenizer.size:,} tokens{latest}")
    out = Destination(config.out)
    part, manifest = out.part, out.manifest()
    request = _request(config, files, tokenizer)
    if _same(manifest, request, config):
        remove(part)  # the data that it has replaced, where the process was killed then
        say(f"{out.name} is complete already: the same text, vocabulary and options")
        return _result(config.out, manifest, objective, started)
    size = sum(status_of(path).st_size * (COMPRESSION if path.suffix in DENSE else 1) for path in files)
    shards = config.shards or max(1, round(size / BYTES_PER_SHARD))
    _say_sizes(len(files), size, shards, config, part)
    _say_limit(config, objective)
    if config.dry_run:
        return PretrainingData(config.out, 0, 0, 0, 0, 0, 0, 0, 0, shards, 0.0)

    part.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(part)
    folder.lock()
    if not _holds(part, request):
        documents = _deal_documents(files, part, {**request, "shards": shards}, config)
        _say_one_document(documents, objective, config.blanks_separate_docs)
        counts = list(_make_shards(part, min(shards, documents), tokenizer, config, objective))
        made_for = {"family": family.key, "objective": objective.name}
        manifest = writing.make_manifest({**made_for, **request}, counts, documents, tokenizer)
        with replacing(part / TOKENIZER) as tokenizer_folder:
            tokenizer.save(tokenizer_folder)
        write_json(part / MANIFEST, manifest, indent=2)
    for needless in part.iterdir():
        if needless.name not in (MANIFEST, TOKENIZER) and needless.suffix != ".parquet":
            remove(needless)
    made = _read(part / MANIFEST)
    out.put(part)
    folder.unlock()
    remove(part)
    return _result(config.out, made, objective, started)


def with_family(config: MakePretrainingDataConfig) -> tuple[MakePretrainingDataConfig, Family, Objective]:
    """The options with the defaults of the family, and the objective that cuts the text."""
    family = get_family(config.family)
    config = config.with_defaults(family.data_defaults)
    named = get_objective(config.objective) if config.objective else None
    objective = named or default_objective(config.next_sentence, family.key)
    check_objective(objective, family, config.given)
    if config.objective and "next_sentence" in config.given and config.next_sentence != objective.needs_pairs:
        what = f"--objective {objective.name} {'needs' if objective.needs_pairs else 'takes no'} pairs of texts."
        raise UserError(what, "Leave --next-sentence or --no-next-sentence out.")
    return config.with_defaults({"next_sentence": objective.needs_pairs}), family, objective


def _check_engine(config: MakePretrainingDataConfig) -> None:
    if config.engine == "ray":
        check_ray(config.ray_address)
    elif config.ray_address:
        raise UserError("--ray-address is for --engine ray.", "Add --engine ray, or leave --ray-address out.")


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, f"Remove it and start again: rm -r {quoted(path.parent)}")


def _request(config: MakePretrainingDataConfig, files: list[Path], tokenizer: WordPiece) -> dict[str, Any]:
    """What decides the instances: the same request gives the same data."""
    options = {name: value for name, value in config.values().items() if name not in NOT_CONTENT}
    # What data had before there were these options.
    before = {**MASKING_DEFAULTS, "family": BERT.key, "blanks_separate_docs": True, "split_sentences": False}
    before |= {"text_column": None}
    options = {name: value for name, value in options.items() if before.get(name) != value}
    found = [(path, status_of(path)) for path in files]
    texts = [{"name": path.name, "bytes": each.st_size, "modified": version_of(path, each)} for path, each in found]
    return {"options": options, "text": texts, "tokenizer": tokenizer.source, "tokenizer_digest": tokenizer.digest}


def _holds(folder: Path, request: dict[str, Any]) -> bool:
    """Whether a folder holds the data of a request, whole."""
    return _is_made_by(_read(folder / MANIFEST) if (folder / MANIFEST).exists() else {}, request)


def _is_made_by(manifest: dict[str, Any], request: dict[str, Any]) -> bool:
    return all(manifest.get(key) == request[key] for key in ("options", "text", "tokenizer_digest"))


def _same(manifest: dict[str, Any], request: dict[str, Any], config: MakePretrainingDataConfig) -> bool:
    """Whether a manifest, which may be empty, is of the request. Raises UserError if it is of another that stays."""
    is_same = _is_made_by(manifest, request)
    if manifest and not is_same and not config.overwrite:
        hint = "Keep it and write elsewhere: --out NEW-FOLDER; or replace it: --overwrite"
        raise UserError(f"`{config.out}` holds data of other text, vocabulary or options.", hint)
    return is_same


def _say_sizes(files: int, text_bytes: float, shards: int, config: MakePretrainingDataConfig, part: Path) -> None:
    written = text_bytes * config.dupe_factor * BYTES_WRITTEN[config.masking]
    free = shutil.disk_usage(next(folder for folder in part.resolve().parents if folder.exists())).free
    warning = f", and only {free / 1e6:.0f} MB are free" if written + text_bytes > free else ""
    say(f"text: {number_of(files, 'file')}, about {_megabytes(text_bytes, 1)}, to {number_of(shards, 'shard')}")
    say(f"about {_megabytes(written)} will be written{warning}")


def _megabytes(size: float, digits: int = 0) -> str:
    return f"{size / 1e6:.{digits}f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def _say_limit(config: MakePretrainingDataConfig, objective: Objective) -> None:
    wanted, most = round(config.max_seq_length * config.masked_lm_prob), config.max_predictions_per_seq
    if most < 0.9 * wanted and "max_predictions_per_seq" not in objective.ignored:
        say(f"at most {most} tokens of a row are masked, not {wanted}: for more, --max-predictions-per-seq {wanted}")


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
        how = (config.join_files, config.blanks_separate_docs, config.split_sentences, config.text_column)
        found = read_documents(files, *how)
        documents = writing.deal_documents(found, part, request["shards"])
        if documents == 0:
            raise UserError("The text files hold blank lines only.", "Name files with text in them.")
        if documents < (shards := config.shards or 1):
            hint = f"Give --shards {documents} or less."
            raise UserError(f"{number_of(documents, 'document')} cannot fill {shards} shards.", hint)
    except UserError:
        shutil.rmtree(part)
        raise
    write_json(part / "request.json", {**request, "documents": documents})
    return documents


def _say_one_document(documents: int, objective: Objective, at_blanks: bool) -> None:
    if documents == 1 and objective.needs_pairs and objective.negatives == Objective.negatives:
        why = ": no blank line in the text" * at_blanks
        say(f"one document{why}, so a random next sentence comes from the same document")


def _make_shards(
    part: Path, shards: int, tokenizer: WordPiece, config: MakePretrainingDataConfig, objective: Objective
) -> Iterator[dict[str, Any]]:
    """Make the unfinished shards; yield the counts of every shard."""
    masking = masking_rules(tokenizer, config.values())
    rules = InstanceRules(
        objective.cut,
        tokenizer,
        tokenizer.layout.open() if objective.ends_lines else tokenizer.layout,
        masking,
        static_masking=config.masking == "static",
        max_seq_length=config.max_seq_length,
        short_seq_prob=config.short_seq_prob,
        dupe_factor=config.dupe_factor,
        ends_lines=objective.ends_lines,
        draw_masks=objective.draw_masks,
    )
    unfinished = [shard for shard in range(shards) if not writing.counts_of(part, shard).exists()]
    sizes = {shard: writing.text_of(part, shard).stat().st_size for shard in unfinished}
    job = ShardJob(part.resolve(), tokenizer, rules, config.seed)
    if config.engine == "ray" and unfinished:
        made = make_on_ray(job, unfinished, config.workers, config.ray_address)
    else:
        made = make_locally(job, unfinished, config.workers)
    with Progress("making instances", total=sum(sizes.values()), unit="B") as progress:
        for shard in made:
            progress.advance(sizes[shard])
    for shard in range(shards):
        yield _read(writing.counts_of(part, shard))


def _result(out: str, manifest: dict[str, Any], objective: Objective, started: float) -> PretrainingData:
    counts = {key: manifest.get(key, 0) for key in ("documents", *writing.COUNTS, writing.UNKNOWN)}
    seconds = round(time.perf_counter() - started, 2)
    result = PretrainingData(out, **counts, shards=len(manifest["shards"]), seconds=seconds)
    percent = 100 * result.random_next / result.instances
    share = f", {percent:.1f} % {objective.negatives}" if objective.needs_pairs else ""
    made = f"{number_of(result.instances, 'instance')} ({in_millions(result.tokens)} tokens{share})"
    of_all = f"{number_of(result.documents, 'document')}, {number_of(result.shards, 'shard')}, {result.seconds:.0f} s"
    say(f"{out}: {made} of {of_all}")
    if (unused := result.unused_tokens / max(1, result.text_tokens)) > MUCH:
        what = f"{unused:.0%} of the text's tokens"
        hint = "" if manifest["options"].get("split_sentences") else "; --split-sentences keeps more"
        say(f"not used: {what}, cut from texts longer than --max-seq-length{hint}")
    if words := str(Unknown(result.unknown_tokens, result.text_tokens)):
        say(words)
    return result
