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
    rows = send(
        torch.repeat_interleave(torch.tensor(batch.lengths)), batch.input_ids.device
    )  # [T] sequence of each token
    padded = torch.full((len(batch.lengths), max(batch.lengths)), -torch.inf, device=rows.device)
    places = (rows, batch.position_ids)
    return {side: padded.index_put(places, found[f"{side}_logits"].float()) for side in ("start", "end")}


def summed_cross_entropy(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Summed cross entropy of `logits`, weighted by class where classes have weights; the loop divides by their sum."""
    losses = cross_entropy(outputs["logits"].float(), batch.labels["labels"], reduction="none")
    return {"loss": (losses * batch.labels.get("weights", 1)).sum()}
