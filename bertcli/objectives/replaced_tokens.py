"""Replaced-token detection: a small generator fills masks, the model tells which tokens it replaced (ELECTRA)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.objectives.masked_lm import MASKED_LM
from bertcli.objectives.objective import Objective, Part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.packing.batches import PackedBatch
    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances
    from bertcli.data.pretraining.masking import MaskingRules
    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.models.model_with_loss import Detector
    from bertcli.objectives.objective import Targets

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

SINGLE = 0.1  # the share of instances whose lines are all of the first text
WEIGHT = 50.0  # of the loss of the discriminator, beside that of the generator
ENDLESS = 100_000  # tokens of a first text that takes all lines
SHORTEST = 5  # tokens of an instance that is made short

# T tokens of the batch, M draws of masked tokens, H hidden, V vocabulary


def whole_lines(instances: Instances, draws: Draws) -> list[int]:
    """Cut documents into instances of whole lines, draw for draw as build_pretraining_dataset.py does; return their order.

    Lines are gathered until they have as many tokens as wanted, special ones not counted; what is too long is lost. How many
    are wanted is drawn after each instance for the next one, be it of another document.
    """
    corpus, rules = instances.corpus, instances.rules
    wanted = longest = rules.max_seq_length
    for start, last in corpus.documents * rules.dupe_factor:
        lines: list[list[int]] = []
        for line in range(start, last):
            lines.append(corpus.tokens[corpus.bounds[line] : corpus.bounds[line + 1]].tolist())
            if sum(map(len, lines)) >= wanted or line + 1 == last:
                texts = _two_texts(lines, wanted, draws)
                lines, is_short = [], draws.random() < rules.short_seq_prob
                wanted = draws.randint(SHORTEST, longest) if is_short else longest
                _add(*texts, instances, draws)
    return list(range(len(instances.next_sentence_labels)))


def _two_texts(lines: list[list[int]], wanted: int, draws: Draws) -> tuple[list[int], list[int]]:
    """Deal lines to two texts: to the first until it has half of the tokens, and sometimes one line more."""
    half = ENDLESS if draws.random() < SINGLE else (wanted - 3) // 2
    first: list[int] = []
    second: list[int] = []
    for line in lines:
        fits = not first or len(first) + len(line) < half
        is_first = fits or (not second and len(first) < half and draws.random() < 0.5)
        (first if is_first else second).extend(line)
    return first, second


def _add(first: list[int], second: list[int], instances: Instances, draws: Draws) -> None:
    """Add an instance of two texts, or of one, each cut at its end to what fits."""
    rules, (before, between, after) = instances.rules, instances.rules.layout.tokens
    room = rules.max_seq_length - len(before) - len(after)
    given = len(first) + len(second)
    first = first[:room]
    second = second[: max(0, room - len(first) - len(between))]
    instances.cut_tokens += given - len(first) - len(second)
    one = [*before, *first, *(between if second else after)]
    other = [*second, *after] if second else []
    ids, types = [*one, *other], [0] * len(one) + [rules.layout.second_type] * len(other)
    is_static, masking = rules.static_masking, rules.masking
    masks = rules.draw_masks(len(ids), len(one), ids, masking, draws) if is_static else ([], [])
    instances.add_tokens(ids, types, 0, masks)


def _targets(read: UnpackedRows) -> Targets:
    """The masks and, for each, the number in [0, 1) by which the generator's token is drawn; functions of (seed, step, row)."""
    from bertcli.data.pretraining.masking import mask_batch

    mask = mask_batch if read.rules.reads_words else mask_with_repeats
    positions, originals = read.masks or mask(read.input_ids, read.rows, read.lengths, read.rules, read.key)
    return with_draws(read, {"masked_lm_positions": positions, "masked_lm_ids": originals})


def with_draws(read: UnpackedRows, masks: Targets) -> Targets:
    """Masks with a number in [0, 1) for each, a function of (seed, step, row)."""
    import numpy as np

    from bertcli.data.packing.keyed import uniform

    positions, ends = masks["masked_lm_positions"], np.cumsum(read.lengths)
    row = np.searchsorted(ends, positions, side="right")
    place = positions - (ends - read.lengths)[row]
    draws = uniform(read.key + 3, read.rows[row], place, np.arange(len(positions)) - np.searchsorted(row, row))
    return {**masks, "sample_draws": draws}  # type: ignore[dict-item]


def mask_with_repeats(ids: Ints, rows: Ints, lengths: Ints, rules: MaskingRules, key: int) -> tuple[Ints, Ints]:
    """Mask a packed batch by the rules of pretrain_helpers.py: places are drawn with replacement, so that some repeat.

    [CLS], [SEP] and [MASK] are never drawn. A place that repeats counts twice in the loss, and is [MASK] if one of its
    draws says so. `ids`, [T], change in place; masks depend on `key` and the row alone.
    Returns the positions, a sequence after another, [M], and their original ids, [M].
    """
    import numpy as np

    from bertcli.data.packing.keyed import uniform

    sequence = np.repeat(np.arange(len(lengths)), lengths)  # [T]
    free = np.flatnonzero(~np.isin(ids, (rules.cls_id, rules.sep_id, rules.mask_id)))
    counts = np.bincount(sequence[free], minlength=len(lengths))
    share = np.round(lengths.astype(np.float32) * np.float32(rules.masked_lm_prob))  # in float32, as TensorFlow
    wanted = np.clip(share, 1, rules.max_predictions_per_seq).astype(np.int64) * (counts > 0)
    owner = np.repeat(np.arange(len(lengths)), wanted)  # [M]
    number = np.arange(len(owner)) - (np.cumsum(wanted) - wanted)[owner]
    chosen = (uniform(key, rows[owner], number) * counts[owner]).astype(np.int64)
    positions = free[(np.cumsum(counts) - counts)[owner] + chosen]
    originals = ids[positions].copy()
    put_masks(ids, positions, rules, *(uniform(key + step, rows[owner], number) for step in (1, 2)))
    return positions, originals


def put_masks(ids: Ints, positions: Ints, rules: MaskingRules, draw: Floats, other: Floats) -> None:
    """Change the ids at positions, [M], in place, by draws of [0, 1), [M]: the first says what becomes of each.

    The share that stays the same leaves a position as it is, also where it repeats; the second draws a random token.
    """
    import numpy as np

    mask, same, _ = rules.shares
    vocabulary = np.asarray(rules.vocab_ids)
    new = np.where(draw < mask / 100, rules.mask_id, vocabulary[(other * len(vocabulary)).astype(np.int64)])
    changed = draw < (100 - same) / 100
    ids[positions[changed]] = new[changed]


def _detect(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits of being an original and of being replaced, [T, 2]; the first are 0."""
    from torch.nn.functional import pad

    return pad(model.discriminator_predictions(hidden)[:, None], (1, 0))


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    from torch.nn.functional import binary_cross_entropy_with_logits

    return binary_cross_entropy_with_logits(logits[:, 1].float(), labels.float(), reduction="sum")


def _in_words(metrics: Mapping[str, float]) -> str:
    found, guess = metrics["replaced_tokens_accuracy"], metrics["all_original_accuracy"]
    return f"tells of {found:.1f} of 100 tokens whether the generator replaced them (always saying no: {guess:.1f})"


REPLACED_TOKENS = Part(
    name="replaced_tokens",
    labels="is_replaced",
    targets=lambda read: {},
    rows=lambda batch: batch.first_tokens,
    head=_detect,
    loss=_loss,
    guess=lambda manifest: 0,
    baselines=lambda share, manifest: {"all_original_accuracy": 100 * share},
    in_words=_in_words,
)


def share_embeddings(model: PreTrainedModel, generator: PreTrainedModel) -> None:
    """Have a generator use the embeddings of a model: of tokens, positions and types, and their LayerNorm."""
    generator.base_model.embeddings = model.base_model.embeddings
    generator.get_output_embeddings().weight = generator.get_input_embeddings().weight


@dataclass(frozen=True)
class Detection(Objective):
    """A generator learns masked-LM; the model learns which of its samples, in the places of masks, are not the original."""

    weight: float = WEIGHT
    temperature: float = 1.0  # of the samples
    never_right: bool = False  # whether the original token is never sampled
    share: Callable[[PreTrainedModel, PreTrainedModel], None] = share_embeddings

    def with_loss(self, model: PreTrainedModel) -> Detector:
        """The model with its generator, which is beside the model that it was made from, or has new weights."""
        from bertcli.models.loading import build_generator, load_generator
        from bertcli.models.model_with_loss import Detector

        kept = load_generator(model.name_or_path)
        generator = kept or build_generator(model)
        self.share(model, generator)
        own, origin = generator.config, f", from {kept.name_or_path}" if kept else ""
        say(f"generator: {own.num_hidden_layers} layers, hidden size {own.hidden_size}{origin}")
        return Detector(model, generator, self.outputs, self.losses)

    def outputs(self, model: Any, batch: PackedBatch) -> dict[str, Tensor]:
        """The logits of both parts of a Detector, [M, V] and [T, 2], and which tokens are replaced, [T]."""
        from bertcli.models.encoder import encode
        from bertcli.models.own.samples import put_samples, sample

        generated, detected = self.parts
        positions, originals = batch.labels["masked_lm_positions"], batch.labels["masked_lm_ids"]
        logits = generated.head(model.generator, encode(model.generator, batch, positions))
        never = originals if self.never_right else None
        samples = sample(logits.detach(), batch.labels["sample_draws"], self.temperature, never)
        original = batch.input_ids.index_copy(0, positions, originals)
        ids = put_samples(original, positions, samples)
        hidden = self.states(model.model, replace(batch, input_ids=ids))
        found = {generated.name: logits, detected.name: detected.head(model.model, hidden)}
        return found | {detected.labels: (ids != original).long()}

    def states(self, model: PreTrainedModel, batch: PackedBatch) -> Tensor:
        """The hidden states that the head for replaced tokens reads, [T, H]."""
        from bertcli.models.encoder import encode

        return encode(model, batch)

    def losses(self, outputs: dict[str, Tensor], batch: PackedBatch) -> dict[str, Tensor]:
        """The summed loss of each part, that of the discriminator with its weight."""
        generated, detected = super().losses(outputs, batch).items()
        return dict([generated, (detected[0], self.weight * detected[1])])


PARTS = (replace(MASKED_LM, targets=_targets), REPLACED_TOKENS)
DETECTION = Detection(
    "replaced-tokens", PARTS, whole_lines, fits=lambda model: hasattr(model, "discriminator_predictions")
)
