"""What heads read of the encoder, and losses that several kinds of task share."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding_bag, one_hot
from transformers import BertConfig, BertModel, BertPreTrainedModel, PreTrainedModel

from bertcli.data.labelled.own_labels import Unit
from bertcli.data.packing.batches import PackedBatch, send
from bertcli.models.dropout import choose_rows
from bertcli.models.encoder import encode, run_head
from bertcli.models.model_with_loss import Outputs
from bertcli.models.own.bilstm import has_bilstm
from bertcli.models.own.two_streams import has_two_streams, predict_alone
from bertcli.models.packed import is_causal, is_joined, reads_last

# N sequences of the batch, E texts, M masked tokens, H hidden, V vocabulary, C labels, W words to tag, S the longest


class MeanPooledBertForSequenceClassification(BertPreTrainedModel):  # type: ignore[misc]
    """A BERT, which `AutoModel` loads too, and a linear head on the mean of its last hidden states, as in sentence-transformers."""

    reads_batches = True

    def __init__(self, config: BertConfig, classifier_pooling: str = "mean") -> None:
        config.classifier_pooling = classifier_pooling
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, batch: PackedBatch) -> Tensor:
        """Logits of each sequence, [N, C]."""
        states = self.pooled(batch).to(self.classifier.weight.dtype)
        choose_rows(self, batch.first_tokens)
        return cast(Tensor, self.classifier(self.dropout(states)))

    def forward_padded(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Outputs:
        """The same of padded columns, [N, S] each, for programs that do not pack."""
        hidden = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state  # [N, S, H]
        mask = attention_mask[:, :, None].to(hidden.dtype)
        return {"logits": self.classifier((hidden * mask).sum(1) / mask.sum(1))}

    def pooled(self, batch: PackedBatch) -> Tensor:
        """The mean of the hidden states of each sequence, [N, H], in float32."""
        return _means(self, batch)


def _means(model: PreTrainedModel, batch: PackedBatch) -> Tensor:
    return means_of(encode(model, batch), batch.lengths)


def means_of(hidden: Tensor, of_sequences: Sequence[int]) -> Tensor:
    """The mean of the states of each sequence, [N, H], in float32, of states end to end, [T, H], and their lengths."""
    ends = send(torch.tensor([0, *of_sequences]).cumsum(0), hidden.device)
    tokens = torch.arange(len(hidden), device=hidden.device)
    # Unlike index_add, this sums in the same order each time, on a GPU too.
    return embedding_bag(tokens, hidden.float(), ends, mode="mean", include_last_offset=True)


def learn_around_zero(model: nn.Module, unit: Unit | None) -> None:
    """Have a head that gives values in a unit give numbers around 0."""
    if unit:
        answer_in(Unit(unit.around_zero(0.0), 1 / unit.deviation), model)


@contextmanager
def in_unit(model: nn.Module, unit: Unit | None) -> Iterator[None]:
    """Have a head that gives numbers around 0 give values in a unit until this ends."""
    kept = copy.deepcopy(_last_linear(model).state_dict()) if unit else {}
    if unit:
        answer_in(unit, model)
    try:
        yield
    finally:
        if unit:
            _last_linear(model).load_state_dict(kept)


@torch.no_grad()
def answer_in(unit: Unit, model: nn.Module) -> None:
    """Have a head that gives numbers around 0 give values in a unit."""
    head = _last_linear(model)
    head.weight *= unit.deviation
    head.bias.mul_(unit.deviation).add_(unit.mean)


def _last_linear(model: nn.Module) -> nn.Linear:
    return [each for each in model.modules() if isinstance(each, nn.Linear)][-1]


def mean_states(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """The mean of the last hidden states of each sequence, [N, H], or text, [E, H], in float32."""
    return {"states": of_texts(_means(model, batch), batch)}


def of_texts(outputs: Tensor, batch: PackedBatch) -> Tensor:
    """The outputs of each text, [E, ...]: of texts in windows the means, weighted by tokens; else unchanged."""
    if "window_texts" not in batch.labels:
        return outputs
    shares = one_hot(batch.labels["window_texts"], len(batch.rows)) * batch.labels["window_shares"][:, None]  # [N, E]
    return shares.T @ outputs.float()  # sums in a fixed order too


def _reads_batches(model: PreTrainedModel) -> bool:
    """Whether a model is a class of ours, which takes a packed batch and returns logits."""
    return getattr(model, "reads_batches", False)


def own_head(model: PreTrainedModel) -> str:
    """What a model has between its encoder and its outputs that no class of transformers has, in words; else nothing."""
    if has_bilstm(model):
        return "has a BiLSTM between its encoder and its head"
    if getattr(model.base_model, "decodes_masks", False):
        return "reads masks by DeBERTa's enhanced mask decoder"
    if has_two_streams(model) and hasattr(model, "lm_loss"):
        return "reads masks by XLNet's second stream"
    if is_joined(model):
        return "joins two encoders, one from left to right and one from right to left"
    if _reads_batches(model) and not hasattr(model, "forward_padded"):
        return getattr(model, "own_head", "has a BiLSTM on frozen features")
    pools = any(name in type(model).__name__ for name in ("SequenceClassification", "MultipleChoice"))
    return "reads from left to right, and its head the last token" if pools and is_causal(model) else ""


def masked_lm_logits(model: PreTrainedModel, batch: PackedBatch) -> Tensor:
    """Vocabulary logits at the masked positions only, [M, V], of any family's masked-LM head."""
    positions = batch.labels["masked_lm_positions"]
    if has_two_streams(model):
        return cast(Tensor, model.lm_loss(predict_alone(model, batch, positions)))
    found = run_head(model, batch, positions)
    return cast(Tensor, found["prediction_logits" if "prediction_logits" in found else "logits"])


def sequence_logits(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Logits of each sequence, [N, C], or text, [E, C]."""
    if _reads_batches(model):
        return {"logits": of_texts(model(batch), batch)}
    rows = batch.last_tokens if reads_last(model) else batch.first_tokens  # [N] the one that sees all of its sequence
    return {"logits": of_texts(run_head(model, batch, rows, pooled=True)["logits"], batch)}


def word_logits(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Logits of each word, read off its first piece, [W, C]."""
    if _reads_batches(model):
        return {"logits": model(batch)}
    return {"logits": run_head(model, batch, batch.labels["word_positions"])["logits"]}


def span_logits(model: PreTrainedModel, batch: PackedBatch) -> Outputs:
    """Start and end logits of every token, a row a sequence, [N, S]; -inf beyond the end of a sequence."""
    found = run_head(model, batch)  # [T] each
    rows = send(torch.repeat_interleave(torch.tensor(batch.lengths)), batch.input_ids.device)  # [T] sequences
    padded = torch.full((len(batch.lengths), max(batch.lengths)), -torch.inf, device=rows.device)
    places = (rows, batch.position_ids)
    return {side: padded.index_put(places, found[f"{side}_logits"].float()) for side in ("start", "end")}


def summed_cross_entropy(outputs: Outputs, batch: PackedBatch) -> Outputs:
    """Summed cross entropy of `logits`, weighted by class where classes have weights; the loop divides by their sum."""
    losses = cross_entropy(outputs["logits"].float(), batch.labels["labels"], reduction="none")
    return {"loss": (losses * batch.labels.get("weights", 1)).sum()}
