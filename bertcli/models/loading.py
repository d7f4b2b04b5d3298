"""Models of transformers: built with new weights, loaded, checked and saved."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from torch import nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel
from transformers import logging as transformers_logging

from bertcli import say
from bertcli.data.checksums import check_files
from bertcli.data.json_files import read_json
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError, check_positions, first_line, quoted
from bertcli.families import family_of
from bertcli.families.family import GENERATOR_SETTINGS, Family, ModelSize
from bertcli.families.family import LARGEST as LARGEST_LAYERS
from bertcli.models.encoder import BILSTM, longest_input
from bertcli.models.heads import MeanPooledBertForSequenceClassification
from bertcli.models.model_with_loss import generator_beside
from bertcli.models.own import deberta, joint_spans, replaced_tokens, shared_layers, two_directions, two_streams
from bertcli.models.own.bilstm import add_bilstm
from bertcli.models.own.frozen import FrozenBertForTokenClassification
from bertcli.models.packed import PACKED

transformers_logging.set_verbosity_error()
transformers_logging.disable_progress_bar()

NO_CODE = {"trust_remote_code": False}
LOADING = {"output_loading_info": True, "dtype": torch.float32, "ignore_mismatched_sizes": True}
# The outputs of a model, whatever its config.json asks for.
LOADING |= {"output_attentions": False, "output_hidden_states": False, "return_dict": True}
INITIALIZER_RANGE = 0.02
LARGEST_TABLES = {"type_vocab_size": 1_000_000, "vocab_size": 100_000_000, "max_position_embeddings": 100_000_000}
LARGEST = LARGEST_LAYERS | LARGEST_TABLES
SMALLEST = {"type_vocab_size": 0, "max_position_embeddings": -1}  # XLNet has no longest input
OWN_HEADS = (FrozenBertForTokenClassification, MeanPooledBertForSequenceClassification)
HEADS = (*two_directions.CLASSES.values(), *deberta.CLASSES.values(), *joint_spans.CLASSES.values())
OWN_HEADS_OF_FAMILIES = (*HEADS, replaced_tokens.DebertaV2ForPreTraining)
OWN_CLASSES = {each.__name__: each for each in (*OWN_HEADS, *OWN_HEADS_OF_FAMILIES)}


def build_model(
    model_class: Any, family: Family, size: str | ModelSize, tokenizer: WordPiece, labels: dict[str, Any], seed: int
) -> PreTrainedModel:
    """Build a model with new weights, drawn by `seed`. Raises UserError if the family has no such size.

    `labels` go into config.json: the labels of a task, and `initializer_range`, the standard deviation of new weights.
    """
    settings = {"initializer_range": INITIALIZER_RANGE, **labels, "pad_token_id": tokenizer.special("pad")}
    attention = {"attn_implementation": PACKED} if family.is_packed else {}
    config = family.new_config(size, vocab_size=tokenizer.size, **attention, **settings)
    torch.manual_seed(seed)
    model = _with_new_weights(_new_model(model_class, config, attention))
    if getattr(config, BILSTM, False):
        add_bilstm(model)
    return model


def _new_model(model_class: Any, config: PretrainedConfig, attention: dict[str, str]) -> PreTrainedModel:
    """A model of a class of ours or of an Auto class, its weights not yet those that are wanted."""
    if issubclass(model_class, PreTrainedModel):
        config._attn_implementation = attention.get("attn_implementation", config._attn_implementation)
        return run_packed(cast(PreTrainedModel, model_class(config)))
    return run_packed(cast(PreTrainedModel, model_class.from_config(config, **attention, **NO_CODE)))


def run_packed(model: PreTrainedModel) -> PreTrainedModel:
    """Have a model whose attention is of its family run packed in a way of its own, and an ALBERT's layers be computed again."""
    return deberta.run_packed(two_streams.run_packed(shared_layers.allow_gradient_checkpointing(model)))


def build_generator(model: PreTrainedModel) -> PreTrainedModel:
    """Build a generator with new weights for a model, whose config.json has the settings that differ."""
    saved, make = model.config, family_of(model.config.model_type).generator
    size = ModelSize(saved.num_hidden_layers, saved.hidden_size, saved.num_attention_heads)
    own = getattr(saved, GENERATOR_SETTINGS, None) or (make(size, None) if make else {})
    config = type(saved)(**{**saved.to_dict(), GENERATOR_SETTINGS: None, **own})
    attention = {"attn_implementation": saved._attn_implementation}
    return _with_new_weights(_new_model(transformers.AutoModelForMaskedLM, config, attention))


def _with_new_weights(model: PreTrainedModel) -> PreTrainedModel:
    config, family = model.config, family_of(model.config.model_type)
    initialize(model, {name for name, _ in model.named_parameters()}, config.initializer_range, family.cuts_new_weights)
    family.initialize(model)
    return with_trained_padding(model)


@torch.no_grad()
def initialize(model: PreTrainedModel, names: set[str], std: float = INITIALIZER_RANGE, is_cut: bool = True) -> None:
    """Draw the named weights as the original does: normal, cut at two standard deviations; biases 0, LayerNorm 1 and 0."""
    glorot = {*family_of(model.config.model_type).glorot}
    for name, parameter in ((name, each) for name, each in model.named_parameters() if name in names):
        if ("LayerNorm" in name or "layer_norm" in name) and name.endswith("weight"):
            nn.init.ones_(parameter)
        elif parameter.dim() == 1:
            nn.init.zeros_(parameter)
        elif glorot.intersection(name.split(".")):
            nn.init.xavier_uniform_(parameter)
        elif not is_cut:
            nn.init.normal_(parameter, std=std)
        else:
            nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std)


def _check_settings(saved: PretrainedConfig, family: Family, source: str) -> None:
    """Raise UserError if config.json has a setting that is not supported, so that outputs would be wrong."""
    for name, value in family.required.items():
        if getattr(saved, name, value) != value:
            what = f"`{source}` has {name} {getattr(saved, name)!r} in its config.json, which is not supported."
            raise UserError(what, f"Give a model of {family.name} with {name} {value!r}.")


def load_model(
    source: str, model_class: Any = None, labels: dict[str, Any] | None = None, new_head: bool = False, seed: int = 0
) -> PreTrainedModel:
    """Load a model from a folder or the Hub, by the class that was saved or another; missing weights are drawn by `seed`.

    `labels` go into its config.json. With `new_head` the saved head is not used. Raises UserError if it cannot be opened.
    """
    check_files(Path(source), {path.name for path in Path(source).glob("*.safetensors")})
    torch.manual_seed(seed)
    saved = open_config(source)
    family = family_of(saved.model_type)
    _check_settings(saved, family, source)
    packs = family.is_packed
    given = {"attn_implementation": PACKED if packs else None, **(labels or {})}
    has_new_bilstm = given.pop(BILSTM, False)
    model, info = _opened(source, model_class or _saved_class(saved), given)
    missing, other_shape = set(info["missing_keys"]), {name for name, *_ in info["mismatched_keys"]}
    inner = f"{model.base_model_prefix}."
    if any(name.startswith(inner) for name in other_shape):
        what = f"The sizes of the weights of `{source}` are not those in its config.json: {_modules(other_shape)}."
        raise UserError(what, "Take both from the same model.")
    replaced = _head(model) - missing if new_head else other_shape
    initialize(model, missing | replaced)
    _give_bilstm(model, source, saved, has_new_bilstm)
    _check_finite(model, source)
    if not packs:
        say(f"{source} is a {saved.model_type}: its batches are padded, which takes longer than packing them")
    _say_new(source, missing - (_head(model) if labels else set()), replaced)
    family.prepare(model, source)
    return with_trained_padding(model) if packs else model


def _check_finite(model: PreTrainedModel, source: str) -> None:
    if not has_finite_weights(model):
        raise UserError(f"The model `{source}` has weights that are not finite.", "Take another; this one diverged.")


def _give_bilstm(model: PreTrainedModel, source: str, saved: PretrainedConfig, is_new: bool) -> None:
    """Add the BiLSTM that a model has, or a new one."""
    if getattr(saved, BILSTM, False):
        add_bilstm(model, source)
    elif is_new:
        add_bilstm(model)


def _opened(source: str, model_class: Any, given: dict[str, Any]) -> tuple[PreTrainedModel, dict[str, Any]]:
    try:
        with _without_values() if given["attn_implementation"] else nullcontext():
            model, info = model_class.from_pretrained(source, **given, **LOADING, **NO_CODE)
        model.get_input_embeddings()
    except UserError:
        raise
    except Exception as error:  # transformers has no class of its own for what it cannot open
        raise _not_opened(source, error) from None
    return run_packed(model), info


@contextmanager
def _without_values() -> Iterator[None]:
    """Skip the initial values of weights that are about to be read, and make tensors of indices on the CPU.

    transformers makes models on the meta device, where these values need torch's compiler, whose import takes a second.
    Meant for the families that run packed: another model may combine such tensors with some of the meta device.
    """
    replaced: dict[tuple[Any, str], Any]
    replaced = {(layer, "reset_parameters"): lambda self: None for layer in (nn.Embedding, nn.Linear)}
    replaced |= {(torch, name): partial(getattr(torch, name), device="cpu") for name in ("arange", "zeros")}
    originals = [(place, name, getattr(place, name)) for place, name in replaced]
    try:
        for (place, name), value in replaced.items():
            setattr(place, name, value)
        yield
    finally:
        for place, name, value in originals:
            setattr(place, name, value)


def is_finite(values: torch.Tensor) -> bool:
    """Whether all values are finite."""
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


def has_finite_weights(model: nn.Module) -> bool:
    """Whether all weights of a model are finite."""
    with torch.no_grad():
        return all(is_finite(parameter) for parameter in model.parameters())


def open_config(source: str) -> PretrainedConfig:
    """The configuration of a model in a folder or on the Hub. Raises UserError if it cannot be opened."""
    check_files(Path(source), {"config.json"})
    _check_is_no_baseline(Path(source) / "config.json")
    try:
        config = AutoConfig.from_pretrained(source, **NO_CODE)
    except Exception as error:  # as above
        raise _not_opened(source, error) from None
    check_sizes(config, Path(source) / "config.json")
    return config


def _check_is_no_baseline(path: Path) -> None:
    saved = read_json(path, "Restore it.") if path.is_file() else {}
    if method := saved.get("baseline"):
        what = f"`{path.parent}` is a baseline ({method}), not a BERT."
        raise UserError(what, "Give another; `bert evaluate`, `bert predict` and `bert report` take it.")


def check_sizes(config: PretrainedConfig, path: Path) -> None:
    """Raise UserError if a configuration is of a model that no memory holds, or names something by what is no text."""
    wrong = {name: value for name in LARGEST if not _is_size(name, value := getattr(config, name, 1))}
    names = {"architectures": config.architectures or [], "id2label": (config.id2label or {}).values()}
    wrong |= {name: each for name, given in names.items() for each in given if not isinstance(each, str)}
    for name, value in wrong.items():
        raise UserError(f"`{path}` is damaged: `{name}` is {str(value)[:40]}.", "Take it from the same model again.")


def _is_size(name: str, value: object) -> bool:
    """Whether a model can have this size."""
    return not isinstance(value, int) or SMALLEST.get(name, 1) <= value <= LARGEST[name]


def _not_opened(
    source: str, error: Exception, hint: str = "Give --from or --model a run, a folder or a Hub name."
) -> UserError:
    if "Unrecognized configuration class" in str(error):
        what = f"transformers has no class of the family of `{source}` for this kind of task."
        return UserError(what, "Give --from a model of another family, such as minilm.")
    return UserError(f"The model `{source}` cannot be opened: {first_line(error)}.", hint)


def _head(model: PreTrainedModel) -> set[str]:
    """The names of the parameters outside the encoder."""
    return {name for name, _ in model.named_parameters() if not name.startswith(f"{model.base_model_prefix}.")}


def _saved_class(saved: PretrainedConfig) -> Any:
    name = (saved.architectures or [""])[0]
    return OWN_CLASSES.get(name) or getattr(transformers, name, transformers.AutoModelForPreTraining)


def with_trained_padding(model: PreTrainedModel) -> PreTrainedModel:
    """Train the embedding of [PAD] like any other, as the original does: it may stand in for a masked token."""
    model.get_input_embeddings().padding_idx = None
    return model


def _say_new(source: str, missing: set[str], replaced: set[str]) -> None:
    """Say which weights are new, but for the head of a model to fine-tune, and which are those of another task."""
    new = [f"new: {_modules(missing)}"] if missing else []
    new += [f"left out, as it is of another task: {_modules(replaced)}"] if replaced else []
    if new:
        say(f"{source}: {'; '.join(new)}")


def _modules(names: set[str]) -> str:
    return ", ".join(sorted({name.rsplit(".", 1)[0] for name in names}))


def save_architecture(model: PreTrainedModel, tokenizer: WordPiece, folder: Path) -> None:
    """Write configuration and tokenizer without weights, for `without_weights`."""
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tokenizer.save(folder, longest_input(model))


def without_weights(folder: Path, model_class: Any) -> PreTrainedModel:
    """Build a model whose weights are in a checkpoint. Raises UserError if its configuration cannot be read."""
    check_files(folder)
    saved = open_config(str(folder))
    family = family_of(saved.model_type)
    attention = {"attn_implementation": PACKED} if family.is_packed else {}
    try:
        model = _new_model(model_class, saved, attention)
    except Exception as error:  # of torch too: a size that does not fit another
        raise _not_opened(str(folder), error, "Start a new run, without --resume.") from None
    family.prepare(model, str(folder))
    if getattr(saved, BILSTM, False):
        add_bilstm(model)
    return with_trained_padding(model) if attention else model


def save_model(model: PreTrainedModel, tokenizer: WordPiece, folder: Path) -> None:
    """Write weights (safetensors), configuration and tokenizer, which `from_pretrained` reads."""
    model.save_pretrained(folder)
    tokenizer.save(folder, longest_input(model))


def save_models(models: Mapping[str, PreTrainedModel], tokenizer: WordPiece, folder: Path) -> None:
    """Write models that were trained together, each in the folder of its name within that of the one without."""
    for name, model in models.items():
        save_model(model, tokenizer, folder / name)


def load_generator(source: str) -> PreTrainedModel | None:
    """Load the generator that was trained with a model, if there is one in the model's folder."""
    beside = generator_beside(source)
    return load_model(beside) if beside else None


def load_with_tokenizer(source: str) -> tuple[PreTrainedModel, WordPiece]:
    """Load a model and its tokenizer. Raises UserError if they cannot be opened, or do not belong together."""
    model, tokenizer = load_model(source), load_tokenizer(source)
    check_vocabulary(model, tokenizer, source)
    return model, tokenizer


def check_vocabulary(model: PreTrainedModel, tokenizer: WordPiece, source: str) -> None:
    """Raise a UserError if the embedding has too few rows for a vocabulary, or the model's folder has another one."""
    rows = model.config.vocab_size
    differs = (Path(source) / "vocab.txt").exists() and load_tokenizer(source).digest != tokenizer.digest
    if tokenizer.size > rows or differs:
        counts = f"has {tokenizer.size:,} tokens, the model {rows:,}"
        why = counts if tokenizer.size != rows else "is not the model's own"
        hint = f"Use the model's own, also to make pre-training data: --tokenizer {quoted(source)}; or start from scratch: --from scratch --size tiny"
        raise UserError(f"The vocabulary `{tokenizer.source}` {why}: it does not fit.", hint)


def check_length(model: PreTrainedModel, max_seq_length: int) -> None:
    """Raise a UserError if inputs may be longer than the model has positions."""
    check_positions(max_seq_length, longest_input(model))
