"""What heads read of the encoder, and losses that several kinds of task share."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from bertcli.data.packing.batches import PackedBatch, send
from bertcli.models.encoder import run_head
from bertcli.models.frozen import FrozenBertForTokenClassification
from bertcli.models.model_with_loss import Outputs

# N sequences of the batch, M masked tokens, H hidden, V vocabulary, C labels, W words to tag, S the longest sequence


def masked_lm_logits(model: PreTrainedModel, batch: PackedBatch) -> Tensor:
    """Vocabulary logits at the masked positions only, [M, V], of any family's masked-LM head."""
    found = run_head(model, batch, batch.labels["masked_lm_positions"])
    logits: Tensor = found["prediction_logits" if "prediction_logits" in found else "logits"]
    return logits


def sequence_logits(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Logits of each sequence, [N, C]."""
    return {"logits": run_head(model, batch, batch.first_tokens, pooled=True)["logits"]}


def word_logits(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Logits of each word, read off its first piece, [W, C]."""
    if isinstance(model, FrozenBertForTokenClassification):
        return {"logits": model(batch)}
    return {"logits": run_head(model, batch, batch.labels["word_positions"])["logits"]}


def span_logits(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Start and end logits of every token, a row a sequence, [N, S]; -inf beyond the end of a sequence."""
    found = run_head(model, batch)  # [T] each
    return {side: _unpack(found[f"{side}_logits"].float(), batch) for side in ("start", "end")}


def _unpack(values: Tensor, batch: PackedBatch) -> Tensor:
    rows = send(torch.repeat_interleave(torch.tensor(batch.lengths)), values.device)  # [T] sequence of each token
    padded = values.new_full((len(batch.lengths), max(batch.lengths)), -torch.inf)
    return padded.index_put((rows, batch.position_ids), values)  # [N, S]


def summed_cross_entropy(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Cross entropy summed over rows of `logits`, each times the weight of its class where classes have one.

    The loop divides the sum by that of the weights over the whole global batch: torch's weighted mean of it.
    """
    losses = cross_entropy(outputs["logits"].float(), batch.labels["labels"], reduction="none")
    return {"loss": (losses * batch.labels.get("weights", 1)).sum()}
