"""Next-sentence prediction: does text B follow text A? (BERT section 3.1, task 2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from bertcli.data.pretraining.draws import HEADS, Draws
from bertcli.data.pretraining.instances import each_document
from bertcli.families import family_of
from bertcli.objectives.masked_lm import MASKED_LM, has_heads
from bertcli.objectives.objective import Objective, Part

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.pretraining.instances import Instances, Span


def pairs_of_document(
    documents: list[Span], index: int, instances: Instances, draws: Draws, swaps: bool = False
) -> None:
    """Cut a document into pairs A, B as create_pretraining_data.py does: B follows A, or is from a random document.

    With `swaps`, as ALBERT's does: B follows A, or A follows B.
    """
    bounds, rules = instances.corpus.bounds, instances.rules
    (position, last), longest = documents[index], rules.max_seq_length - 3
    target = rules.target_length(longest, draws)
    while position < last:
        # A chunk: segments until the target is reached, or the document ends.
        chunk_end = bisect_left(bounds, bounds[position] + target, position + 1, last)
        segments = chunk_end - position
        a_end = position + (draws.randint(1, segments - 1) if segments >= 2 else 1)
        first = bounds[position], bounds[a_end]
        # A chunk of one segment has nothing left to follow it: always random, and no draw.
        is_negative = segments == 1 or draws.random() < 0.5
        if segments == 1 or (is_negative and not swaps):
            second = random_segments(documents, index, target - (first[1] - first[0]), bounds, draws)
            position = a_end  # the unused half starts the next chunk
        else:
            second = bounds[a_end], bounds[chunk_end]
            position = chunk_end
            if is_negative:
                first, second = second, first
        instances.add(*truncate_pair(first, second, longest, draws), is_negative, draws)


def random_segments(documents: list[Span], index: int, target: int, bounds: list[int], draws: Draws) -> Span:
    """Segments from a random place of another document (after ten tries: of the same) until `target` tokens."""
    for _ in range(10):
        if (other := draws.randint(0, len(documents) - 1)) != index:
            break
    start, last = documents[other]
    segment = draws.randint(start, last - 1)
    return bounds[segment], bounds[bisect_left(bounds, bounds[segment] + target, segment + 1, last)]


def truncate_pair(first: Span, second: Span, longest: int, draws: Draws) -> tuple[Span, Span]:
    """Drop tokens of the longer span (of two equally long ones, the second) at a random end until both fit.

    The random ends are drawn at once: first for the longer span until both are equally long, then for both in turn.
    """
    length_a, length_b = first[1] - first[0], second[1] - second[0]
    excess = length_a + length_b - longest
    if excess <= 0:
        return first, second
    at_front = draws.coins(excess)
    if length_a > length_b:
        alone = min(excess, length_a - length_b)
        coins_a, coins_b = at_front[:alone] + at_front[alone + 1 :: 2], at_front[alone::2]
    else:
        alone = min(excess, length_b - length_a + 1)
        coins_a, coins_b = at_front[alone::2], at_front[:alone] + at_front[alone + 1 :: 2]
    return _cut(first, coins_a), _cut(second, coins_b)


def _cut(span: Span, at_front: bytes) -> Span:
    front = at_front.count(HEADS)
    return span[0] + front, span[1] - len(at_front) + front


def pair_logits(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """The logits of the head for pairs, [N, 2], of the hidden states of the first tokens, [N, H]."""
    return cast("Tensor", family_of(model.config.model_type).predict_pair(model, hidden[:, None]))


def has_pair_head(model: PreTrainedModel) -> bool:
    """Whether a model has heads for masked-LM and for pairs of texts."""
    return has_heads(model) and family_of(model.config.model_type).has_pair_head


def pair_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The summed cross entropy of logits, [N, 2]."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits.float(), labels, reduction="sum")


def _in_words(metrics: Mapping[str, float]) -> str:
    right, guess = metrics["next_sentence_accuracy"], metrics["majority_next_sentence_accuracy"]
    return f"tells for {right:.1f} of 100 pairs of texts whether the second follows the first (guessing: {guess:.1f})"


NEXT_SENTENCE = Part(
    name="next_sentence",
    labels="next_sentence_labels",
    targets=lambda read: {"next_sentence_labels": read.next_sentence_labels},
    rows=lambda batch: batch.first_tokens,
    head=pair_logits,
    loss=pair_loss,
    guess=lambda manifest: 1,
    in_words=_in_words,
    baselines=lambda share, manifest: {"majority_next_sentence_accuracy": 100 * max(share, 1 - share)},
)
PAIRS = partial(each_document, pairs_of_document)
MLM_AND_NSP = Objective("mlm+nsp", (MASKED_LM, NEXT_SENTENCE), PAIRS, needs_pairs=True, fits=has_pair_head)
