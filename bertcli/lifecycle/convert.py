"""Convert the original's TensorFlow checkpoints to transformers' format, and back."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.config.use import ConvertConfig
from bertcli.data.results import Result
from bertcli.data.text.files import BAD_ZIP
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError, check_regular, check_vacant
from bertcli.lifecycle.workspace import resolve_model

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from bertcli.models.formats.tensorflow_names import Arrays

CHECKPOINT = "bert_model.ckpt"
CONFIG = "bert_config.json"
IN_CHECKPOINT = re.compile(r"(\.index|\.data-\d+-of-\d+|bert_config\.json|vocab\.txt)$")
MOST_COMPRESSION, SMALLEST_BOMB = 20, 100_000_000  # times its size and bytes that a zip of weights may unpack to
RATES = ("attention_probs_dropout_prob", "hidden_dropout_prob", "initializer_range")
SIZES = ("hidden_size", "intermediate_size", "max_position_embeddings", "type_vocab_size", "vocab_size")
COUNTS = ("num_attention_heads", "num_hidden_layers")
# The original calls the tanh approximation "gelu"; transformers means the exact function by that.
ACTIVATIONS = {"gelu": "gelu_pytorch_tanh"}
ORIGINAL_ACTIVATIONS = {"gelu_pytorch_tanh": "gelu", "gelu_new": "gelu", "relu": "relu", "tanh": "tanh"}
# The classes of transformers with a head of the original, by a weight of it; without one, a model gets those of pre-training.
HEADS = {"qa_outputs.weight": "BertForQuestionAnswering", "classifier.weight": "BertForSequenceClassification"}
CLASSES = dict.fromkeys(
    ("BertModel", "BertForMaskedLM", "BertLMHeadModel", "BertForNextSentencePrediction"), "BertForPreTraining"
) | {name: name for name in ("BertForPreTraining", *HEADS.values())}


@dataclass(frozen=True)
class Conversion(Result):
    """What was converted."""

    source: str
    out: str
    to: str  # "transformers" or "tensorflow"
    tensors: int
    left_out: list[str]


def convert(source: ConvertConfig | str | None = None, **options: Any) -> Conversion:
    """Convert a checkpoint of the original (a folder or its zip) to a model folder, or a model folder to a checkpoint.

    No TensorFlow is needed, and weights stay equal to the bit. Raises UserError if the source is neither, or is damaged.
    """
    config = ConvertConfig.build(source, options)
    if not config.source:
        what = "Which checkpoint? None was given."
        raise UserError(what, "Name one: bert convert uncased_L-12_H-768_A-12.zip --out bert-base")
    check_vacant(Path(config.out))
    with tempfile.TemporaryDirectory() as scratch:
        prefix = _checkpoint(Path(config.source), Path(scratch))
        return _from_tensorflow(prefix, config) if prefix else _to_tensorflow(config)


def _checkpoint(path: Path, scratch: Path) -> Path | None:
    """The path of a checkpoint without its endings, given one of its files, its folder or a zip of that."""
    check_regular(path)
    if path.suffix in (".zip", ".index") and not path.exists():
        raise UserError(f"There is no file `{path}`.", "Give a checkpoint of the original, or a run or model folder.")
    if _is_zip(path):
        _extract(path, scratch)
        path = scratch
    if not path.is_dir():
        prefix = path.with_suffix("") if path.suffix == ".index" else path
        return prefix if Path(f"{prefix}.index").exists() else None
    found = sorted(path.rglob("*.index"))
    if len(found) > 1:
        what = f"`{path}` holds {len(found)} checkpoints: {', '.join(file.stem for file in found[:5])}."
        raise UserError(what, f"Name one: bert convert {found[-1].with_suffix('')}")
    return found[0].with_suffix("") if found else None


def _is_zip(path: Path) -> bool:
    """Whether a file is a zip, or is called one and damaged."""
    return path.is_file() and (path.suffix == ".zip" or zipfile.is_zipfile(path))


def _extract(path: Path, folder: Path) -> None:
    """Extract the files of a checkpoint, and no others; `zipfile` keeps paths with `..` and links inside the folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = [each for each in archive.infolist() if IN_CHECKPOINT.search(each.filename)]
            size = sum(each.file_size for each in wanted)
            if size > SMALLEST_BOMB and size > MOST_COMPRESSION * path.stat().st_size:
                what = f"The zip `{path}` would unpack to {size / 1e6:,.0f} MB, {MOST_COMPRESSION} times its size."
                raise UserError(what, "Weights do not compress that well: check where the file is from.")
            for member in wanted:
                archive.extract(member, folder)
    except (*BAD_ZIP, zlib.error, EOFError) as error:
        raise UserError(f"The zip `{path}` is damaged, or has a password: {error}.", "Download it again.") from None


def _from_tensorflow(prefix: Path, config: ConvertConfig) -> Conversion:
    folder, out = prefix.parent, Path(config.out)
    if not (folder / CONFIG).exists():
        raise UserError(f"There is no `{CONFIG}` beside `{prefix.name}`.", "Copy that of the checkpoint there.")
    from bertcli.models.formats.tensor_bundle import read_bundle
    from bertcli.models.formats.tensorflow_names import to_parameters

    variables = read_bundle(prefix)
    parameters = to_parameters(variables)
    left_out = sorted(name for name in variables if not to_parameters({name: variables[name]}))
    model = _build(folder / CONFIG, parameters)
    unfit = _load(model, parameters)
    said = f"; left out: {', '.join(left_out[:5])}" if left_out else ""
    say(f"read {len(variables)} tensors of {config.source}{said}")
    if unfit:
        raise UserError(f"The checkpoint does not fit its configuration: {', '.join(unfit[:4])}.", f"Check {CONFIG}.")
    tokenizer = load_tokenizer(vocab, config.cased) if (vocab := folder / "vocab.txt").exists() else None
    if tokenizer and tokenizer.size > model.config.vocab_size:
        what = f"`{vocab}` has {tokenizer.size:,} tokens, the checkpoint {model.config.vocab_size:,}: it is of another."
        raise UserError(what, "Put the vocab.txt of the checkpoint there.")
    if not tokenizer:
        say(f"there is no vocab.txt beside {prefix.name}: put that of the checkpoint there, and convert it again")
    if not config.dry_run:
        model.save_pretrained(out)
        if tokenizer:
            tokenizer.save(out, model.config.max_position_embeddings)
        say(f"wrote {out}: a {type(model).__name__}")
    return Conversion(config.source, config.out, "transformers", len(parameters), left_out)


def _build(path: Path, parameters: Arrays) -> PreTrainedModel:
    import transformers

    from bertcli.models.loading import check_sizes

    classifier = parameters.get("classifier.weight")
    labels = {} if classifier is None else {"num_labels": len(classifier)}
    head = next((name for weight, name in HEADS.items() if weight in parameters), "BertForPreTraining")
    try:
        original = json.loads(path.read_text(encoding="utf-8"))
        known = {key: value for key, value in original.items() if key in transformers.BertConfig().to_dict()}
        known["hidden_act"] = ACTIVATIONS.get(original["hidden_act"], original["hidden_act"])
        configuration = transformers.BertConfig(**known, layer_norm_eps=1e-12, **labels)
        check_sizes(configuration, path)
        model: PreTrainedModel = getattr(transformers, head)(configuration)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        what = f"`{path.name}` is not the configuration of a BERT: {error}."
        raise UserError(what, "Take it from the same checkpoint.") from error
    return model


def _load(model: PreTrainedModel, parameters: Arrays) -> list[str]:
    """Set the weights; return the names that only one of checkpoint and model has, or in another shape."""
    import numpy as np
    import torch

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
        what = f"`{config.source}` is neither a checkpoint nor a model folder."
        raise UserError(what, "Give a folder with bert_model.ckpt.index or config.json.")
    import transformers

    from bertcli.models.formats.tensor_bundle import write_bundle
    from bertcli.models.formats.tensorflow_names import to_variables
    from bertcli.models.loading import load_model, open_config

    saved = open_config(source)
    name = (saved.architectures or [type(saved).__name__.replace("Config", "Model")])[0]
    if name not in CLASSES:
        what = f"`{config.source}` is a {name}, which the original does not have."
        raise UserError(what, "Give a pre-trained BERT, or one fine-tuned for classification or question answering.")
    if saved.is_decoder:
        what = f"`{config.source}` reads from left to right, which the original cannot: it would read both ways there."
        raise UserError(what, "Give a model that reads both ways.")
    original = _original_config(saved, CLASSES[name] == "BertForSequenceClassification")
    model = load_model(source, getattr(transformers, CLASSES[name]))
    variables = to_variables({name: value.detach().numpy() for name, value in model.named_parameters()})
    if not config.dry_run:
        out.mkdir(parents=True, exist_ok=True)
        write_bundle(variables, out / CHECKPOINT)
        (out / CONFIG).write_text(json.dumps(original, indent=2) + "\n", encoding="utf-8")
        if (Path(source) / "vocab.txt").exists():
            shutil.copyfile(Path(source) / "vocab.txt", out / "vocab.txt")
        say(f"wrote {out / CHECKPOINT}: {len(variables)} variables")
    return Conversion(config.source, config.out, "tensorflow", len(variables), [])


def _original_config(config: PretrainedConfig, has_labels: bool) -> dict[str, Any]:
    """The configuration in the original's form, with the names of labels where there are some, which the original ignores.

    Raises UserError if the original lacks the model's activation.
    """
    if config.hidden_act not in ORIGINAL_ACTIVATIONS:
        what = f"The original does not have the activation `{config.hidden_act}`."
        raise UserError(what, "Only models with tanh GELU, ReLU or tanh convert.")
    settings: dict[str, Any] = {name: getattr(config, name) for name in sorted((*RATES, *SIZES, *COUNTS))}
    names = {"id2label": config.id2label} if has_labels else {}
    return {"hidden_act": ORIGINAL_ACTIVATIONS[config.hidden_act], **settings, **names}
