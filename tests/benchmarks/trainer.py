"""What a user would train with instead: a stock model of transformers under its Trainer, as its examples have it."""

import argparse
import json
import os
import tempfile
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, load_dataset
from scipy.stats import spearmanr
from seqeval.metrics import f1_score as seqeval_f1
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from torch.nn.functional import binary_cross_entropy_with_logits, cosine_similarity, kl_div, log_softmax, softmax
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from bertcli.data.labelled.examples import Sentences, TextExamples
from bertcli.data.labelled.squad import Questions
from bertcli.data.packing.keyed import rows_of_step
from bertcli.kinds import KINDS
from bertcli.lifecycle.sources import Source, find_source
from bertcli.models.own.replaced_tokens import DebertaV2ForPreTraining, disentangle_embeddings
from bertcli.training.loop import UNTIMED_STEPS

CUDA = torch.cuda.is_available()
SCORES = {"accuracy": accuracy_score, "f1": f1_score, "matthews_correlation": matthews_corrcoef}


class Clock(TrainerCallback):
    """When each step ended; what lies between is all that a user waits for."""

    def __init__(self, steps: int) -> None:
        self.ends: list[float] = []
        self.synchronized = (UNTIMED_STEPS, steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if CUDA and state.global_step in self.synchronized:
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


def texts(source: Source, split: str, tokenizer: Any) -> Dataset:
    """Texts or pairs of GLUE, tokenized as run_glue.py does it."""
    read = source.read(split, training=True).examples
    assert isinstance(read, TextExamples)
    columns = [column for column in (read.texts, read.pairs) if column is not None]
    encoded = tokenizer(*columns, truncation=True, max_length=source.task.max_seq_length)
    return Dataset.from_dict({**encoded, "labels": KINDS[source.task.kind].targets(source.task, read)})


def words(source: Source, split: str, tokenizer: Any) -> Dataset:
    """Sentences of tagged words, as run_ner.py has them: the first piece of each word has its tag, the others none."""
    read = source.read(split).examples
    assert isinstance(read, Sentences)
    assert read.tags is not None
    encoded = tokenizer(read.words, is_split_into_words=True, truncation=True, max_length=source.task.max_seq_length)
    numbers = {label: number for number, label in enumerate(source.task.labels)}
    labels = []
    for row, tags in enumerate(read.tags):
        pieces = [None, *encoded.word_ids(row)]
        labels.append(
            [-100 if word is None or word == before else numbers[tags[word]] for before, word in pairwise(pieces)]
        )
    return Dataset.from_dict({**encoded, "labels": labels})


def questions(source: Source, split: str, tokenizer: Any) -> Dataset:
    """Windows over the contexts of SQuAD, as run_qa.py makes them."""
    examples = source.read(split, training=True).examples
    assert isinstance(examples, Questions)
    read = examples.asked
    contexts = [" ".join(example.words) for example in read]
    encoded = tokenizer(
        [example.question for example in read],
        contexts,
        truncation="only_second",
        max_length=source.task.max_seq_length,
        stride=128,
        return_overflowing_tokens=True,
    )
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


def with_samples(
    logits: torch.Tensor, input_ids: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids with a sample of the generator in the place of each mask, and which tokens differ from the original, [N, L] both."""
    is_masked = labels != -100
    shares = logits[is_masked].detach().float().softmax(-1)
    ids = torch.where(is_masked, labels, input_ids).masked_scatter(is_masked, shares.multinomial(1)[:, 0])
    return ids, is_masked & (ids != labels)


class WithGenerator(torch.nn.Module):
    """ELECTRA's two models as one that the Trainer takes: transformers has them, but nothing that trains both."""

    def __init__(self, model: Any, generator: Any) -> None:
        super().__init__()
        self.model, self.generator = model, generator
        self.config = model.config
        generator.electra.embeddings = model.electra.embeddings
        generator.generator_lm_head.weight = model.electra.embeddings.word_embeddings.weight

    @classmethod
    def from_pretrained(cls, folder: str, dtype: torch.dtype) -> "WithGenerator":
        """Both models from where ours starts."""
        model = AutoModelForPreTraining.from_pretrained(folder, dtype=dtype)
        return cls(model, AutoModelForMaskedLM.from_pretrained(Path(folder, "generator"), dtype=dtype))

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, labels: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """The loss of the generator, and 50 times that of the discriminator on its samples."""
        columns = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        generated = self.generator(input_ids, **columns, labels=labels)
        ids, is_replaced = with_samples(generated.logits, input_ids, labels)
        return {"loss": generated.loss + 50 * self.model(ids, **columns, labels=is_replaced.long()).loss}


class WithDebertaGenerator(torch.nn.Module):
    """DeBERTa 3's two models as one; the model adds weights of its own to the generator's embeddings, which it does not train."""

    def __init__(self, model: Any, generator: Any) -> None:
        super().__init__()
        self.model, self.generator = model, generator
        self.config = model.config
        disentangle_embeddings(model, generator, is_new=False)

    @classmethod
    def from_pretrained(cls, folder: str, dtype: torch.dtype) -> "WithDebertaGenerator":
        """Both models from where ours starts; the class of the first, which transformers lacks, is a head on its encoder."""
        model = DebertaV2ForPreTraining.from_pretrained(folder, dtype=dtype)
        return cls(model, AutoModelForMaskedLM.from_pretrained(Path(folder, "generator"), dtype=dtype))

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """The loss of the generator, and 50 times that of the discriminator on its samples."""
        generated = self.generator(input_ids, attention_mask=attention_mask, labels=labels)
        ids, is_replaced = with_samples(generated.logits, input_ids, labels)
        is_real = attention_mask.bool()
        states = self.model.deberta(ids, attention_mask=attention_mask).last_hidden_state
        logits = self.model.mask_predictions((states + states[:, :1])[is_real])
        detected = binary_cross_entropy_with_logits(logits.float(), is_replaced[is_real].float())
        return {"loss": generated.loss + 50 * detected}


class WithTeacher(torch.nn.Module):
    """A student with its teacher, as one that the Trainer takes: the three losses of DistilBERT with their weights."""

    def __init__(self, model: Any, teacher: Any) -> None:
        super().__init__()
        self.model, self.teacher = model, teacher.requires_grad_(False)
        self.config = model.config

    @classmethod
    def from_pretrained(cls, folder: str, dtype: torch.dtype) -> "WithTeacher":
        """Both models from where ours starts."""
        student, teacher = (
            AutoModelForMaskedLM.from_pretrained(each, dtype=dtype) for each in (folder, Path(folder, "teacher"))
        )
        return cls(student, teacher)

    def train(self, mode: bool = True) -> "WithTeacher":
        """The teacher has no dropout."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, labels: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Soft targets at temperature 2, masked-LM, and the cosine distance of the last states."""
        columns, is_real = {"attention_mask": attention_mask, "output_hidden_states": True}, attention_mask.bool()
        with torch.no_grad():
            taught = self.teacher(input_ids, token_type_ids=token_type_ids, **columns)
        own = self.model(input_ids, labels=labels, **columns)
        given, wanted = ((each.logits[is_real] / 2) for each in (own, taught))
        soft = 4 * kl_div(log_softmax(given, -1), softmax(wanted, -1), reduction="batchmean")
        states, others = (each.hidden_states[-1][is_real] for each in (own, taught))
        return {"loss": 5 * soft + 2 * own.loss + (1 - cosine_similarity(states, others)).mean()}


def in_order(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """A batch for XLNet: a sixth of the tokens is predicted, in a random order in each half; the first does not see the second.

    The collator of transformers puts <mask> in the place of tokens that later ones should see, and predicts every token.
    """
    ids, types = (torch.tensor([row[name] for row in rows]) for name in ("input_ids", "token_type_ids"))
    length = ids.shape[1]
    order = torch.rand(ids.shape).argsort(1)
    places = order[:, : round(length / 6)].sort(1).values
    rank, half = torch.full(ids.shape, -1), torch.arange(length) >= length // 2
    rank.scatter_(1, places, order.argsort(1).gather(1, places))
    hidden = (rank[:, :, None] <= rank[:, None]) & (rank >= 0)[:, None] & (half[:, None] == half)
    hidden |= ~half[:, None] & half
    mapping = torch.nn.functional.one_hot(places, length).float()
    columns = {"input_ids": ids, "token_type_ids": types, "attention_mask": torch.ones_like(ids)}
    return {**columns, "perm_mask": hidden.float(), "target_mapping": mapping, "labels": ids.gather(1, places)}


# The rows of each kind of task, the model class and the collator.
ENCODED = {
    "classify": (texts, AutoModelForSequenceClassification, DataCollatorWithPadding),
    "regress": (texts, AutoModelForSequenceClassification, DataCollatorWithPadding),
    "tag": (words, AutoModelForTokenClassification, DataCollatorForTokenClassification),
    "span": (questions, AutoModelForQuestionAnswering, DataCollatorWithPadding),
}


def instances(data: str, out: str) -> Dataset:
    """The rows of pre-training shards; the label of a pair has the names that BERT and ALBERT give it."""
    files = sorted(map(str, Path(data).glob("*.parquet")))
    rows = load_dataset("parquet", data_files=files, split="train", cache_dir=tempfile.mkdtemp(dir=out))
    return rows.add_column("sentence_order_label", rows["next_sentence_label"])


def counting(collate: Any, tokens: list[int], rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """A padded batch, the real tokens in it counted."""
    batch: dict[str, torch.Tensor] = collate(rows)
    tokens.append(int(batch["attention_mask"].sum()))
    return batch


def arguments(args: argparse.Namespace, **more: Any) -> TrainingArguments:
    """What both uses share: our defaults, where the Trainer has others."""
    os.makedirs(args.out, exist_ok=True)
    return TrainingArguments(
        tempfile.mkdtemp(dir=args.out),
        per_device_train_batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        gradient_accumulation_steps=args.accumulation,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        bf16=args.bf16,
        torch_compile=args.compile,
        seed=args.seed,
        report_to="none",
        disable_tqdm=True,
        use_cpu=not CUDA,
        **more,
    )


def speed(args: argparse.Namespace) -> dict[str, Any]:
    """Train on the rows that ours takes, in its order; speed without the first steps, and the mean loss of all."""
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    if args.task == "pretraining":
        rows, model_class = instances(args.data, args.out), AutoModelForPreTraining
        collate = DataCollatorForLanguageModeling(tokenizer)
        model_type = AutoConfig.from_pretrained(args.model).model_type
        if model_type == "xlnet":
            collate = in_order
        if Path(args.model, "teacher").is_dir():
            model_class = WithTeacher
        elif model_type == "deberta-v2":
            model_class = WithDebertaGenerator
            shares = {"mask_replace_prob": 1.0, "random_replace_prob": 0.0}
            collate = DataCollatorForLanguageModeling(tokenizer, **shares)
        elif Path(args.model, "generator").is_dir():
            model_class = WithGenerator
            shares = {"mask_replace_prob": 0.85, "random_replace_prob": 0.0}
            # Of draws with replacement, 15 % of all tokens, 13.8 % are distinct.
            collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.138, **shares)
    else:
        source = find_source(args.task, args.data, {})
        encode, model_class, collator = ENCODED[source.task.kind]
        rows, collate = encode(source, "train", tokenizer), collator(tokenizer)
    rows = rows.select(rows_of_step(0, 0, args.steps * args.batch_size * args.accumulation, len(rows)))
    tokens: list[int] = []
    clock = Clock(args.steps)
    trainer = Trainer(
        model_class.from_pretrained(args.model, dtype=torch.float32),
        arguments(
            args,
            max_steps=args.steps,
            warmup_steps=0,
            logging_steps=args.steps,
            save_strategy="no",
            train_sampling_strategy="sequential",
            remove_unused_columns=args.task != "pretraining" or collate is not in_order,
        ),
        data_collator=partial(counting, collate, tokens),
        train_dataset=rows,
        callbacks=[clock],
    )
    # The Trainer leaves it to the model to divide by the size of the whole batch, which a BertForPreTraining does not.
    loss = trainer.train().training_loss / args.accumulation
    timed = tokens[UNTIMED_STEPS * args.accumulation : args.steps * args.accumulation]
    seconds = clock.ends[-1] - clock.ends[UNTIMED_STEPS - 1]
    return {"tokens_per_second": round(sum(timed) / seconds, 1), "steps": len(clock.ends), "losses": [round(loss, 4)]}


def quality(args: argparse.Namespace) -> dict[str, Any]:
    """Fine-tune for some epochs, score dev after each, and give the best, as ours does."""
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    source = find_source(args.task, args.data, {})
    encode, model_class, collator = ENCODED[source.task.kind]
    train, dev = (encode(source, split, tokenizer) for split in ("train", "dev"))
    set_seed(args.seed)
    model = model_class.from_pretrained(args.model, dtype=torch.float32, num_labels=len(source.task.labels) or 1)

    def score(found: Any) -> dict[str, float]:
        """The first metric of the task, times 100."""
        labels = found.label_ids
        if source.task.kind == "regress":
            return {"score": 100 * spearmanr(labels, found.predictions[:, 0]).statistic}
        given = found.predictions.argmax(-1)
        if source.task.kind == "tag":
            names = np.array(source.task.labels)
            both = [
                [names[side[row >= 0]].tolist() for side in (row, said)]
                for row, said in zip(labels, given, strict=True)
            ]
            return {"score": 100 * seqeval_f1(*zip(*both, strict=True))}
        return {"score": 100 * SCORES[source.task.metrics[0]](labels, given)}

    trainer = Trainer(
        model,
        arguments(
            args,
            num_train_epochs=args.epochs,
            warmup_steps=0.1,
            eval_strategy="epoch",
            save_strategy="no",
            per_device_eval_batch_size=64,
            logging_strategy="no",
        ),
        data_collator=collator(tokenizer),
        train_dataset=train,
        eval_dataset=dev,
        compute_metrics=score,
    )
    started = time.perf_counter()
    trainer.train()
    scores = [line["eval_score"] for line in trainer.state.log_history if "eval_score" in line]
    return {
        "metric": source.task.metrics[0],
        "best": max(scores),
        "scores": scores,
        "seconds": time.perf_counter() - started,
    }


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("task", help="pretraining, or a task of classification, values, tags or spans")
    for name in ("--model", "--data", "--out"):
        options.add_argument(name, required=True)
    for name, default in (("--steps", 0), ("--batch-size", 32), ("--accumulation", 1), ("--seed", 0)):
        options.add_argument(name, type=int, default=default)
    options.add_argument(
        "--epochs", type=float, help="score dev after each, in place of measuring the speed of --steps"
    )
    options.add_argument("--learning-rate", type=float, required=True)
    options.add_argument("--bf16", action="store_true")
    options.add_argument("--compile", action="store_true")
    return options


if __name__ == "__main__":
    asked = parser().parse_args()
    print(json.dumps(quality(asked) if asked.epochs else speed(asked)))
