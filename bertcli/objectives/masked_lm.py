"""Masked-LM: predict the original tokens at masked positions (BERT section 3.1, task 1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from bertcli.data.pretraining.instances import each_document
from bertcli.families import family_of
from bertcli.objectives.objective import Objective, Part

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances, Span
    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.objectives.objective import Targets


def runs_of_document(documents: list[Span], index: int, instances: Instances, draws: Draws) -> None:
    """Cut a document into instances of one text each, of whole segments if they fit."""
    bounds, rules = instances.corpus.bounds, instances.rules
    position, last = documents[index]
    target = rules.target_length(rules.max_seq_length - 2, draws)
    start = bounds[position]
    for segment in range(position, last):
        for piece in range(bounds[segment], bounds[segment + 1], target):  # a longer segment is cut
            end = min(piece + target, bounds[segment + 1])
            whole = bounds[segment + 1] if piece == bounds[segment] else end
            if piece > start and (whole - start > target or end - start > target):
                instances.add((start, piece), (piece, piece), False, draws)
                start = piece
    instances.add((start, bounds[last]), (start, start), False, draws)


def _targets(read: UnpackedRows) -> Targets:
    """The masks of the data, else masks drawn by (seed, step, row)."""
    from bertcli.data.pretraining.masking import mask_batch

    positions, originals = read.masks or mask_batch(read.input_ids, read.rows, read.lengths, read.rules, read.key)
    return {"masked_lm_positions": positions, "masked_lm_ids": originals}


def vocabulary_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The summed cross entropy of logits of the vocabulary, [R, V]."""
    from bertcli.models.cross_entropy import vocabulary_cross_entropy

    return vocabulary_cross_entropy(logits, labels)


def of_frequencies(share: float, manifest: Mapping[str, Any]) -> dict[str, float]:
    """The accuracy of the most frequent token, and the loss of predicting each token by its frequency."""
    entropy = {"token_entropy": manifest["token_entropy"]} if "token_entropy" in manifest else {}
    return {"most_frequent_token_accuracy": 100 * share, **entropy}


def _in_words(metrics: Mapping[str, float]) -> str:
    found, guess = metrics["masked_lm_accuracy"], metrics["most_frequent_token_accuracy"]
    return f"It finds {found:.1f} of 100 masked words (always guessing the most frequent one finds {guess:.1f})"


def verdict_on(loss_of: str, used: str, metrics: Mapping[str, float]) -> str:
    """Whether a run left the plateau on which a loss stays until attention works; `used`: which words it then uses."""
    if "token_entropy" not in metrics:
        return ""
    loss, entropy = metrics[f"{loss_of.lower().replace('-', '_')}_loss"], metrics["token_entropy"]
    far = "above" if loss > 1.05 * entropy else "about there"
    below, near = f"below it: the model uses the words {used}", f"{far}: it needs more steps"
    known = f"{loss_of} loss {loss:.2f}; knowing only how frequent each token is gives {entropy:.2f}."
    return f"{known} This run is {below if loss < 0.95 * entropy else near}."


MASKED_LM = Part(
    name="masked_lm",
    labels="masked_lm_ids",
    targets=_targets,
    rows=lambda batch: batch.labels["masked_lm_positions"],
    head=lambda model, hidden: family_of(model.config.model_type).predict_tokens(model, hidden),  # [M, V]
    loss=vocabulary_loss,
    guess=lambda manifest: int(manifest["most_frequent_token"]["id"]),
    baselines=of_frequencies,
    in_words=_in_words,
    predicts_tokens=True,
    verdict=partial(verdict_on, "Masked-LM", "around a mask"),
)


def has_heads(model: PreTrainedModel) -> bool:
    """Whether a model has BERT's heads for masked-LM and next-sentence prediction, and reads in both directions."""
    from bertcli.models.packed import is_causal

    return family_of(model.config.model_type).can_pretrain(model) and not is_causal(model)


RUNS = partial(each_document, runs_of_document)
MLM = Objective("mlm", (MASKED_LM,), RUNS, fits=has_heads, trains_every_weight=False)
