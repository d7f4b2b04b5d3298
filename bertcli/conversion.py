"""Turn the original's TensorFlow checkpoints into transformers' format, and back."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, BertConfig, PreTrainedModel

from bertcli.config import ConvertConfig
from bertcli.data.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.models.loading import MODEL_CLASSES, load_model
from bertcli.models.tensor_bundle import read_bundle, write_bundle
from bertcli.models.tensorflow_names import Arrays, to_parameters, to_variables
from bertcli.training.run_folder import resolve_model

logger = logging.getLogger("bertcli")
CHECKPOINT = "bert_model.ckpt"
CONFIG = "bert_config.json"
# The original calls the tanh approximation "gelu"; transformers means the exact function by that.
ACTIVATIONS = {"gelu": "gelu_pytorch_tanh"}


@dataclass(frozen=True)
class Conversion:
    """What was converted, from where to where."""

    source: str
    out: str
    to: str  # "transformers" or "tensorflow"
    tensors: int
    left_out: list[str]

    def to_json(self) -> dict[str, Any]:
        """The result as `--json` prints it."""
        return asdict(self)


def convert(source: ConvertConfig | str | None = None, **options: Any) -> Conversion:
    """Convert a checkpoint of the original (a folder or its zip) to a model folder, or a model folder to a checkpoint.

    No TensorFlow is needed, and every weight keeps its bits.

    Raises:
        UserError: if the source is neither, or is damaged.
    """
    config = ConvertConfig.build(source, options)
    out = Path(config.out)
    if not config.source:
        raise UserError(
            "Which checkpoint? None was given.", "Name one: bert convert uncased_L-12_H-768_A-12.zip --out bert-base"
        )
    if out.exists() and any(out.iterdir()):
        raise UserError(f"`{out}` already holds something.", "Give another: --out NEW-FOLDER")
    path = Path(config.source)
    with tempfile.TemporaryDirectory() as scratch:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(scratch)
            path = Path(scratch)
        found = sorted(path.rglob("*.index")) if path.is_dir() else []
        if found:
            return _from_tensorflow(found[0].with_suffix(""), config)
    return _to_tensorflow(config)


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
    missing, unexpected = _load(model, parameters)
    logger.info(
        "read %d tensors of %s%s",
        len(variables),
        config.source,
        f"; left out: {', '.join(left_out[:5])}" if left_out else "",
    )
    if missing or unexpected:
        raise UserError(
            f"The checkpoint does not fit its configuration: {', '.join([*missing, *unexpected][:4])}.",
            "Check bert_config.json.",
        )
    if config.dry_run:
        return Conversion(config.source, config.out, "transformers", len(parameters), left_out)
    model.save_pretrained(out)
    if (folder / "vocab.txt").exists():
        load_tokenizer(folder / "vocab.txt", config.cased).save(out, model.config.max_position_embeddings)
    logger.info("wrote %s: a %s", out, type(model).__name__)
    return Conversion(config.source, config.out, "transformers", len(parameters), left_out)


def _build(kind: str, path: Path, parameters: Arrays) -> PreTrainedModel:
    original = json.loads(path.read_text(encoding="utf-8"))
    known = {key: value for key, value in original.items() if key in BertConfig().to_dict()}
    known["hidden_act"] = ACTIVATIONS.get(original["hidden_act"], original["hidden_act"])
    labels = {"num_labels": len(parameters["classifier.weight"])} if kind == "classify" else {}
    model: PreTrainedModel = MODEL_CLASSES[kind].from_config(BertConfig(**known, layer_norm_eps=1e-12, **labels))
    return model


def _load(model: PreTrainedModel, parameters: Arrays) -> tuple[list[str], list[str]]:
    """Put the weights in; return the names that the checkpoint lacks, and those that the model has no place for."""
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in parameters.items():
            if name in named and tuple(named[name].shape) == value.shape:
                named[name].copy_(torch.from_numpy(np.array(value)))
    fits = {name for name, value in parameters.items() if name in named and tuple(named[name].shape) == value.shape}
    heads_without_pooler = {name for name in parameters if name.startswith("bert.pooler.") and name not in named}
    return sorted(set(named) - fits), sorted(set(parameters) - fits - heads_without_pooler)


def _to_tensorflow(config: ConvertConfig) -> Conversion:
    source, out = resolve_model(config.source), Path(config.out)
    if not (Path(source) / "config.json").exists():
        raise UserError(
            f"`{config.source}` is neither a checkpoint nor a model folder.",
            "Give a folder with bert_model.ckpt.index or config.json.",
        )
    architecture = (AutoConfig.from_pretrained(source).architectures or [""])[0]
    kind = "span" if "Question" in architecture else "classify" if "Sequence" in architecture else "pretrain"
    model = load_model(kind, source)
    variables = to_variables({name: value.detach().numpy() for name, value in model.named_parameters()})
    if config.dry_run:
        return Conversion(config.source, config.out, "tensorflow", len(variables), [])
    out.mkdir(parents=True, exist_ok=True)
    write_bundle(variables, out / CHECKPOINT)
    (out / CONFIG).write_text(json.dumps(_original_config(model), indent=2) + "\n", encoding="utf-8")
    if (Path(source) / "vocab.txt").exists():
        shutil.copyfile(Path(source) / "vocab.txt", out / "vocab.txt")
    logger.info("wrote %s: %d variables", out / CHECKPOINT, len(variables))
    return Conversion(config.source, config.out, "tensorflow", len(variables), [])


def _original_config(model: PreTrainedModel) -> dict[str, Any]:
    """The configuration as the original reads it.

    Raises:
        UserError: if the model's activation is one that the original has not.
    """
    names = {ours: theirs for theirs, ours in ACTIVATIONS.items()} | {
        "gelu_new": "gelu",
        "relu": "relu",
        "tanh": "tanh",
    }
    config = model.config
    if config.hidden_act not in names:
        raise UserError(
            f"The original has no activation `{config.hidden_act}`.",
            "Only models with tanh GELU, ReLU or tanh convert.",
        )
    keys = (
        "attention_probs_dropout_prob", "hidden_dropout_prob", "hidden_size", "initializer_range", "intermediate_size",
        "max_position_embeddings", "num_attention_heads", "num_hidden_layers", "type_vocab_size", "vocab_size",
    )  # fmt: skip
    return {"hidden_act": names[config.hidden_act], **{key: getattr(config, key) for key in keys}}
