"""Options of `bert distill`."""

from dataclasses import dataclass

from bertcli.config.options import option
from bertcli.config.training import DATA_CACHE, FLOPS, FinetuneConfig

TARGETS = (LOGITS, HIDDEN, VECTORS) = ("logits", "hidden", "sentence-vectors")
SHAPES = (DISTILBERT_SHAPE, TEACHER_SHAPE) = ("distilbert", "teacher")
POSITIONS = (ALL, MASKED) = ("all", "masked")
TEXTS = (MASKED_TEXT, WHOLE_TEXT) = ("masked", "whole")
# Options that belong to distillation at pre-training, or to distillation at a task.
AT_PRETRAINING = {"data", "data_cache_gb", "eval_data", "steps", "flops", "warmup_steps", "dropout", "shape"}
AT_PRETRAINING |= {"vocab_from_text", "vocab_size", "soft_targets", "teacher_reads", "mask_smoothing"}
AT_PRETRAINING |= {"masked_lm_weight", "mse_weight"}
TARGETS_HELP = "What the student learns of the teacher: logits, hidden (last states), sentence-vectors (their means)."
WEIGHT = "Weight of the soft targets; default: 5 at pre-training, 0.5 at a task."
SHAPE = "Shape of a student made of the teacher's layers: distilbert or teacher; default: distilbert for a BERT."
TEACHER_LAYERS = "The layers of the teacher by their numbers, from 0, in place of --layers: 0,1,4,5."
SMOOTHING = "At pre-training: mask rare tokens more often, with weight frequency^-VALUE; the authors' VALUE is 0.7."
VOCAB = "Train on these texts, with a vocabulary cut to the teacher's tokens that occur in them; makes the data."


@dataclass(kw_only=True)
class DistillConfig(FinetuneConfig):
    """Options of `bert distill`; those of fine-tuning are for distillation at a task."""

    teacher: str = option("", "Run, folder or Hub name of the teacher.")
    layers: int | None = option(None, "Layers of the teacher that the student starts from; default: half.", minimum=1)
    teacher_layers: str | None = option(None, TEACHER_LAYERS)
    shape: str | None = option(None, SHAPE, choices=SHAPES)
    targets: list[str] = option([], f"{TARGETS_HELP} Default: logits; at pre-training also hidden.", nargs="+")
    temperature: float = option(2.0, "Temperature of the logits.", minimum=0.01)
    soft_weight: float | None = option(None, WEIGHT, minimum=0)
    hidden_weight: float = option(1.0, "Weight of the cosine distance of hidden states.", minimum=0)
    vector_weight: float = option(1.0, "Weight of the cosine distance of sentence vectors.", minimum=0)
    label_weight: float = option(0.5, "At a task: weight of the loss on the true labels.", minimum=0)
    masked_lm_weight: float = option(2.0, "At pre-training: weight of masked-LM.", minimum=0)
    mask_smoothing: float = option(0.0, SMOOTHING, minimum=0, maximum=2)
    mse_weight: float = option(0.0, "At pre-training: weight of the squared difference of logits.", minimum=0)
    soft_targets: str = option(ALL, "At pre-training: tokens whose logits are learnt: {choices}.", choices=POSITIONS)
    teacher_reads: str | None = option(
        None, "At pre-training: the masked text or the whole one; default: masked with logits.", choices=TEXTS
    )
    unlabelled: list[str] = option([], "At a task: files of more texts, for which only the teacher answers.", nargs="+")
    data: str | None = option(None, "Pre-training data, a folder or a URL; default: the latest in this folder.")
    data_cache_gb: float = option(20.0, DATA_CACHE, minimum=0)
    eval_data: str | None = option(None, "Held-out pre-training data for evaluation; default: part of --data.")
    steps: int | None = option(None, "At pre-training: number of steps; default: three epochs.", minimum=1)
    flops: float | None = option(None, f"At pre-training: {FLOPS[0].lower()}{FLOPS[1:]}", minimum=1)
    warmup_steps: int | None = option(None, "At pre-training: warm-up steps; default: 5 % of all.", minimum=0)
    dropout: float | None = option(None, "At pre-training: dropout; default: the model's.", minimum=0, maximum=0.9)
    vocab_from_text: list[str] = option([], VOCAB, nargs="+")
    vocab_size: int | None = option(None, "With --vocab-from-text: keep only the most frequent tokens.", minimum=10)

    @property
    def given_parts(self) -> dict[str, int]:
        """The parts of the size that are replaced; --layers are of the teacher, and not given with --size."""
        return {name: value for name, value in super().given_parts.items() if name != "layers"}
