"""What each kind of task reads off the encoder, and the loss it trains on."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss
from transformers import PreTrainedModel

from bertcli.data.packing.batches import PackedBatch, send
from bertcli.models.cross_entropy import vocabulary_cross_entropy
from bertcli.models.encoder import encode, run_head
from bertcli.models.frozen import FrozenBertForTokenClassification
from bertcli.models.packed import prepare_layers

# T tokens of the batch, N sequences, M masked tokens, H hidden, V vocabulary, C labels or choices,
# E examples with choices, W words to tag, S the longest sequence

Outputs = dict[str, Tensor]
Head = Callable[[PreTrainedModel, PackedBatch], Outputs]
Losses = Callable[[Outputs, PackedBatch], Outputs]


def pretraining_outputs(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Vocabulary logits at the masked positions only, [M, V], and next-sentence logits, [N, 2]."""
    positions = batch.labels["masked_lm_positions"]
    hidden = encode(model, batch, torch.cat([positions, batch.first_tokens]))  # [M + N, H]
    masked, first = torch.split(hidden, [len(positions), len(batch.first_tokens)])
    pooled = model.base_model.pooler(first[:, None])  # [N, H]
    return {"masked_lm": model.cls.predictions(masked), "next_sentence": model.cls.seq_relationship(pooled)}


def fill_outputs(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Vocabulary logits at the masked positions only, [M, V], of any family's masked-LM head."""
    found = run_head(model, batch, batch.labels["masked_lm_positions"])
    return {"masked_lm": found["prediction_logits" if "prediction_logits" in found else "logits"]}


def classification_outputs(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Label logits, [N, C]."""
    return {"logits": run_head(model, batch, batch.first_tokens, pooled=True)["logits"]}


def choice_outputs(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Choice logits, [E, C]: a dot product of [CLS] with one learnt vector (BERT section 4.4)."""
    logits = run_head(model, batch, batch.first_tokens, pooled=True)["logits"][:, 0]  # [N]
    return {"logits": logits[batch.labels["choice_sequences"]]}


def tag_outputs(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Tag logits of each word, read off its first piece, [W, C] (BERT section 5.3)."""
    if isinstance(model, FrozenBertForTokenClassification):
        return {"logits": model(batch)}
    return {"logits": run_head(model, batch, batch.labels["word_positions"])["logits"]}


def span_outputs(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Start and end logits of every token, a row a sequence, [N, S]; what lies beyond a sequence is -inf."""
    found = run_head(model, batch)  # of [T]
    return {side: _unpack(found[f"{side}_logits"].float(), batch) for side in ("start", "end")}


def _unpack(values: Tensor, batch: PackedBatch) -> Tensor:
    rows = send(torch.repeat_interleave(torch.tensor(batch.lengths)), values.device)  # [T] which sequence each is of
    padded = values.new_full((len(batch.lengths), max(batch.lengths)), -torch.inf)
    return padded.index_put((rows, batch.position_ids), values)  # [N, S]


def pretraining_losses(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Summed cross entropies: over masked tokens, and over sequences."""
    next_sentence = batch.labels["next_sentence_labels"]
    return {
        **masked_lm_losses(outputs, batch),
        "next_sentence": cross_entropy(outputs["next_sentence"].float(), next_sentence, reduction="sum"),
    }


def masked_lm_losses(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """The masked-LM part alone, for data without next sentences."""
    return {"masked_lm": vocabulary_cross_entropy(outputs["masked_lm"], batch.labels["masked_lm_ids"])}


def classification_losses(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Summed cross entropy over sequences, examples with choices, or words; times the weight of the class where it has one.

    The loop divides the sum by that of the weights over the whole global batch: torch's weighted mean of it.
    """
    losses = cross_entropy(outputs["logits"].float(), batch.labels["labels"], reduction="none")
    return {"loss": (losses * batch.labels.get("weights", 1)).sum()}


def regression_losses(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Summed squared error over sequences."""
    return {"loss": mse_loss(outputs["logits"].float()[:, 0], batch.labels["labels"], reduction="sum")}


def multilabel_losses(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Binary cross entropy, the mean over labels summed over sequences."""
    logits = outputs["logits"].float()
    total = binary_cross_entropy_with_logits(logits, batch.labels["labels"], reduction="sum")
    return {"loss": total / logits.shape[1]}


def span_losses(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Half of the summed cross entropies of start and end (run_squad.py)."""
    start = cross_entropy(outputs["start"], batch.labels["start_positions"], reduction="sum")
    end = cross_entropy(outputs["end"], batch.labels["end_positions"], reduction="sum")
    return {"loss": (start + end) / 2}


HEADS: dict[str, tuple[Head, Losses]] = {
    "pretrain": (pretraining_outputs, pretraining_losses),
    "masked_lm": (pretraining_outputs, masked_lm_losses),
    "fill": (fill_outputs, masked_lm_losses),
    "classify": (classification_outputs, classification_losses),
    "regress": (classification_outputs, regression_losses),
    "multilabel": (classification_outputs, multilabel_losses),
    "choose": (choice_outputs, classification_losses),
    "tag": (tag_outputs, classification_losses),
    "span": (span_outputs, span_losses),
}


class Objective(nn.Module):
    """A model with its loss: a packed batch in, summed losses out. This is what Accelerate wraps."""

    def __init__(self, model: PreTrainedModel, kind: str) -> None:
        super().__init__()
        self.model = model
        self.kind = kind
        prepare_layers(model)

    def forward(self, batch: PackedBatch) -> Outputs:
        """The summed losses of a batch, by name; `batch.counts` says what to divide each by."""
        outputs, losses = HEADS[self.kind]
        return losses(outputs(self.model, batch), batch)

    @torch.no_grad()
    def outputs(self, batch: PackedBatch) -> Outputs:
        """What the head says, without a loss."""
        return HEADS[self.kind][0](self.model, batch)
