"""Turn the original's TensorFlow checkpoints into transformers' format, and back."""

import json
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, PreTrainedModel

from bertcli import say
from bertcli.config.use import ConvertConfig
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError, check_vacant
from bertcli.families import family_of
from bertcli.kinds.architecture import auto_class, kind_of, load
from bertcli.lifecycle.workspace import resolve_model
from bertcli.models.formats.tensor_bundle import read_bundle, write_bundle
from bertcli.models.formats.tensorflow_names import Arrays, to_parameters, to_variables
from bertcli.models.loading import open_config

CHECKPOINT = "bert_model.ckpt"
CONFIG = "bert_config.json"
# The original calls the tanh approximation "gelu"; transformers means the exact function by that.
ACTIVATIONS = {"gelu": "gelu_pytorch_tanh"}
ORIGINAL_ACTIVATIONS = {"gelu_pytorch_tanh": "gelu", "gelu_new": "gelu", "relu": "relu", "tanh": "tanh"}
# The heads that the original has, by what a model does; one without a head gets new ones of pre-training, which is said.
HEADS = {"fill": "pretrain", "": "pretrain", "span": "span"} | dict.fromkeys(
    ("classify", "regress", "multilabel"), "classify"
)


@dataclass(frozen=True)
class Conversion:
    """What was converted, from where to where."""

    source: str
    out: str
    to: str  # "transformers" or "tensorflow"
    tensors: int
    left_out: list[str]


def convert(source: ConvertConfig | str | None = None, **options: Any) -> Conversion:
    """Convert a checkpoint of the original (a folder or its zip) to a model folder, or a model folder to a checkpoint.

    No TensorFlow is needed, and every weight keeps its bits.

    Raises:
        UserError: if the source is neither, or is damaged.
    """
    config = ConvertConfig.build(source, options)
    if not config.source:
        raise UserError(
            "Which checkpoint? None was given.", "Name one: bert convert uncased_L-12_H-768_A-12.zip --out bert-base"
        )
    check_vacant(Path(config.out))
    with tempfile.TemporaryDirectory() as scratch:
        prefix = _checkpoint(Path(config.source), Path(scratch))
        return _from_tensorflow(prefix, config) if prefix else _to_tensorflow(config)


def _checkpoint(path: Path, scratch: Path) -> Path | None:
    """The checkpoint, without its endings, that a name means: of its files, its folder or a zip of it."""
    if zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                archive.extractall(scratch)
        except (zipfile.BadZipFile, zlib.error, EOFError):
            raise UserError(f"The zip `{path}` is damaged.", "Download or copy it again.") from None
        path = scratch
    if not path.is_dir():
        prefix = path.with_suffix("") if path.suffix == ".index" else path
        return prefix if Path(f"{prefix}.index").exists() else None
    found = sorted(path.rglob("*.index"))
    if len(found) > 1:
        raise UserError(
            f"`{path}` holds {len(found)} checkpoints: {', '.join(file.stem for file in found[:5])}.",
            f"Name one: bert convert {found[-1].with_suffix('')}",
        )
    return found[0].with_suffix("") if found else None


def _from_tensorflow(prefix: Path, config: ConvertConfig) -> Conversion:
    folder, out = prefix.parent, Path(config.out)
    if not (folder / CONFIG).exists():
        raise UserError(
            f"There is no `{CONFIG}` beside `{prefix.name}`.", "Put the checkpoint's own configuration there."
        )
    variables = read_bundle(prefix)
    parameters = to_parameters(variables)
    left_out = sorted(name for name in variables if not to_parameters({name: variables[name]}))
    kind = (
        "span" if "qa_outputs.weight" in parameters else "classify" if "classifier.weight" in parameters else "pretrain"
    )
    model = _build(kind, folder / CONFIG, parameters)
    strange = _load(model, parameters)
    said = f"; left out: {', '.join(left_out[:5])}" if left_out else ""
    say(f"read {len(variables)} tensors of {config.source}{said}")
    if strange:
        raise UserError(f"The checkpoint does not fit its configuration: {', '.join(strange[:4])}.", f"Check {CONFIG}.")
    if not config.dry_run:
        model.save_pretrained(out)
        if (folder / "vocab.txt").exists():
            load_tokenizer(folder / "vocab.txt", config.cased).save(out, model.config.max_position_embeddings)
        say(f"wrote {out}: a {type(model).__name__}")
    return Conversion(config.source, config.out, "transformers", len(parameters), left_out)


def _build(kind: str, path: Path, parameters: Arrays) -> PreTrainedModel:
    labels = {"num_labels": len(parameters["classifier.weight"])} if kind == "classify" else {}
    try:
        original = json.loads(path.read_text(encoding="utf-8"))
        known = {key: value for key, value in original.items() if key in BertConfig().to_dict()}
        known["hidden_act"] = ACTIVATIONS.get(original["hidden_act"], original["hidden_act"])
        model: PreTrainedModel = auto_class(kind).from_config(BertConfig(**known, layer_norm_eps=1e-12, **labels))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UserError(
            f"`{path.name}` is not the configuration of a BERT: {error}.", "Take it from the same checkpoint."
        ) from error
    return model


def _load(model: PreTrainedModel, parameters: Arrays) -> list[str]:
    """Put the weights in; return the names that the checkpoint lacks, or that the model has no such place for."""
    named = dict(model.named_parameters())
    fits = {name for name, value in parameters.items() if name in named and tuple(named[name].shape) == value.shape}
    with torch.no_grad():
        for name in fits:
            named[name].copy_(torch.from_numpy(np.array(parameters[name])))
    without_pooler = {name for name in parameters if name.startswith("bert.pooler.") and name not in named}
    return [*sorted(named.keys() - fits), *sorted(parameters.keys() - fits - without_pooler)]


def _to_tensorflow(config: ConvertConfig) -> Conversion:
    source, out = resolve_model(config.source), Path(config.out)
    if not (Path(source) / "config.json").exists():
        raise UserError(
            f"`{config.source}` is neither a checkpoint nor a model folder.",
            "Give a folder with bert_model.ckpt.index or config.json.",
        )
    saved = open_config(source)
    kind = kind_of(saved)
    is_original = family_of(saved.model_type).is_original
    if not is_original or kind not in HEADS:
        what = f"of the kind `{kind}`" if is_original else f"a {saved.model_type}"
        raise UserError(
            f"`{config.source}` is {what}, which the original has not.",
            "Give a pre-trained BERT, or one that classifies or answers questions.",
        )
    model = load(HEADS[kind], source)
    original = _original_config(model)
    variables = to_variables({name: value.detach().numpy() for name, value in model.named_parameters()})
    if not config.dry_run:
        out.mkdir(parents=True, exist_ok=True)
        write_bundle(variables, out / CHECKPOINT)
        (out / CONFIG).write_text(json.dumps(original, indent=2) + "\n", encoding="utf-8")
        if (Path(source) / "vocab.txt").exists():
            shutil.copyfile(Path(source) / "vocab.txt", out / "vocab.txt")
        say(f"wrote {out / CHECKPOINT}: {len(variables)} variables")
    return Conversion(config.source, config.out, "tensorflow", len(variables), [])


def _original_config(model: PreTrainedModel) -> dict[str, Any]:
    """The configuration as the original reads it.

    Raises:
        UserError: if the model's activation is one that the original has not.
    """
    config = model.config
    if config.hidden_act not in ORIGINAL_ACTIVATIONS:
        raise UserError(
            f"The original has no activation `{config.hidden_act}`.",
            "Only models with tanh GELU, ReLU or tanh convert.",
        )
    keys = (
        "attention_probs_dropout_prob",
        "hidden_dropout_prob",
        "hidden_size",
        "initializer_range",
        "intermediate_size",
        "max_position_embeddings",
        "num_attention_heads",
        "num_hidden_layers",
        "type_vocab_size",
        "vocab_size",
    )
    return {"hidden_act": ORIGINAL_ACTIVATIONS[config.hidden_act], **{key: getattr(config, key) for key in keys}}
