"""Options of `bert reproduce`."""

from dataclasses import dataclass

from bertcli.config.data import SENTENCES, TEXT
from bertcli.config.options import Config, option
from bertcli.config.training import GRID, PRECISIONS
from bertcli.families.bert import BERT
from bertcli.tasks.experiments import EXPERIMENTS

FROM = "Tables 1 to 4 and 7: run, folder or Hub name of a model (repeat for several); default: minilm if installed."
SIZE = "Pre-trained models: the size used in place of base; those of Table 6 are scaled in proportion: {choices}."
FLOPS = "Family: floating-point operations of each pre-training, in place of --steps."
PHASES = "Lengths and shares of the pre-training steps, as 128:0.9,512:0.1, the paper's; default: --max-seq-length."
TASKS = "Score by these tasks only; those that the table lacks are added, without a score of the paper."
PRETRAIN_RECIPE = "Recipe of `bert pretrain` (batch size, learning rate, optimizer, ...), the same for every row."


@dataclass(kw_only=True)
class ReproduceConfig(Config):
    """Options of `bert reproduce`."""

    experiment: str = option(
        "", "The experiment: table-1 to table-8, figure-5 or family.", metavar="EXPERIMENT", choices=("", *EXPERIMENTS)
    )
    out: str | None = option(
        None, "Folder, continued if it is there, also by several machines; default: runs/reproduce-EXPERIMENT."
    )
    rows: list[str] = option([], "Run these rows only, by their names in the table.", nargs="+")
    columns: list[str] = option([], "Score in these columns only, by their heads in our table.", nargs="+")
    tasks: list[str] = option([], TASKS, nargs="+")
    data_dir: str | None = option(None, "Folder of the official files; default: $BERT_DATA, else the Hub.")
    from_: list[str] = option([], FROM, nargs="+")
    size: str = option("mini", SIZE, choices=BERT.sizes)
    steps: int = option(10_000, "Pre-training steps of each model.", minimum=1)
    flops: float = option(5e14, FLOPS, minimum=1)
    pretrain_recipe: str = option("pretrain/ablations", PRETRAIN_RECIPE)
    pretrain_seeds: int = option(1, "Pre-train each model with this many seeds.", minimum=1)
    text: list[str] = option([], f"Pre-training text; default: seven novels that ship with bert. {TEXT}", nargs="+")
    held_out: list[str] = option([], "Text to measure perplexity on; default: a novel, or part of --text.", nargs="+")
    split_sentences: bool = option(False, f"Pre-training text: {SENTENCES[0].lower()}{SENTENCES[1:]}")
    tokenizer: str | None = option(None, "Folder, Hub name or vocab.txt; default: a vocabulary learnt from the text.")
    vocab_size: int = option(8000, "Size of the vocabulary that is learnt.", minimum=10)
    phases: str | None = option(None, PHASES)
    max_seq_length: int = option(128, "Maximum length in tokens of what is pre-trained on.", minimum=5)
    dupe_factor: int = option(2, "Passes over the text; pairs differ in each, masks in each batch.", minimum=1)
    seeds: int = option(1, "Fine-tune with this many seeds; the paper takes five in Tables 6 and 7.", minimum=1)
    limit: int | None = option(None, "Fine-tune on this many examples, and score ten times as many.", minimum=1)
    epochs: float | None = option(None, "Epochs of fine-tuning; default: the task's, mostly 3.", minimum=0.001)
    learning_rate: float | None = option(None, "Fine-tuning: learning rate; default: by the model's width.", minimum=0)
    grid: str | None = option(None, GRID, choices=("paper",))
    precision: str = option("auto", "{choices}; of all trainings.", choices=PRECISIONS)
