"""The model card of a run: README.md, whose head the Hub reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bertcli import number_of
from bertcli.errors import quoted
from bertcli.reports.curves import NOT_SCORES
from bertcli.reports.record import RunRecord
from bertcli.reports.rendering import escaped, markdown_table
from bertcli.reports.tables import result_tables
from bertcli.training.result import TrainingResult


@dataclass(frozen=True)
class Provenance:
    """Where a model is from and how it is used, as the head of its card says it."""

    pipeline: str  # the task as the Hub calls it
    auto_class: str  # of transformers, which opens it; empty where none does
    call: str  # the expression that gives its outputs for an example
    pools_by_mean: bool = False  # its head reads the mean of the states; `auto_class` has no head
    sample: str = ""  # options of `bert predict`, where the run names no command
    base_model: str = ""  # on the Hub
    licence: str = ""  # of the model that it was made from
    language: str = ""
    dataset: tuple[str, str | None] = ("", None)  # on the Hub, and its subset
    data: Sequence[str] = ()  # what it was trained on, in words
    limits: Sequence[str] = field(default_factory=tuple)


def model_card(record: RunRecord, about: Provenance) -> str:
    """The card: metadata, what the model is, how it is used, scores, data, limits and options."""
    result = record.result
    tables = "\n\n".join(markdown_table(table) for table in (record.scores, *result_tables(result)[1:]) if table.rows)
    curve = ["![Loss over the steps](loss.svg)"] if (record.path / "loss.svg").exists() else []
    notes = "\n\n".join([*result.notes, *curve])
    predict = next((each for each in reversed(result.next) if each.startswith("bert predict --")), "")
    return f"""---
{_metadata(record, about)}
---

# {escaped(record.name)}

{escaped(record.sentence)}

Made by `bert {record.config["command"]}`: {_training(result)}seed {result.seed}.

## Use

```bash
{predict or f"bert predict {about.sample} --model {quoted(record.path)}"}
```

{_with_transformers(record, about) if about.auto_class else "transformers has no class for it."}

## Scores

{tables or "None."}

{notes}

## Data

{_list(about.data)}

## Limits

{_list(about.limits)}

## Options

{_list(f"{name}: {value}" for name, value in record.options.items())}

To repeat it:

```bash
{" ".join(record.command.splitlines())}
```
"""


def _training(result: TrainingResult) -> str:
    """How long it was trained, where it was trained in steps, and how fast, where that is known."""
    share = f" ({result.share_of_peak:.1%} of {result.peak})" if result.share_of_peak else ""
    speed = f", {result.tokens_per_second:,.0f} tokens per second without padding" if result.tokens_per_second else ""
    return f"{number_of(result.steps, 'step')}{speed}{share}, " if result.steps else ""


def _list(lines: Any) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines) or "Nothing is known."


def _metadata(record: RunRecord, about: Provenance) -> str:
    """The YAML head, as `huggingface_hub` writes and checks it."""
    from huggingface_hub import EvalResult, ModelCardData

    result, (dataset, subset) = record.result, about.dataset
    of_set: Any = {"dataset_type": dataset or "own", "dataset_name": result.task}
    of_set |= {"dataset_config": subset, "dataset_split": result.split, "task_type": about.pipeline}
    shown = [(metric, value) for metric, value in result.metrics.items() if not metric.endswith(NOT_SCORES)]
    scores = [EvalResult(metric_type=metric, metric_value=round(value, 4), **of_set) for metric, value in shown]
    return ModelCardData(
        language=about.language or None,
        license=about.licence.lower() or None,
        library_name="transformers" if about.auto_class.startswith("AutoModelFor") else "bertcli",
        pipeline_tag=about.pipeline,
        base_model=about.base_model or None,
        datasets=[dataset] if dataset else None,
        tags=["bert"],
        model_name=record.name,
        eval_results=scores or None,
    ).to_yaml()


def _with_transformers(record: RunRecord, about: Provenance) -> str:
    """Python that prints the outputs for an example; a head on the mean of the states is read from the file of weights."""
    name, model, call, head, of_hub = about.auto_class, str(record.path / "model"), about.call, "", ""
    if about.pools_by_mean:
        head = f"\nfrom safetensors.torch import load_file\nhead = load_file({f'{model}/model.safetensors'!r})"
        of_hub = ', and the head with `load_file(hf_hub_download(NAME, "model/model.safetensors"))`'
        call = f'{call}.mean(1) @ head["classifier.weight"].T + head["classifier.bias"]'
    return f"""```python
from transformers import {name}, AutoTokenizer{head}
tokenizer, model = (each.from_pretrained({model!r}) for each in (AutoTokenizer, {name}))
print({call})
```

After `hf upload NAME {quoted(record.path)} --exclude "checkpoints/*"`, open it by that name, with `subfolder="model"`{of_hub}."""
