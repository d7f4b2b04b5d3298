"""ELECTRA (Clark et al. 2020), whose embeddings are narrower than its layers, trained with a small generator beside it."""

from bisect import bisect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bertcli.families.family import GENERATOR_SETTINGS, MULTIPLIED, Family, ModelSize, OptimizerRules

PAPER = "Clark et al. 2020, table 6"
LIKE_SMALL = "as small of Clark et al. 2020, in the sizes of Turc et al. 2019"
SIZES = {
    "tiny": ModelSize(2, 128, 2, LIKE_SMALL),
    "mini": ModelSize(4, 256, 4, LIKE_SMALL),
    "small": ModelSize(12, 256, 4, PAPER),
    "medium": ModelSize(8, 512, 8, LIKE_SMALL),
    "base": ModelSize(12, 768, 12, PAPER),
    "large": ModelSize(24, 1024, 16, PAPER),
}
WIDE = 768  # hidden units of base, from which on embeddings are as wide as the layers
SHARES = {WIDE: 1 / 3}  # by hidden units: how wide a generator is beside its model; 1 / 4 for others
EPOCHS = {"glue/rte": 10.0, "glue/stsb": 10.0, "squad": 2.0, "squad_v2": 2.0}  # of fine-tuning, where these are not 3
JOINT_HEAD = ("qa_start", "qa_hidden", "qa_end", "qa_none_hidden", "qa_none")  # of models/own/joint_spans.py
HEAD = 64  # hidden units of an attention head of the generator


def generator_settings(size: ModelSize, width: float | None = None) -> dict[str, int]:
    """The settings of a generator by its share of a model's hidden units (get_generator_config)."""
    own = max(1, round(size.hidden * (width or SHARES.get(size.hidden, 1 / 4))))
    heads = next(number for number in range(max(1, own // HEAD), 0, -1) if own % number == 0)
    return ModelSize(size.layers, own, heads).settings


def _settings(size: ModelSize) -> dict[str, Any]:
    """The settings of modeling.py: GELU itself, LayerNorm with an epsilon of 1e-12; the generator's settings are those that differ."""
    embeddings = size.hidden if size.hidden >= WIDE else max(1, size.hidden // 2)
    layers = {**size.settings, "hidden_act": "gelu", "layer_norm_eps": 1e-12}
    return {**layers, "embedding_size": embeddings, GENERATOR_SETTINGS: generator_settings(size)}


def _most_masked(options: Any) -> int:
    """The maximum number of masked tokens of an instance, by its length."""
    return max(1, int((options.masked_lm_prob + 0.005) * options.max_seq_length))


def _by_width(*values: float) -> Callable[[Any], float]:
    """A default for models narrower than base, for base, and for wider ones."""
    return lambda options: values[bisect((WIDE, WIDE + 1), options.model_size.hidden)]


DATA = {"masking": "dynamic", "mask_shares": "85,15,0", "max_predictions_per_seq": _most_masked, "dupe_factor": 1}
DATA |= {"next_sentence": False, "short_seq_prob": 0.05}
ELECTRA = Family(
    "ELECTRA",
    ("electra",),
    is_packed=True,
    sizes=SIZES,
    settings=_settings,
    generator=generator_settings,
    predict_tokens=lambda model, hidden: model.generator_lm_head(model.generator_predictions(hidden)),
    glorot=("embeddings_project", "dense_prediction", "classifier", "qa_outputs", *JOINT_HEAD),
    has_joint_spans=True,
    objectives=("replaced-tokens",),
    data_defaults=DATA,
    training_defaults={"batch_size": _by_width(128, 256, 2048), "learning_rate": _by_width(5e-4, 2e-4, 2e-4)},
    optimizer=OptimizerRules(schedule=MULTIPLIED),
    finetuning=OptimizerRules(schedule=MULTIPLIED, sums_losses=True),
    layer_decay=lambda hidden: 0.9 if hidden > WIDE else 0.8,
    finetuning_rates={256: 3e-4, 768: 1e-4, 1024: 5e-5},  # that of small is the paper's
    # As configure_finetuning.py has it.
    for_task=lambda task: replace(task, batch_size=32, epochs=EPOCHS.get(task.name, task.epochs)),
)
