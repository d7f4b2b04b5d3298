"""The files of an exported model, and the checks that its answers are those of the model."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from bertcli import quietly, say
from bertcli.config.training import WINDOWS
from bertcli.config.use import EvaluateConfig
from bertcli.data.atomic import replacing
from bertcli.data.hub import POOLING
from bertcli.data.json_files import write_json
from bertcli.data.labelled.examples import Examples
from bertcli.data.packing.batches import PackedBatch, evaluation_batches
from bertcli.data.packing.windows import WindowRules
from bertcli.data.results import Result
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import RunError, UserError, quoted
from bertcli.kinds import kind_of_model
from bertcli.kinds import types as t
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.kinds.kind import Encoder, Kind
from bertcli.kinds.mask import MASK_TOKEN
from bertcli.lifecycle.exporting.example import example_of
from bertcli.lifecycle.scoring.scores import score
from bertcli.lifecycle.scoring.task_model import load_task_model
from bertcli.lifecycle.sources import encode_split, source_of
from bertcli.lifecycle.workspace import saved_config, takes_pairs
from bertcli.models import loading
from bertcli.models.encoder import encode, longest_input
from bertcli.models.formats.engines import GraphModel, load_onnxruntime
from bertcli.models.formats.onnx import quantize, write_graph
from bertcli.models.heads import own_head
from bertcli.models.model_with_loss import Outputs
from bertcli.models.packed import prepare_layers
from bertcli.tasks.task import INPUT, Task
from bertcli.training.progress import doing

FLOAT8 = "float8"
LARGEST_DIFFERENCE = 1e-4
TEXTS, WORDS = 9, 6  # random texts that are compared, and words of each at most
TOKENS = 40  # a batch of them
MOST_SCORED = 2000  # examples of dev that show what a precision loses, drawn at random


@dataclass(frozen=True)
class Exported(Result):
    """What was written, and how far its answers are from those of the model."""

    model: str
    out: str
    format: str
    precision: str
    megabytes: float = 0.0
    largest_difference: float | None = None  # of the outputs before softmax; beyond 1 as a share of the largest
    split: str | None = None  # on which the scores were measured, before and after
    metrics_before: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


class Original(NamedTuple):
    """The model that is exported, with which the outputs of what is written are compared."""

    kind: Kind
    model: PreTrainedModel
    tokenizer: WordPiece


class _Encoder(Kind):
    """A model without a head: its hidden states."""

    name, architectures = "encode", ()
    example = """is_token = np.array(encodings[0].attention_mask)[:, None]
print(json.dumps(((outputs[0][0] * is_token).sum(0) / is_token.sum()).tolist()))  # the mean of the hidden states"""

    def raw_outputs(self, model: PreTrainedModel, batch: PackedBatch) -> Outputs:
        return {"states": encode(model, batch)}

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> t.Features:
        return CLASSIFICATION.encode(task, examples, encoder)

    def input_examples(self, rows: Sequence[t.Row], tokenizer: WordPiece) -> Examples:
        return CLASSIFICATION.input_examples(rows, tokenizer)


def write_export(plan: Exported, data_dir: str | None) -> Exported:
    """Write the files aside, check and measure them, and rename the folder. Raises UserError or RunError, see `export`."""
    source, tokenizer = plan.model, load_tokenizer(plan.model)
    kind, model = _load(source)
    loading.check_vocabulary(model, tokenizer, source)
    if what := own_head(model):
        what = f"`{source}` {what}, which is not exported."
        raise UserError(what, "Export another run; this one: bert predict, bert serve")
    with replacing(Path(plan.out)) as part:
        part.mkdir(parents=True)
        found = WRITERS[plan.format](plan, part, Original(kind, model.eval(), tokenizer), data_dir)
        saved = saved_config(source)
        longest = min(saved.get("max_seq_length") or kind.max_seq_length, longest_input(model))
        example = example_of(plan.format, kind, model, tokenizer, longest, bool(takes_pairs(saved)))
        (part / "example.py").write_text(example, encoding="utf-8")
        if kind.names_outputs:
            labels = [model.config.id2label[number] for number in range(model.config.num_labels)]
            (part / "labels.json").write_text(json.dumps(labels, ensure_ascii=False) + "\n", encoding="utf-8")
        size = sum(path.stat().st_size for path in part.glob("model*")) / 1e6
    _say_written(found, size)
    if saved.get("long_texts") == WINDOWS:
        say(
            f"it gives the logits of one window of {longest} tokens; `bert predict` and `bert serve` average those of all "
            "windows of a text by their tokens, and the example cuts a longer text"
        )
    return replace(found, megabytes=round(size, 1))


def _say_written(found: Exported, megabytes: float) -> None:
    of_what = "(of the largest one, where that is above 1)"
    difference = f"outputs differ by at most {found.largest_difference:.1e} {of_what}, on {TEXTS} random texts"
    say(f"wrote {found.out}: {found.format} in {found.precision}, {megabytes:,.1f} MB; {difference}")
    say(f"to run it: python {quoted(found.out)}/example.py")


def _load(source: str) -> tuple[Kind, PreTrainedModel]:
    """The kind of a model, and the model; of one for no kind, its encoder."""
    with quietly():
        kind = kind_of_model(loading.open_config(source))
        if kind:
            return kind, kind.load_model(source)
        encoder = loading.load_model(source).base_model
        encoder.config.use_cache = False  # of keys and values, for a text that goes on
        return _Encoder(), encoder


def _write_graph(plan: Exported, part: Path, original: Original, data_dir: str | None) -> Exported:
    """Write and check the graph; in int8 also measure what it costs."""
    model = _load(plan.model)[1]  # another one, as it no longer runs packed once its graph is written
    loading.save_architecture(model, original.tokenizer, part)
    rules = part / "tokenizer_config.json"  # the graph reads inputs that are padded at their ends, XLNet's too
    write_json(rules, {**json.loads(rules.read_text("utf-8")), "padding_side": "right"}, indent=2)
    config = model.config
    graph = part / "model.onnx"
    write_graph(model, graph)
    difference = _largest_difference(original, GraphModel(load_onnxruntime(graph), config))
    if not difference <= LARGEST_DIFFERENCE:
        what = f"The outputs of the graph differ by {difference:.1e} from those of the model."
        raise RunError(what, "Give --format safetensors, and please report the model.")
    if plan.precision == "float32":
        return replace(plan, largest_difference=difference)
    whole = graph.rename(part / "whole.onnx")
    quantize(whole, graph)
    for path in (whole, part / "model.onnx.data"):
        path.unlink(missing_ok=True)
    small = GraphModel(load_onnxruntime(graph), config)
    difference = _largest_difference(original, small)
    return _with_scores(replace(plan, largest_difference=difference), small, data_dir)


def _write_weights(plan: Exported, part: Path, original: Original, data_dir: str | None) -> Exported:
    """Write the weights in a precision. Raises UserError if they are too large for it."""
    model = _load(plan.model)[1]
    if plan.precision != FLOAT8:
        model = model.to(getattr(torch, plan.precision))
    loading.save_model(model, original.tokenizer, part)
    if not (_store_in_float8(part) if plan.precision == FLOAT8 else loading.has_finite_weights(model)):
        raise UserError(f"Some weights are too large for {plan.precision}.", "Give --precision bfloat16.")
    if (Path(plan.model) / POOLING).exists():  # what says that the mean of the states stands for a text
        (part / POOLING).parent.mkdir()
        shutil.copy(Path(plan.model) / POOLING, part / POOLING)
    return replace(plan, largest_difference=_largest_difference(original, _load(str(part))[1]))


def _store_in_float8(folder: Path) -> bool:
    """Store matrices in 8 bits (4 of exponent, 3 of fraction), all else in float16; return whether all are finite.

    transformers reads them in the precision of config.json, float32.
    """
    fit = True
    for path in folder.glob("*.safetensors"):
        read = load_file(path).items()
        weights = {name: each.to(torch.float8_e4m3fn if each.dim() > 1 else torch.float16) for name, each in read}
        save_file(weights, path, {"format": "pt"})
        fit &= all(loading.is_finite(each.float()) for each in weights.values())
    return fit


@torch.inference_mode()
def _largest_difference(original: Original, other: Any) -> float:
    """How far the outputs of another model are from those of ours at most, over random texts of several lengths."""
    kind, model, tokenizer = original
    task = replace(INPUT, kind=kind.name, labels=tuple(model.config.id2label.values()))
    draw, words = random.Random(0), [token for token in tokenizer.tokens if token.isalpha()] or ["a"]
    rows = [{key: _random_text(value, words, draw) for key, value in kind.sample.items()} for _ in range(TEXTS)]
    longest = longest_input(model)
    rules = WindowRules(min(kind.max_seq_length, longest), max_query_length=min(kind.max_query_length, longest // 2))
    features = kind.encode(task, kind.input_examples(rows, tokenizer), Encoder(tokenizer, rules))
    prepare_layers(model)
    prepare_layers(other.eval())
    differences = [0.0]
    for batch in evaluation_batches(features, TOKENS):
        ours, theirs = (kind.raw_outputs(each, batch) for each in (model, other))
        differences += [_difference(ours[name], theirs[name]) for name in ours]
    return float(torch.tensor(differences).max())  # NaN if one is


def _difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, of outputs beyond 1 as a share of the largest; where one has -inf, so must the other."""
    difference = torch.where(ours == theirs, 0.0, (ours.float() - theirs.float()).abs()).max()
    finite = ours[ours.isfinite()].float().abs()
    return float(difference / (finite.max().clamp(min=1) if finite.numel() else 1))


def _random_text(sample: Any, words: list[str], draw: random.Random) -> Any:
    """Other words in the place of a text or of texts; with a mask if it has one."""
    if isinstance(sample, list):
        return [_random_text(each, words, draw) for each in sample]
    return " ".join([*draw.choices(words, k=draw.randint(1, WORDS)), *[MASK_TOKEN] * (MASK_TOKEN in sample)])


def _with_scores(plan: Exported, small: GraphModel, data_dir: str | None) -> Exported:
    """The scores of the model and of the graph on dev examples of the run, where they are there; says what is lost."""
    saved = saved_config(plan.model)
    if not saved.get("kind"):
        say(f"the effect of {plan.precision} is not measured: {plan.model} is not of a fine-tuned run")
        return plan
    try:
        source = source_of(EvaluateConfig(task=saved["task"], data_dir=data_dir), saved)
        split = source.read_dev(source.dev_splits[0], MOST_SCORED)
        model = load_task_model(source.task, plan.model, "float32")
        split = encode_split(source.task, split, model.tokenizer, model.rules)
    except UserError as error:
        say(f"the effect of {plan.precision} is not measured, as the dev set is not there: {error.message}")
        return plan
    quantized = replace(model, model=model.kind.with_loss(cast(Any, small)), device=torch.device("cpu"))
    with doing(f"scoring {len(split):,} examples of {split.name}, before and after"):
        before, after = (score(source.task, split, each.predict(split)) for each in (model, quantized))
    scores = ((name, before[name], after[name]) for name in before)
    lost = ", ".join(f"{name} {one:.2f} to {other:.2f} ({other - one:+.2f})" for name, one, other in scores)
    is_learnt = split.examples.digest == saved.get("data_digests", {}).get("train")
    name = "train" if is_learnt else split.name
    say(f"{plan.precision} on {name} ({len(split):,} examples{', as there is no dev set' * is_learnt}): {lost}")
    return replace(plan, split=name, metrics_before=before, metrics=after)


Writer = Callable[[Exported, Path, Original, str | None], Exported]
WRITERS: dict[str, Writer] = {"onnx": _write_graph, "safetensors": _write_weights}
