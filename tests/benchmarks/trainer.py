"""What a user would train with instead: a stock model of transformers under its Trainer, as its examples have it."""

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, load_dataset
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForPreTraining,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from bertcli.data.keyed import rows_of_step
from bertcli.data.prepared import find_source, read_split
from bertcli.data.text_features import label_ids
from bertcli.training.loop import UNTIMED_STEPS

CUDA = torch.cuda.is_available()


class Clock(TrainerCallback):
    """When each step ended; what lies between is all that a user waits for."""

    def __init__(self, steps: int) -> None:
        self.ends: list[float] = []
        self.synchronized = (UNTIMED_STEPS, steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if CUDA and state.global_step in self.synchronized:
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


def texts(task: str, data: str, tokenizer: Any) -> Dataset:
    """Texts or pairs of GLUE, tokenized as run_glue.py does it."""
    source = find_source(task, data, {})
    read = read_split(source, "train", training=True).texts
    assert read is not None
    columns = [column for column in (read.texts, read.pairs) if column is not None]
    encoded = tokenizer(*columns, truncation=True, max_length=source.task.max_seq_length)
    return Dataset.from_dict({**encoded, "labels": label_ids(read, source.task)})


def questions(task: str, data: str, tokenizer: Any) -> Dataset:
    """Windows over the contexts of SQuAD, as run_qa.py makes them."""
    source = find_source(task, data, {})
    read = read_split(source, "train", training=True).questions
    contexts = [" ".join(example.words) for example in read]
    encoded = tokenizer(
        [example.question for example in read], contexts, truncation="only_second",
        max_length=source.task.max_seq_length, stride=128, return_overflowing_tokens=True,
    )  # fmt: skip
    places = encoded.pop("overflow_to_sample_mapping")
    sides: dict[str, list[int]] = {"start_positions": [], "end_positions": []}
    for window, row in enumerate(places):
        answer = " ".join(read[row].answer.split())
        first = contexts[row].index(answer, len(" ".join(read[row].words[: read[row].start_word])))
        tokens = [encoded.char_to_token(window, place, 1) for place in (first, first + len(answer) - 1)]
        inside = None not in tokens
        for side, token in zip(sides.values(), tokens, strict=True):
            side.append(token if inside else 0)
    return Dataset.from_dict({**encoded, **sides})


def prepared(args: argparse.Namespace, tokenizer: Any) -> tuple[Any, Dataset, Any]:
    """The model class, all rows, and the collator of a task."""
    if args.task == "pretraining":
        files = sorted(map(str, Path(args.data).glob("*.parquet")))
        rows = load_dataset("parquet", data_files=files, split="train", cache_dir=tempfile.mkdtemp(dir=args.out))
        return BertForPreTraining, rows, DataCollatorForLanguageModeling(tokenizer)
    if args.task == "squad":
        rows, model_class = questions(args.task, args.data, tokenizer), AutoModelForQuestionAnswering
    else:
        rows, model_class = texts(args.task, args.data, tokenizer), AutoModelForSequenceClassification
    return model_class, rows, DataCollatorWithPadding(tokenizer)


def counting(collate: Any, tokens: list[int], rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """A padded batch, the real tokens in it counted."""
    batch: dict[str, torch.Tensor] = collate(rows)
    tokens.append(int(batch["attention_mask"].sum()))
    return batch


def train(args: argparse.Namespace) -> dict[str, Any]:
    """Train on the rows that ours takes, in its order; speed without the first steps, and the mean loss of all."""
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model_class, rows, collate = prepared(args, tokenizer)
    rows = rows.select(rows_of_step(0, 0, args.steps * args.batch_size * args.accumulation, len(rows)))
    tokens: list[int] = []
    clock = Clock(args.steps)
    trainer = Trainer(
        model_class.from_pretrained(args.model, dtype=torch.float32),
        TrainingArguments(
            tempfile.mkdtemp(dir=args.out), max_steps=args.steps, per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulation, learning_rate=args.learning_rate, weight_decay=0.01,
            adam_epsilon=1e-6, warmup_steps=0, bf16=args.bf16, torch_compile=args.compile, logging_steps=args.steps,
            train_sampling_strategy="sequential", save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=not CUDA,
        ),
        data_collator=partial(counting, collate, tokens), train_dataset=rows, callbacks=[clock],
    )  # fmt: skip
    loss = trainer.train().training_loss
    timed = tokens[UNTIMED_STEPS * args.accumulation : args.steps * args.accumulation]
    seconds = clock.ends[-1] - clock.ends[UNTIMED_STEPS - 1]
    return {"tokens_per_second": round(sum(timed) / seconds, 1), "steps": len(clock.ends), "losses": [round(loss, 4)]}


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("task", help="pretraining, a task of GLUE, or squad")
    for name in ("--model", "--data", "--out"):
        options.add_argument(name, required=True)
    for name in ("--steps", "--batch-size"):
        options.add_argument(name, type=int, required=True)
    options.add_argument("--accumulation", type=int, default=1)
    options.add_argument("--learning-rate", type=float, required=True)
    options.add_argument("--bf16", action="store_true")
    options.add_argument("--compile", action="store_true")
    return options


if __name__ == "__main__":
    print(json.dumps(train(parser().parse_args())))
