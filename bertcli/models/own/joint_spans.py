"""ELECTRA's head for answers: the end depends on the start, and an output says whether there is none (qa_tasks.py)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu, linear
from torch.nn.utils.rnn import pad_sequence
from transformers import ElectraConfig, ElectraModel, ElectraPreTrainedModel

from bertcli.data.packing.batches import PackedBatch
from bertcli.models.encoder import encode

# N sequences of the batch, S the longest, K starts that are followed, H hidden

BEAM, WIDTH = 20, 512  # starts that are followed in prediction; hidden units of the head
FORBIDDEN = 1000.0  # what is taken off the logits of places that are neither in the context nor [CLS]
ANSWERABLE_WEIGHT = 0.5  # of the loss of telling whether there is an answer


class ElectraForJointQuestionAnswering(ElectraPreTrainedModel):  # type: ignore[misc]
    """An ELECTRA, which `AutoModel` loads too, with the authors' head in the place of two logits a token."""

    reads_batches = True
    own_head = "has a head whose ends depend on starts"

    def __init__(self, config: ElectraConfig, span_head: str = "joint") -> None:
        config.span_head = span_head
        super().__init__(config)
        self.electra, hidden = ElectraModel(config), config.hidden_size
        self.qa_start, self.qa_hidden, self.qa_end = (
            nn.Linear(hidden, 1),
            nn.Linear(2 * hidden, WIDTH),
            nn.Linear(WIDTH, 1),
        )
        self.qa_none_hidden, self.qa_none = nn.Linear(2 * hidden, WIDTH), nn.Linear(WIDTH, 1)
        self.post_init()

    def forward(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Logits of starts, [N, S], of the ends of each start that is followed, [N, K, S], and of no answer, [N].

        Followed are the true starts of the batch, which training has, else the best ones, best first; then the logits are
        logarithms of probabilities.
        """
        sizes = list(batch.lengths)
        is_allowed = (batch.token_type_ids > 0) | (batch.position_ids == 0)
        columns = (encode(self, batch), is_allowed)
        states, allowed = (pad_sequence(list(torch.split(each, sizes)), True) for each in columns)  # [N, S, H], [N, S]
        off = FORBIDDEN * (allowed.float() - 1)  # [N, S]
        start = self.qa_start(states)[..., 0].float() + off
        pooled = (start.softmax(1)[:, None].to(states.dtype) @ states)[:, 0]  # [N, H]
        true = batch.labels.get("start_positions")
        start = start.log_softmax(1) if true is None else start
        followed = start.topk(min(BEAM, start.shape[1])).indices if true is None else true[:, None]  # [N, K]
        rows = torch.arange(len(states), device=states.device)[:, None]
        of_start, of_end = self.qa_hidden.weight.chunk(
            2, 1
        )  # of a product with both states, without putting them together
        hidden = (
            linear(states[rows, followed], of_start)[:, :, None] + linear(states, of_end, self.qa_hidden.bias)[:, None]
        )
        end = self.qa_end(gelu(hidden))[..., 0].float() + off[:, None]
        end = end.log_softmax(2) if true is None else end
        none = self.qa_none(gelu(self.qa_none_hidden(torch.cat([states[:, 0], pooled], 1))))[:, 0].float()
        return {"start": start, "end": end, "no_answer": none}


def joint_span_losses(outputs: dict[str, Tensor], batch: PackedBatch) -> Tensor:
    """The summed loss: half of the cross entropies of start and end, and half of that of whether there is no answer."""
    labels = batch.labels
    start = cross_entropy(outputs["start"], labels["start_positions"], reduction="sum")
    end = cross_entropy(outputs["end"][:, 0], labels["end_positions"], reduction="sum")
    none = binary_cross_entropy_with_logits(outputs["no_answer"], labels["is_impossible"], reduction="sum")
    return (start + end) / 2 + ANSWERABLE_WEIGHT * none
