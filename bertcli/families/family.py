"""A family of models: its model types, sizes, and differences from BERT."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from bertcli import number_of
from bertcli.errors import UserError, unknown

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel

    from bertcli.data.text.tokenization import Subwords, WordPiece
    from bertcli.tasks.task import Task

# N sequences, H hidden


# Beyond any model; a damaged number must not fill the memory.
LARGEST = {"num_hidden_layers": 1_000, "num_attention_heads": 10_000, "hidden_size": 100_000}
LARGEST |= {"intermediate_size": 1_000_000}
# The key of a generator's settings in config.json; transformers reads `generator` as those of a text decoder.
GENERATOR_SETTINGS = "generator_settings"


@dataclass(frozen=True)
class ModelSize:
    """Layers, hidden units and attention heads; the intermediate layer is four times as wide as the hidden one unless given."""

    layers: int
    hidden: int
    heads: int
    source: str = ""
    given_intermediate: int | None = None

    @property
    def intermediate(self) -> int:
        """The width of the intermediate layer."""
        return self.given_intermediate or 4 * self.hidden

    @property
    def settings(self) -> dict[str, Any]:
        """The size in a model's config.json, as most families name it."""
        shape = {"hidden_size": self.hidden, "num_hidden_layers": self.layers, "num_attention_heads": self.heads}
        return {**shape, "intermediate_size": self.intermediate}

    def __str__(self) -> str:
        """The size in words."""
        wide = f"hidden size {self.hidden:,}, {number_of(self.heads, 'head')}, intermediate size {self.intermediate:,}"
        return f"{number_of(self.layers, 'layer')}, {wide}"

    def parameters(self, vocab_size: int = 30522, positions: int = 512) -> int:
        """Number of weights of BERT's encoder with its pooler, without heads."""
        h = self.hidden
        embeddings = (vocab_size + positions + 2) * h + 2 * h
        layer = 4 * (h * h + h) + (2 * h * self.intermediate + self.intermediate + h) + 4 * h
        return embeddings + self.layers * layer + h * h + h


BERT_SCHEDULE, LINEAR, MULTIPLIED = "bert", "linear", "multiplied"
CONSTANT, COSINE, COSINE_AFTER = "constant", "cosine", "linear-cosine"
SCHEDULES = (BERT_SCHEDULE, LINEAR, MULTIPLIED, CONSTANT, COSINE, COSINE_AFTER)


@dataclass(frozen=True)
class OptimizerRules:
    """How weights are updated; options of the same names replace a value. The defaults are those of optimization.py."""

    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0  # of all gradients together; 0: they are not clipped
    schedule: str = BERT_SCHEDULE  # bert: linear decay counted from step 0; linear: from the end of the warm-up
    final_rate: float = 0.0  # that the learning rate decays to, as a share of the peak
    power: float = 1.0  # of its decay
    layer_decay: float = 1.0  # factor of the learning rate from each layer to the one below it
    sums_losses: bool = False  # whether a loss is the sum over a batch, not its mean: most gradients are clipped
    not_decayed: str = r"LayerNorm|layer_norm|bias"  # the names of weights without decay; "": all weights decay
    corrects_epsilon: bool = True  # epsilon is added to the corrected root: torch's AdamW, not TensorFlow or fairseq
    corrects_lamb: bool = True  # bias correction in LAMB
    adapts_undecayed: bool = True  # whether LAMB scales the steps of weights without decay

    def warmup(self, steps: float) -> float:
        """Warm-up steps of fine-tuning, rounded down; ELECTRA's are not (its optimization.py)."""
        return steps if self.schedule == MULTIPLIED else int(steps)

    def given_by(self, options: object) -> OptimizerRules:
        """The rules with the options that are given."""
        values = {each.name: getattr(options, each.name, None) for each in fields(self)}
        return replace(self, **{name: value for name, value in values.items() if value is not None})


BERT_RULES = OptimizerRules()


def starts_after_padding(model: PreTrainedModel) -> int:
    """The first position: the padding id + 1, as in RoBERTa, if the position embeddings have a row for it, else 0."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding: int | None = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def pool_as_bert(base: nn.Module, first: Tensor) -> Any:
    """The pooler's output, [N, H], of the hidden states of the first tokens, [N, 1, H]."""
    return base.pooler(first)  # type: ignore[operator]


def has_bert_heads(model: PreTrainedModel) -> bool:
    """Whether a model has BERT's heads for masked-LM and next-sentence prediction."""
    return hasattr(getattr(model, "cls", None), "seq_relationship")


def predict_pair_as_bert(model: PreTrainedModel, first: Tensor) -> Any:
    """The logits of the next-sentence head, [N, 2], of the hidden states of the first tokens, [N, 1, H]."""
    return model.cls.seq_relationship(pool_as_bert(model.base_model, first))


def predict_as_bert(model: PreTrainedModel, hidden: Tensor) -> Any:
    """The masked-LM head's logits, [T, V], of hidden states, [T, H]."""
    return model.cls.predictions(hidden)


@dataclass(frozen=True)
class Family:
    """Models of one architecture. The tokenizer's files say how pairs are separated; config.json, whether there are token types."""

    name: str
    model_types: tuple[str, ...] = ()  # as `model_type` in config.json
    required: Mapping[str, object] = field(default_factory=dict)  # what config.json must say, if it names it
    is_packed: bool = False  # its layers attend through transformers' attention interface, over the whole sequence
    is_original: bool = False  # the paper's model: has TensorFlow checkpoints, and frozen features for taggers
    sizes: Mapping[str, ModelSize] = field(default_factory=dict)  # of new models
    has_even_hidden_size: bool = False  # half of the encoding of a position is sines, half cosines
    settings: Callable[[ModelSize], dict[str, Any]] = lambda size: {}  # in config.json of a new model
    generator: Callable[[ModelSize, float | None], dict[str, int]] | None = None  # its settings, by its share of width
    glorot: tuple[str, ...] = ()  # modules whose new weights are drawn by Glorot & Bengio 2010, uniformly
    has_joint_spans: bool = False  # whether it may be fine-tuned with the head of models/own/joint_spans.py
    first_position: Callable[[PreTrainedModel], int] = lambda model: 0
    has_types: Callable[[PretrainedConfig], bool] = lambda config: getattr(config, "type_vocab_size", 0) > 1
    pool: Callable[[nn.Module, Tensor], Any] = pool_as_bert
    predict_tokens: Callable[[PreTrainedModel, Tensor], Any] = predict_as_bert
    has_pair_head: bool = True  # in pre-training
    predict_pair: Callable[[PreTrainedModel, Tensor], Any] = predict_pair_as_bert
    can_pretrain: Callable[[PreTrainedModel], bool] = has_bert_heads
    prepare: Callable[[PreTrainedModel, str], None] = lambda model, source: None  # after loading
    initialize: Callable[[PreTrainedModel], None] = lambda model: None  # new weights that start as no other
    cuts_new_weights: bool = True  # normal weights are cut at two deviations, as TensorFlow's
    # Pre-training from raw text, for a family that has an objective.
    objectives: tuple[str, ...] = ()  # the default first
    vocabularies: tuple[str, ...] = ("wordpiece",)  # algorithms that fit; `bert build-vocab` takes the first
    tokenizer_class: str = "BertTokenizer"  # of transformers
    special_tokens: tuple[str, ...] = ()  # the first ids of a new vocabulary, where it is not WordPiece
    last_tokens: tuple[str, ...] = ()  # its last ids
    vocabulary_defaults: Mapping[str, Any] = field(default_factory=dict)  # of `bert build-vocab`
    data_defaults: Mapping[str, Any] = field(default_factory=dict)  # of `bert make-pretraining-data`
    training_defaults: Mapping[str, Any] = field(default_factory=dict)  # of `bert pretrain`
    finetuning_defaults: Mapping[str, Any] = field(default_factory=dict)  # of `bert finetune`
    head_settings: Mapping[str, Any] = field(default_factory=dict)  # in config.json, of heads that label texts
    optimizer: OptimizerRules = BERT_RULES  # in pre-training
    finetuning: OptimizerRules = BERT_RULES
    layer_decay: Callable[[int], float] = lambda hidden: 1.0  # in fine-tuning, by hidden units
    finetuning_rates: Mapping[int, float] = field(default_factory=dict)  # hidden units, from which on -> peak rate
    for_task: Callable[[Task], Task] = lambda task: task  # with the family's own settings
    differs: str = ""  # how transformers fills masks otherwise, for the model card

    @property
    def key(self) -> str:
        """Its name as an option: `--family roberta`."""
        return self.name.lower()

    @property
    def objective(self) -> str:
        """The default objective of pre-training; "" for a family that is not pre-trained."""
        return self.objectives[0] if self.objectives else ""

    def finetuning_of(self, hidden: int) -> OptimizerRules:
        """How a model of so many hidden units is fine-tuned."""
        return replace(self.finetuning, layer_decay=self.layer_decay(hidden))

    def task_of(self, task: Task, hidden: int) -> Task:
        """A task with the family's own settings, for a model of so many hidden units."""
        task, rates = self.for_task(task), [rate for width, rate in self.finetuning_rates.items() if width <= hidden]
        return replace(task, learning_rate=rates[-1], papers_width=min(self.finetuning_rates)) if rates else task

    def new_tokenizer(self, source: str, **vocabulary: Any) -> Subwords:
        """The tokenizer of a new vocabulary that is not WordPiece; its mask stands for a word and the space before it."""
        import transformers

        from bertcli.data.text.tokenization import of_transformers

        name = next(token for token in (*self.special_tokens, *self.last_tokens) if "mask" in token.lower())
        vocabulary["mask_token"] = transformers.AddedToken(name, lstrip=True, special=True)
        if self.has_types(self.new_config(next(iter(self.sizes)))):  # or other programs would give all tokens type 0
            vocabulary["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        return of_transformers(getattr(transformers, self.tokenizer_class)(**vocabulary), source)

    def check_vocabulary(self, tokenizer: WordPiece) -> None:
        """Raise UserError if the family does not take this kind of vocabulary, or its special tokens are missing in it."""
        if strange := self.misfit_of_vocabulary(tokenizer.algorithm, tokenizer.vocab):
            hint = f"Make one: bert build-vocab TEXT --family {self.key}; or give --family, or --tokenizer."
            raise UserError(f"`{tokenizer.source}` is {strange}.", hint)

    def misfit_of_vocabulary(self, algorithm: str, tokens: Collection[str]) -> str:
        """What is wrong for the family with a vocabulary of an algorithm, in which these tokens are; "" if nothing is."""
        if algorithm not in self.vocabularies:
            return f"a {algorithm or 'strange'} vocabulary, which {self.name} does not take"
        needed = () if algorithm == "wordpiece" else (*self.special_tokens, *self.last_tokens)
        missing = [token for token in needed if token not in tokens]
        return f"not a vocabulary for {self.name}: it lacks {', '.join(missing)}" if missing else ""

    def get_size(self, name: str) -> ModelSize:
        """The size of a new model by its name. Raises UserError, with the nearest name, if there is none."""
        if name not in self.sizes:
            raise unknown("size", name, self.sizes, "`bert sizes` lists them.")
        return self.sizes[name]

    def new_config(self, size: str | ModelSize, **known: Any) -> PretrainedConfig:
        """The configuration of a new model of a size or its name; `known` does not follow from it, such as `vocab_size`."""
        from transformers import AutoConfig

        size = size if isinstance(size, ModelSize) else self.get_size(size)
        return AutoConfig.for_model(self.model_types[0], **{**self.settings(size), **known})
