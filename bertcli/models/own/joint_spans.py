"""The authors' heads for answers of ELECTRA, ALBERT and XLNet: ends depend on starts, and an output says whether there is none."""

from typing import ClassVar

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu, linear
from torch.nn.utils.rnn import pad_sequence
from transformers.models.xlnet import modeling_xlnet as xlnet

from bertcli.data.packing.batches import PackedBatch
from bertcli.models.dropout import choose_rows
from bertcli.models.encoder import encode

# N sequences of the batch, S the longest, K starts that are followed, H hidden

WIDTH = 512  # hidden units of ELECTRA's head
ANSWERABLE_WEIGHT = 0.5  # of the loss of telling whether there is an answer


class JointSpans(transformers.PreTrainedModel):  # type: ignore[misc]
    """A model with such a head in the place of two logits a token."""

    reads_batches = True
    own_head = "has a head whose ends depend on starts"
    beam: ClassVar[int]  # starts that are followed in prediction, and ends of each
    allows_separator = False  # whether the last separator may be a start or an end, as the context and [CLS] may
    has_last_cls = False

    def _start_scores(self, states: Tensor) -> Tensor:
        """[N, S, H] to [N, S]."""
        raise NotImplementedError

    def _end_scores(self, starts: Tensor, states: Tensor) -> Tensor:
        """States of the starts that are followed, [N, K, H], and of all tokens, [N, S, H], to [N, K, S]."""
        raise NotImplementedError

    def _no_answer(self, pooled: Tensor, cls: Tensor) -> Tensor:
        """The mean state by the probabilities of starts, and that of [CLS], each [N, H], to logits, [N]."""
        raise NotImplementedError

    def _forbid(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Scores with those of places that are not allowed far below the others."""
        return scores.masked_fill(~allowed, -1e30)

    def _is_impossible(self, batch: PackedBatch, cls: Tensor) -> Tensor:
        """What the output for no answer learns: whether the answer is not in this window, [N]."""
        return (batch.labels["start_positions"] == cls).float()

    def forward(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Logits of starts, [N, S], of the ends of each start that is followed, [N, K, S], and of no answer, [N].

        In training it follows the true starts, else the best, best first, with logarithms of probabilities for logits.
        """
        sizes, device = list(batch.lengths), batch.input_ids.device
        columns = (encode(self, batch), batch.token_type_ids > 0)
        states, allowed = (pad_sequence(list(torch.split(each, sizes)), True) for each in columns)  # [N, S, H], [N, S]
        rows, last = torch.arange(len(sizes), device=device), torch.tensor(sizes, device=device) - 1
        cls = last if self.has_last_cls else torch.zeros_like(last)
        allowed[rows, last - int(self.has_last_cls)] &= self.allows_separator
        allowed[rows, cls] = True
        start = self._forbid(self._start_scores(states).float(), allowed)
        pooled = (start.softmax(1)[:, None].to(states.dtype) @ states)[:, 0]  # [N, H]
        true = batch.labels.get("start_positions")
        start = start.log_softmax(1) if true is None else start
        followed = start.topk(min(self.beam, start.shape[1])).indices if true is None else true[:, None]  # [N, K]
        end = self._forbid(self._end_scores(states[rows[:, None], followed], states).float(), allowed[:, None])
        end = end.log_softmax(2) if true is None else end
        choose_rows(self, batch.first_tokens + cls)
        found = {"start": start, "end": end, "no_answer": self._no_answer(pooled, states[rows, cls]).float()}
        return found if true is None else {**found, "is_impossible": self._is_impossible(batch, cls)}


def joint_span_losses(outputs: dict[str, Tensor], batch: PackedBatch) -> Tensor:
    """The summed loss: half of the cross entropies of start and end, and half of that of whether there is no answer."""
    labels = batch.labels
    start = cross_entropy(outputs["start"], labels["start_positions"], reduction="sum")
    end = cross_entropy(outputs["end"][:, 0], labels["end_positions"], reduction="sum")
    none = binary_cross_entropy_with_logits(outputs["no_answer"], outputs["is_impossible"], reduction="sum")
    return (start + end) / 2 + ANSWERABLE_WEIGHT * none


def _pairs(layer: nn.Linear, first: Tensor, second: Tensor) -> Tensor:
    """A product with [N, K, H] and [N, S, H] joined for each pair, without putting them together. To [N, K, S, units]."""
    weight = layer.weight.to_dense() if layer.weight.is_mkldnn else layer.weight  # it is prepacked for prediction
    of_first, of_second = weight.chunk(2, 1)
    return linear(first, of_first)[:, :, None] + linear(second, of_second, layer.bias)[:, None]


class ElectraForJointQuestionAnswering(JointSpans, transformers.ElectraPreTrainedModel):  # type: ignore[misc]
    """An ELECTRA, which `AutoModel` loads too, with the head of qa_tasks.py."""

    beam = 20
    allows_separator = True

    def __init__(self, config: transformers.ElectraConfig, span_head: str = "joint") -> None:
        config.span_head = span_head
        super().__init__(config)
        self.electra, hidden = transformers.ElectraModel(config), config.hidden_size
        self.qa_start = nn.Linear(hidden, 1)
        self.qa_hidden = nn.Linear(2 * hidden, WIDTH)
        self.qa_end = nn.Linear(WIDTH, 1)
        self.qa_none_hidden, self.qa_none = nn.Linear(2 * hidden, WIDTH), nn.Linear(WIDTH, 1)
        self.post_init()

    def _start_scores(self, states: Tensor) -> Tensor:
        return self.qa_start(states)[..., 0]  # type: ignore[no-any-return]

    def _end_scores(self, starts: Tensor, states: Tensor) -> Tensor:
        return self.qa_end(gelu(_pairs(self.qa_hidden, starts, states)))[..., 0]  # type: ignore[no-any-return]

    def _no_answer(self, pooled: Tensor, cls: Tensor) -> Tensor:
        return self.qa_none(gelu(self.qa_none_hidden(torch.cat([cls, pooled], 1))))[:, 0]  # type: ignore[no-any-return]

    def _forbid(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores + 1000.0 * (allowed.float() - 1)

    def _is_impossible(self, batch: PackedBatch, cls: Tensor) -> Tensor:
        return batch.labels["is_impossible"]  # of the question, whichever window has the answer


class _BeamHead(JointSpans):
    """The head that XLNet's run_squad.py and ALBERT's squad_utils.py share; transformers has its three parts."""

    beam = 5
    start_logits: xlnet.XLNetPoolerStartLogits
    end_logits: xlnet.XLNetPoolerEndLogits
    answer_class: xlnet.XLNetPoolerAnswerClass
    none_dropout: nn.Dropout

    def _start_scores(self, states: Tensor) -> Tensor:
        return self.start_logits(states)  # type: ignore[no-any-return]

    def _end_scores(self, starts: Tensor, states: Tensor) -> Tensor:
        head = self.end_logits
        hidden = _pairs(head.dense_0, states, starts).transpose(1, 2)  # the product has the states first
        return head.dense_1(head.LayerNorm(head.activation(hidden)))[..., 0]  # type: ignore[no-any-return]

    def _no_answer(self, pooled: Tensor, cls: Tensor) -> Tensor:
        head = self.answer_class
        hidden = self.none_dropout(head.activation(head.dense_0(torch.cat([pooled, cls], 1))))
        return head.dense_1(hidden)[:, 0]  # type: ignore[no-any-return]


class AlbertForJointQuestionAnswering(_BeamHead, transformers.AlbertPreTrainedModel):  # type: ignore[misc]
    """An ALBERT, which `AutoModel` loads too, with the head of create_v2_model."""

    def __init__(self, config: transformers.AlbertConfig, span_head: str = "joint") -> None:
        config.span_head = span_head
        super().__init__(config)
        self.albert = transformers.AlbertModel(config, add_pooling_layer=False)
        self.start_logits, self.end_logits = xlnet.XLNetPoolerStartLogits(config), xlnet.XLNetPoolerEndLogits(config)
        self.answer_class = xlnet.XLNetPoolerAnswerClass(config)
        self.none_dropout = nn.Dropout(config.classifier_dropout_prob)
        self.post_init()


class XLNetForJointQuestionAnswering(_BeamHead, transformers.XLNetForQuestionAnswering):  # type: ignore[misc]
    """An XLNet with the authors' head, which transformers opens as `XLNetForQuestionAnswering`."""

    has_last_cls = True

    def __init__(self, config: transformers.XLNetConfig, span_head: str = "joint") -> None:
        config.span_head = span_head
        super().__init__(config)
        self.none_dropout = nn.Dropout(config.dropout)


CLASSES = {"electra": ElectraForJointQuestionAnswering, "albert": AlbertForJointQuestionAnswering}
CLASSES |= {"xlnet": XLNetForJointQuestionAnswering}
