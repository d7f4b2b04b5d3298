"""What is raced, as data: the commands of each case, the rows of the table that it gives, and the bars."""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Row:
    """A line of the table: what one run of a case measured over what another did, or on its own."""

    ours: str
    theirs: str = ""
    at_least: str = ""
    moonshot: str = ""
    measure: str = "tokens_per_second"


@dataclass(frozen=True)
class Case:
    """Runs that take turns. A command is what `python -m` takes; what stands in braces is made by materials.py."""

    name: str
    what: str
    runs: dict[str, str]
    rows: tuple[Row, ...]
    task: str = "pretraining"
    size: str = "base"
    family: str = "bert"
    length: int = 128
    batch_size: int = 32
    steps: int = 0
    learning_rate: str = "1e-4"
    on_gpu: bool = False
    loss_tolerance: float = 0.03  # of the mean loss of a run, which dropout and masks make differ a little

    def quick(self) -> "Case":
        """The same with a tiny model and few steps, to see that it runs."""
        return replace(self, size="tiny", steps=min(self.steps, 5))

    def in_float32(self) -> "Case":
        """What of it needs no bfloat16, which may be no run at all."""
        runs = {name: command for name, command in self.runs.items() if not re.search("bfloat16|bf16", name)}
        return replace(self, runs=runs, rows=tuple(row for row in self.rows if {row.ours, row.theirs} <= {*runs, ""}))


# The same optimizer, rate and schedule on both sides: the Trainer's default optimizer is AdamW.
TRAINED = "--from {model} --learning-rate {learning_rate} --optimizer adamw --log-steps {steps} --out {out}/run --json --quiet --precision "
PRETRAIN = "bertcli pretrain --data {shards} --steps {steps} --batch-size {batch_size} --warmup-steps 0 " + TRAINED
FINETUNE = (
    "bertcli finetune {task} --data-dir {data} --epochs 1 --batch-size {batch_size} --warmup-proportion 0 " + TRAINED
)
TRAINER = "tests.benchmarks.trainer {task} --model {model} --data {trained_on} --steps {steps} --learning-rate {learning_rate} --out {out} "


def training(ours: str, peer: str, *precisions: str, flags: str = "") -> dict[str, str]:
    """Ours and the Trainer; `peer` is how the Trainer is to cut the batch."""
    runs = {f"ours, {precision}": ours + precision for precision in precisions}
    theirs = {"Trainer": "", "Trainer --bf16": " --bf16"} if not flags else {f"Trainer {flags}": f" {flags}"}
    return runs | {name: TRAINER + peer + flag for name, flag in theirs.items()}


BOTH = ("bfloat16", "float32")
SPANS_TOLERANCE = 0.1  # the Trainer's softmax over tokens counts padding too, which new weights do not tell apart
IN_BATCHES = "--batch-size {batch_size}"
OVER_FLOAT32, OVER_BF16 = ("ours, bfloat16", "Trainer"), ("ours, bfloat16", "Trainer --bf16")
OF_FAMILIES = (Row(*OVER_FLOAT32, "2 ×"), Row(*OVER_BF16, "2 ×"), Row("ours, float32", "Trainer"))
# Both sides train the student that is kept with its teacher, as a DistilBERT is trained.
DISTILL = PRETRAIN.replace("pretrain", "distill --teacher {student}/teacher")
OVERFLOWS = ("deberta", "Trainer --bf16")  # transformers masks scores of bfloat16 by the lowest float32

CPU_CASES = (
    Case(
        "pretrain-base",
        "pre-train base, 128 tokens, batch 16 × accumulation 4",
        training(PRETRAIN, "--batch-size 16 --accumulation 4", *BOTH),
        (
            Row(*OVER_FLOAT32, "5.0 ×", "9 ×"),
            Row(*OVER_BF16, "2.5 ×", "4.5 ×"),
            Row("ours, float32", "Trainer", "1.6 ×", "2.5 ×"),
        ),
        batch_size=64,
        steps=6,
    ),
    Case(
        "pretrain-mini",
        "pre-train mini, 128 tokens, batch 64",
        training(PRETRAIN, IN_BATCHES, *BOTH),
        (
            Row(*OVER_FLOAT32, "5 ×", "10 ×"),
            Row(*OVER_BF16, "4 ×", "8 ×"),
            Row("ours, float32", "Trainer", "1.6 ×", "2.5 ×"),
        ),
        size="mini",
        batch_size=64,
        steps=12,
    ),
    *(
        Case(
            f"pretrain-{family}-mini",
            f"pre-train a mini {family}, 128 tokens, batch 64",
            {name: run for name, run in training(PRETRAIN, IN_BATCHES, *BOTH).items() if (family, name) != OVERFLOWS},
            tuple(row for row in OF_FAMILIES if (family, row.theirs) != OVERFLOWS),
            size="mini",
            family=family,
            batch_size=64,
            steps=12,
        )
        for family in ("roberta", "albert", "electra", "deberta", "deberta-v3", "xlnet")
    ),
    Case(
        "distill-mini",
        "distill a DistilBERT of a mini BERT, 128 tokens, batch 16",
        {name: run.replace("{model}", "{student}") for name, run in training(DISTILL, IN_BATCHES, *BOTH).items()},
        OF_FAMILIES,
        size="mini",
        batch_size=16,
        steps=12,
    ),
    *(
        Case(
            f"causal-{length}",
            f"forward and backward of mini from left to right, over both directions, {length} tokens",
            {
                f"{name}, {precision}": f"tests.benchmarks.ours encode {{size}} {objective} {{length}} {{batch_size}} {{steps}} {precision}"
                for name, objective in (("left to right", "left-to-right"), ("both directions", "mlm"))
                for precision in BOTH
            },
            tuple(Row(f"left to right, {precision}", f"both directions, {precision}", "1 ×") for precision in BOTH),
            size="mini",
            length=length,
            batch_size=8192 // length,
            steps=12,
        )
        for length in (128, 512)
    ),
    Case(
        "outside",
        "pre-train mini, 128 tokens, batch 64: share of a step outside forward, backward and optimizer",
        {"ours": "tests.benchmarks.ours outside {shards} {steps} {batch_size} {model} {out}/run"},
        (Row("ours", "", "under 3 %", "1 %", "share_outside"),),
        size="mini",
        batch_size=64,
        steps=15,
    ),
    *(
        Case(
            f"finetune-{name}",
            f"fine-tune base on {task}, batch 32",
            training(FINETUNE, IN_BATCHES, *BOTH),
            (Row(*OVER_FLOAT32, "5 ×", "9 ×"), Row(*OVER_BF16, "2.5 ×", "4 ×"), Row("ours, float32", "Trainer")),
            task=f"glue/{name}",
            steps=steps,
            learning_rate="2e-5",  # the paper's; from 1e-4 the losses jump
        )
        for name, task, steps in (("sst2", "SST-2", 20), ("mrpc", "MRPC", 8))
    ),
    *(
        Case(
            f"minilm-{name}",
            f"fine-tune minilm on {task}, batch 32",
            training(FINETUNE, IN_BATCHES, *BOTH),
            (Row(*OVER_FLOAT32, "6 ×"), Row(*OVER_BF16, "4 ×"), Row("ours, float32", "Trainer")),
            task=f"glue/{name}",
            size="minilm",
            steps=steps,
            learning_rate="2e-5",
        )
        for name, task, steps in (("sst2", "SST-2", 60), ("mrpc", "MRPC", 40))
    ),
    Case(
        "finetune-squad",
        "fine-tune base on SQuAD, 384 tokens, batch 12, padded to the longest",
        training(FINETUNE, IN_BATCHES, "bfloat16", flags="--bf16"),
        (Row(*OVER_BF16, "2.5 ×", "4 ×"),),
        task="squad",
        length=384,
        batch_size=12,
        steps=6,
        loss_tolerance=SPANS_TOLERANCE,
    ),
    *(
        Case(
            f"predict-{name}",
            f"predict {what} with base, over pipeline, batch 32, float32",
            {
                **{f"ours, {each}": f"tests.benchmarks.ours predict {{texts}} {{learnt}} {each}" for each in BOTH},
                "pipeline": "tests.benchmarks.peers predict {texts} {learnt} {length}",
            },
            (
                Row("ours, bfloat16", "pipeline", "6 ×", "12 ×", "texts_per_second"),
                Row("ours, float32", "pipeline", measure="texts_per_second"),
            ),
            task=task,
            length=length,
        )
        for name, what, task, length in (
            ("sst2", "the 872 texts of SST-2's dev set", "glue/sst2", 128),
            ("imdb", "128 long texts of IMDB", "imdb", 512),
        )
    ),
    *(
        Case(
            f"serve-{size}",
            f"serve {size} to 64 clients, a text of SST-2 each",
            {
                **{f"serve, {each}": f"tests.benchmarks.serving ours {{texts}} {{learnt}} {each}" for each in BOTH},
                **{
                    f"predict --file, {each}": f"tests.benchmarks.ours predict {{texts}} {{learnt}} {each}"
                    for each in BOTH
                },
                **{
                    each: f"tests.benchmarks.serving theirs {{texts}} {{learnt}} {each}"
                    for each in ("onnxruntime", "pipeline")
                },
            },
            (
                *(
                    Row(f"serve, {each}", f"predict --file, {each}", "0.70 ×", measure="texts_per_second")
                    for each in BOTH
                ),
                *(
                    Row("serve, float32", engine, measure=measure)
                    for engine in ("onnxruntime", "pipeline")
                    for measure in ("texts_per_second", "p50_ms", "p95_ms", "p99_ms")
                ),
                *(Row("serve, bfloat16", measure=measure) for measure in ("p50_ms", "p95_ms", "p99_ms")),
            ),
            task="glue/sst2",
            size=size,
        )
        for size in ("mini", "minilm")
    ),
    Case(
        "data",
        "text to shards of 128 tokens, two processes, over datasets.map",
        {
            "ours": (
                "bertcli make-pretraining-data {books} --tokenizer {vocab} --masking dynamic --dupe-factor 1"
                " --no-next-sentence --workers 2 --out {out}/shards --json --quiet"
            ),
            "datasets.map": "tests.benchmarks.peers tokenize {books} {model} {out}",
        },
        (Row("ours", "datasets.map", "1.5 ×", "4 ×", "wall_seconds"),),
    ),
)

GPU_CASES = tuple(
    replace(case, on_gpu=True)
    for case in (
        Case(
            "gpu-base-128",
            "pre-train base, 128 tokens",
            training(PRETRAIN, "--batch-size 512", "bfloat16", flags="--bf16 --compile"),
            (
                Row("ours, bfloat16", "Trainer --bf16 --compile", "2.2 ×", "3 ×"),
                Row("ours, bfloat16", "", "36 %", "52 %", "share_of_peak"),
            ),
            batch_size=512,
            steps=60,
        ),
        *(
            Case(
                f"gpu-{size}-512",
                f"pre-train {size}, packed 512",
                {"ours, bfloat16": PRETRAIN + "bfloat16"},
                (Row("ours, bfloat16", "", at_least, moonshot, "share_of_peak"),),
                size=size,
                length=512,
                batch_size=256,
                steps=40,
            )
            for size, at_least, moonshot in (("base", "34 %", "51 %"), ("large", "42 %", "52 %"))
        ),
        Case(
            "gpu-squad",
            "fine-tune base on SQuAD, 384 tokens, batch 32",
            training(FINETUNE, IN_BATCHES, "bfloat16", flags="--bf16"),
            (Row(*OVER_BF16, "2.5 ×", "4 ×"),),
            task="squad",
            length=384,
            steps=60,
            loss_tolerance=SPANS_TOLERANCE,
        ),
        Case(
            "gpu-sst2",
            "bert finetune glue/sst2, base, 3 epochs, whole command",
            {"ours": "bertcli finetune glue/sst2 --data-dir {data} --from {model} --out {out}/run --json --quiet"},
            (Row("ours", "", "–", "under 60 s", "wall_seconds"),),
            task="glue/sst2",
        ),
    )
)
