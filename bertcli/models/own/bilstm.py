"""A BiLSTM over the hidden states of each sequence, between an encoder and its head ("+ BiLSTM", BERT section 5.1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, unpack_sequence
from transformers import PreTrainedModel

from bertcli.errors import UserError
from bertcli.models.encoder import BILSTM
from bertcli.models.packed import is_joined, is_packed

# T tokens of the batch, D features, U units of a direction, H hidden


class BiLstm(nn.LSTM):
    """An LSTM that takes the states of sequences end to end."""

    def forward(self, states: Tensor, lengths: Sequence[int]) -> Tensor:  # type: ignore[override]
        """[T, D] of sequences of so many states to [T, 2U] of both directions."""
        parts = torch.split(states.to(next(self.parameters()).dtype), list(lengths))
        hidden, _ = super().forward(pack_sequence(list(parts), enforce_sorted=False))
        return torch.cat(unpack_sequence(hidden))


def has_bilstm(model: nn.Module) -> bool:
    """Whether a model has a BiLSTM between its encoder and its head."""
    return hasattr(model, BILSTM)


def add_bilstm(model: PreTrainedModel, folder: str = "") -> None:
    """Add a BiLSTM that is as wide as the hidden states, so that any head fits; its weights are new, or those in a folder.

    Raises UserError if the batches of the model are padded, or its hidden states cannot be halved.
    """
    width = model.config.hidden_size * (2 if is_joined(model) else 1)
    if not is_packed(model) or width % 2:
        what = f"--bilstm needs a model that runs without padding and has an even width, not this {model.config.model_type}."
        raise UserError(what, "Leave --bilstm out, or give --from a BERT.")
    model.add_module(BILSTM, BiLstm(width, width // 2, bidirectional=True))
    setattr(model.config, BILSTM, True)
    saved: dict[str, Any] = {}
    for path in Path(folder).glob("*.safetensors") if folder else ():
        with safe_open(path, "pt") as file:
            names = [name for name in file.keys() if name.startswith(f"{BILSTM}.")]  # noqa: SIM118
            saved |= {name.removeprefix(f"{BILSTM}."): file.get_tensor(name).float() for name in names}
    if folder:
        model.get_submodule(BILSTM).load_state_dict(saved)
