"""Models built by size, loaded with one sentence about it, saved in transformers' format."""

from pathlib import Path
from typing import Any, cast

import torch
import transformers
from torch import nn
from transformers import AutoConfig, BertConfig, PretrainedConfig, PreTrainedModel
from transformers import logging as transformers_logging

from bertcli import say
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError, unknown
from bertcli.families.sizes import SIZES
from bertcli.models.encoder import PACKED_FAMILIES, longest_input
from bertcli.models.frozen import FrozenBertForTokenClassification
from bertcli.models.packed import PACKED

transformers_logging.set_verbosity_error()
transformers_logging.disable_progress_bar()

# What is read of a model, whatever was saved.
OUTPUTS = {"output_attentions": False, "output_hidden_states": False, "return_dict": True}
INITIALIZER_RANGE = 0.02
OWN_CLASSES = {FrozenBertForTokenClassification.__name__: FrozenBertForTokenClassification}


def build_model(
    model_class: Any,
    size: str,
    tokenizer: WordPiece,
    labels: dict[str, Any],
    seed: int,
    initializer_range: float = INITIALIZER_RANGE,
) -> PreTrainedModel:
    """Build a BERT with new weights: tanh GELU, LayerNorm eps 1e-12, truncated normal, as modeling.py has them."""
    if size not in SIZES:
        raise unknown("size", size, SIZES, "`bert sizes` lists them.")
    chosen = SIZES[size]
    config = BertConfig(
        vocab_size=tokenizer.size,
        hidden_size=chosen.hidden,
        num_hidden_layers=chosen.layers,
        num_attention_heads=chosen.heads,
        intermediate_size=4 * chosen.hidden,
        hidden_act="gelu_pytorch_tanh",
        layer_norm_eps=1e-12,
        initializer_range=initializer_range,
        pad_token_id=tokenizer.special("pad"),
        attn_implementation=PACKED,
        **labels,
    )
    torch.manual_seed(seed)
    own = issubclass(model_class, PreTrainedModel)
    model: PreTrainedModel = model_class(config) if own else model_class.from_config(config, attn_implementation=PACKED)
    initialize(model, {name for name, _ in model.named_parameters()}, initializer_range)
    return with_trained_padding(model)


@torch.no_grad()
def initialize(model: nn.Module, names: set[str], deviation: float = INITIALIZER_RANGE) -> None:
    """Draw the named weights as the original does: normal, cut at two deviations; biases 0, LayerNorm 1 and 0."""
    for name, parameter in model.named_parameters():
        if name not in names:
            continue
        if "LayerNorm" in name and name.endswith("weight"):
            nn.init.ones_(parameter)
        elif parameter.dim() == 1:
            nn.init.zeros_(parameter)
        else:
            nn.init.trunc_normal_(parameter, std=deviation, a=-2 * deviation, b=2 * deviation)


def load_model(
    source: str, model_class: Any = None, labels: dict[str, Any] | None = None, new_head: bool = False, seed: int = 0
) -> PreTrainedModel:
    """Load a model from a folder or the Hub by a class of transformers; weights that are missing are drawn by `seed`.

    `labels` are what config.json says of those to learn. With `new_head` the head that was saved is left out and made
    new, whatever its shape. Without a class the model has the head that it was saved with.

    Raises:
        UserError: if there is no such model, or it cannot be opened.
    """
    torch.manual_seed(seed)
    saved = open_config(source)
    try:
        is_decoder = getattr(saved, "is_decoder", False)  # whose tokens see only what is before them
        packs = saved.model_type in PACKED_FAMILIES and not is_decoder
        model, info = (model_class or _saved_class(saved)).from_pretrained(
            source,
            attn_implementation=PACKED if packs else None,
            output_loading_info=True,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            **OUTPUTS,
            **(labels or {}),
        )
        model.get_input_embeddings()
    except UserError:
        raise
    except Exception as error:  # transformers has no class of its own for what it cannot open
        raise _not_opened(source, error) from None
    missing, other_shape = set(info["missing_keys"]), {name for name, *_ in info["mismatched_keys"]}
    inner = f"{model.base_model_prefix}."
    if any(name.startswith(inner) for name in other_shape):
        raise UserError(
            f"The weights of `{source}` are not of the sizes in its config.json: {_modules(other_shape)}.",
            "Take both from the same model.",
        )
    head = {name for name, _ in model.named_parameters() if not name.startswith(inner)}
    replaced = head - missing if new_head else other_shape
    initialize(model, missing | replaced)
    if not packs:
        family = f"{saved.model_type}{' decoder' if is_decoder else ''}"
        say(f"{source} is a {family}: its batches are padded, as only those of BERT's nearest kin are packed")
    say(_sentence(source, model, missing, set(info["unexpected_keys"]), replaced))
    if getattr(saved, "languages", None) and not saved.default_language:  # X-MOD's, which has adapters for each
        model.set_default_language(saved.languages[0])
        say(f"texts are read as {saved.languages[0]}, as config.json of {source} names no `default_language`")
    return with_trained_padding(model) if packs else cast(PreTrainedModel, model)


def open_config(source: str) -> PretrainedConfig:
    """The configuration of a model in a folder or on the Hub.

    Raises:
        UserError: if there is no such model, or it cannot be opened.
    """
    try:
        return AutoConfig.from_pretrained(source)
    except Exception as error:
        raise _not_opened(source, error) from None


def _not_opened(source: str, error: Exception) -> UserError:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    hint = "Give --from or --model a run, a folder or a Hub name."
    return UserError(f"The model `{source}` cannot be opened: {first}", hint)


def _saved_class(saved: PretrainedConfig) -> Any:
    """The class of a saved model; that of pre-training where it is not known."""
    name = (saved.architectures or [""])[0]
    return OWN_CLASSES.get(name) or getattr(transformers, name, transformers.AutoModelForPreTraining)


def with_trained_padding(model: PreTrainedModel) -> PreTrainedModel:
    """Let [PAD] learn like any other token, as in the original: it may stand in for a masked one, and fills nothing up."""
    model.get_input_embeddings().padding_idx = None
    return model


def _sentence(source: str, model: PreTrainedModel, missing: set[str], unexpected: set[str], replaced: set[str]) -> str:
    new = f"; new: {_modules(missing | replaced)}" if missing | replaced else ""
    left_out = ((unexpected, ""), (replaced, " (of another task)"))
    left = ", ".join(_modules(names) + whose for names, whose in left_out if names)
    loaded = f"loaded {source} ({model.num_parameters() / 1e6:.1f} M parameters)"
    return f"{loaded}{new}{f'; left out: {left}' if left else ''}"


def _modules(names: set[str]) -> str:
    return ", ".join(sorted({name.rsplit(".", 1)[0] for name in names}))


def save_model(model: PreTrainedModel, tokenizer: WordPiece, folder: Path) -> None:
    """Write weights (safetensors), configuration and tokenizer, as `from_pretrained` reads them."""
    model.save_pretrained(folder)
    tokenizer.save(folder, longest_input(model))


def check_vocabulary(model: PreTrainedModel, tokenizer: WordPiece, source: str) -> None:
    """Refuse a vocabulary that the embedding has no rows for, or that is not the one of the model's own folder.

    Raises:
        UserError: naming both.
    """
    rows = model.config.vocab_size
    own = Path(source) / "vocab.txt"
    differs = own.exists() and load_tokenizer(source).digest != tokenizer.digest
    if tokenizer.size > rows or differs:
        counts = f"has {tokenizer.size:,} tokens, the model {rows:,}"
        why = counts if tokenizer.size != rows else "is another than the model's"
        raise UserError(
            f"The vocabulary `{tokenizer.source}` {why}: it does not fit.",
            f"Use the model's own: --tokenizer {source}; or start from scratch: --from scratch --size tiny",
        )


def check_length(model: PreTrainedModel, max_seq_length: int) -> None:
    """Refuse inputs longer than the model has positions.

    Raises:
        UserError: naming both lengths.
    """
    positions = longest_input(model)
    if max_seq_length > positions:
        raise UserError(
            f"--max-seq-length {max_seq_length} is beyond the model's {positions} positions.",
            f"Give --max-seq-length {positions} or less.",
        )
