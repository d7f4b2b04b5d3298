"""Where the model of a run is from, what it was trained on and how it is used, for its card; and the command that repeats it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

from bertcli.config.baselines import BaselineConfig
from bertcli.config.distillation import DistillConfig
from bertcli.config.options import Config, default_of, typed
from bertcli.config.training import WINDOWS, FinetuneConfig, PretrainConfig
from bertcli.data.json_files import read_json
from bertcli.data.labelled.examples import shortened
from bertcli.families import family_of
from bertcli.families.two_directions import TWO_DIRECTIONS
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Kind, Split
from bertcli.kinds.mask import MASK
from bertcli.lifecycle.baselining.description import BASELINE
from bertcli.lifecycle.pretrained import PRETRAINED, Pretrained, pools_by_mean
from bertcli.lifecycle.workspace import origin_of
from bertcli.objectives import OBJECTIVES
from bertcli.reports.model_card import Provenance
from bertcli.reports.record import COUNTED
from bertcli.tasks import TASKS, is_task
from bertcli.training.result import PRETRAINING

if TYPE_CHECKING:
    from bertcli.reports.record import RunRecord

CONFIGS: dict[str, type[Config]] = {"finetune": FinetuneConfig, "pretrain": PretrainConfig}
CONFIGS |= {"distill": DistillConfig, "baseline": BaselineConfig}
OF_OWN_FILES = {"text", "text_pair", "label", "kind"}
NOT_REPEATED = {"out", "resume", "dry_run"}
IN_CARD = {**COUNTED, "in_train": "also in train, which makes its score too high"}


def command_of(config: dict[str, Any]) -> str:
    """The command that repeats a run, by its resolved options; "" for a command that is not known."""
    declared = CONFIGS.get(config.get("command", ""))
    if declared is None:
        return ""
    left_out = NOT_REPEATED | (OF_OWN_FILES if is_task(str(config.get("task", ""))) else set())
    left_out |= {"tokenizer"} if config.get("from") not in (None, "scratch") else set()
    words = ["bert", str(config["command"])]
    for each in fields(declared):
        name = each.name.rstrip("_")
        value = config.get(name)
        if name in left_out or value in (None, PRETRAINING, default_of(each)):
            continue
        words += typed(each, value)
    return join(words)


def provenance_of(record: RunRecord, split: Split | None) -> Provenance:
    """What the card of a run says of its origin; `split` has an example of its input."""
    origin = origin_of(record.config.get("from") or "")
    result, start = record.result, PRETRAINED.get(origin)
    kind = KINDS.get(record.config.get("kind", ""), MASK)
    task = TASKS.get(result.task)
    pipeline, row, more = _example(kind, record.config.get("objective", ""))
    request = [text for _, text in split.examples.request()] if split else [row["text"]]
    return Provenance(
        pipeline=pipeline,
        auto_class=_auto_class(Path(record.path, "model", "config.json"), kind.architectures[0]),
        pools_by_mean=pools_by_mean(str(record.path / "model")),
        call=kind.transformers_call([*map(shortened, request)] or ["A text."]),
        sample=_as_options(row) + more,
        base_model=start.hub if start else origin if _is_on_hub(origin) else "",
        licence=start.licence if start else "",
        language="en" if task else "",
        dataset=task.hub if task else ("", None),
        data=_data(record, start),
        limits=_limits(record),
    )


def _example(kind: Kind, objective: str) -> tuple[str, dict[str, Any], str]:
    """The task of a model as the Hub calls it, an example of its input, and what else `bert predict` needs."""
    if objective in OBJECTIVES and not OBJECTIVES[objective].fills_masks:
        return "text-generation", {"text": "Paris is the capital of France."}, " --features states.jsonl"
    return kind.pipeline, kind.sample if kind.is_task else MASK.sample, ""


def _as_options(row: dict[str, Any]) -> str:
    """A row as options of `bert predict`."""
    names = {name: "choice" if name == "choices" else name.replace("_", "-") for name in row}
    texts = {name: value if isinstance(value, list) else [value] for name, value in row.items()}
    return join(word for name in row for text in texts[name] for word in (f"--{names[name]}", text))


def _is_on_hub(name: str) -> bool:
    """Whether a model is named as on the Hub: OWNER/NAME."""
    return name.count("/") == 1 and not Path(name).exists() and not name.startswith((".", "/", "runs/"))


def _auto_class(config: Path, head: str) -> str:
    """The class of transformers that opens a model with its head; of a head that works otherwise here, only the encoder."""
    saved = read_json(config, "Restore it.") if config.exists() else {}
    if BASELINE in saved:
        return ""
    import transformers

    name = (saved.get("architectures") or [""])[0]
    if saved.get("model_type") == TWO_DIRECTIONS.model_types[0]:
        return ""
    if name.endswith("LMHeadModel"):
        return "AutoModelForCausalLM"
    reads_last = saved.get("is_decoder") and name.endswith(("SequenceClassification", "MultipleChoice"))
    is_theirs = not name or (hasattr(transformers, name) and not reads_last and not saved.get("bilstm"))
    return f"AutoModelFor{head}" if is_theirs else "AutoModel"


def _data(record: RunRecord, start: Pretrained | None) -> list[str]:
    lines = [f"Pre-training: {start.name}, on {start.trained_on}."] if start else []
    for name, read in record.result.data.items():
        counts = [f"{read[key]:,} {words}" for key, words in IN_CARD.items() if read.get(key)]
        facts = [f"{key} {value}" for key, value in read.get("facts", {}).items()]
        lines += [f"{name}: {', '.join([*counts, *facts])}."]
    return lines


def _limits(record: RunRecord) -> list[str]:
    longest = record.config.get("max_seq_length")
    kind = KINDS.get(record.config.get("kind", ""), MASK)
    in_windows = kind.has_windows or record.config.get("long_texts") == WINDOWS
    what = "it reads longer ones in windows" if in_windows else "what is longer is cut"
    found = [f"It reads at most {longest} tokens of a text at once; {what}."] if longest else []
    found.append("Its scores hold for texts like those it was trained on; for others they may be lower.")
    config = Path(record.path, "model", "config.json")
    if not config.exists():
        return found
    opens = _auto_class(config, MASK.architectures[0])
    if not opens:
        found.append("transformers has no class for it: `bert evaluate` and `bert predict` open it.")
    elif opens == "AutoModel":
        found.append("transformers has no class for how its head reads it: AutoModel gives only its hidden states.")
    elif record.result.task == PRETRAINING:
        found += filter(None, [family_of(read_json(config, "Restore it.")["model_type"]).differs])
    return found
