"""What the commands of the cases need, made when it is first asked for: models, shards, data."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from bertcli.config.recipes import SHIPPED, recipes_folder
from bertcli.data.checksums import CHECKSUMS
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.text.files import open_binary
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.families import get_family
from bertcli.families.bert import BERT
from bertcli.kinds import KINDS
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.distilling.layers import layers_to_keep
from bertcli.lifecycle.distilling.students import make_distilbert
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrained import PRETRAINED
from bertcli.lifecycle.sources import find_source
from bertcli.models.loading import build_model, load_model, save_model, save_models
from bertcli.objectives import get_objective
from bertcli.tasks import get_task
from tests.benchmarks.cases import Case
from tests.support import build

VOCAB = Path(__file__).parents[1] / "goldens" / "vocab.txt"  # of bert-base-uncased: 30,522 tokens
BESIDE = Path(__file__).parents[3] / "shared" / "data"
LEARNT_FROM = {"glue/sst2": 16_000, "imdb": 8_000}  # examples, where labels are compared
DEV_LINES = 64  # the dev set is scored when the clock has stopped: it need not be long


class Materials(dict[str, str]):
    """The words in braces of a case's commands. What is made stays in `folder`, for the other cases."""

    def __init__(self, case: Case, folder: Path) -> None:
        super().__init__(
            {
                name: str(getattr(case, name))
                for name in ("task", "steps", "batch_size", "length", "learning_rate", "size")
            }
        )
        self.case, self.folder = case, folder

    def __missing__(self, name: str) -> str:
        self[name] = str(MAKERS[name](self.case, self.folder))
        return self[name]


def official_data() -> Path:
    """The folder of the tasks' official files.

    Raises:
        UserError: if there is none.
    """
    folder = Path(os.environ.get("BERT_DATA") or BESIDE)
    if not folder.is_dir():
        raise UserError("There is no folder of official data.", "Set BERT_DATA.")
    return folder


def books(case: Case, folder: Path) -> Path:
    """The books that ship, as plain text."""
    made = folder / "books"
    if not made.exists():
        made.mkdir()
        for path in sorted((recipes_folder() / "demo" / "books").glob("*.txt.xz")):
            with open_binary(path) as file:
                (made / path.stem).write_bytes(file.read())
    return made


def vocab(case: Case, folder: Path) -> Path:
    """That of bert-base-uncased, or for another family one that is learnt from the books."""
    made = VOCAB if case.family == BERT.key else folder / f"vocab-{case.family}"
    if not made.exists():
        build_vocab(str(books(case, folder)), family=case.family, vocab_size=8000, out=str(made))
    return made


def shards(case: Case, folder: Path) -> Path:
    """Pre-training data of the books: pairs, with masks to be drawn at each step, as the Trainer's collator draws them."""
    made = folder / f"shards-{case.family}-{case.length}"
    make_pretraining_data(
        str(books(case, folder)),
        family=case.family,
        tokenizer=str(vocab(case, folder)),
        masking="dynamic",
        dupe_factor=1,
        max_seq_length=case.length,
        out=str(made),
    )
    return made


def data(case: Case, folder: Path) -> Path:
    """The official files of a task cut to the examples of so many steps; whole where no steps are given."""
    source, made = official_data(), folder / f"data-{case.name}"
    if not case.steps:
        return source
    task, examples = get_task(case.task), case.steps * case.batch_size
    for split, count in (("train", examples), ("dev", DEV_LINES)):
        name = next(path for path in source.glob(f"{task.files.splits[split]}*"))
        out = made / name.relative_to(source)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(cut_questions(name, count) if task.kind == "span" else cut_lines(name, count + 1))
    return made


def cut_lines(path: Path, count: int) -> bytes:
    """The first lines of a table, as they are."""
    return b"".join(path.read_bytes().splitlines(keepends=True)[:count])


def cut_questions(path: Path, count: int) -> bytes:
    """The first questions of a file of SQuAD."""
    kept = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            asked = paragraph["qas"][:count]
            count -= len(asked)
            if asked:
                kept.append({**article, "paragraphs": [{**paragraph, "qas": asked}]})
    return json.dumps({"version": "1.1", "data": kept}).encode()


def trained_on(case: Case, folder: Path) -> Path:
    """What the Trainer trains on: the shards, or the files of the task."""
    return shards(case, folder) if case.task == "pretraining" else data(case, folder)


def model(case: Case, folder: Path) -> Path:
    """A model with new weights, or those of minilm, and the head of the task, from which both sides start.

    Raises:
        UserError: if minilm is not installed.
    """
    made = folder / f"model-{case.family}-{case.size}-{case.task.replace('/', '-')}"
    if not made.exists():
        kind, labels, tokenizer = "pretrain", {}, load_tokenizer(vocab(case, folder))
        if case.task != "pretraining":
            task = get_task(case.task)
            kind, names = task.kind, dict(enumerate(task.labels))
            if kind == "regress":
                labels = {"num_labels": 1, "problem_type": KINDS[kind].problem_type}
            if names:
                ids = {name: index for index, name in names.items()}
                labels = {
                    "num_labels": len(names),
                    "id2label": names,
                    "label2id": ids,
                    "problem_type": KINDS[kind].problem_type,
                }
        if case.size in PRETRAINED:
            folder = PRETRAINED[case.size].folder
            if not folder:
                raise UserError(f"There is no {case.size}.", PRETRAINED[case.size].how_to_get)
            tokenizer = load_tokenizer(folder)
            torch.manual_seed(0)
            built = AutoModelForSequenceClassification.from_pretrained(folder, **labels)
        elif case.family != BERT.key:
            family = get_family(case.family)
            made_for = get_objective(family.objective)
            built = build_model(made_for.auto_class(), family, case.size, tokenizer, labels, seed=0)
        else:
            built = build(kind, case.size, tokenizer, labels, seed=0)
        built.config.hidden_act = "gelu"  # what BertConfig has, and so those who train with the Trainer
        save_model(built, tokenizer, made)
        if case.family in ("electra", "deberta-v3"):  # the generator, from which both sides start too
            save_models(made_for.with_loss(built).models, tokenizer, made)
    return made


def student(case: Case, folder: Path) -> Path:
    """A DistilBERT of a BERT, which is beside it as its teacher; biases that are all 0 would be set by the frequencies of tokens."""
    teacher, made = model(case, folder), folder / f"student-{case.size}"
    if not made.exists():
        read, tokenizer = load_model(str(teacher), AutoModelForMaskedLM, {}, seed=0), load_tokenizer(teacher)
        torch.nn.init.normal_(read.get_output_embeddings().bias, std=0.02)
        layers = layers_to_keep(read.config.num_hidden_layers, max(1, read.config.num_hidden_layers // 2))
        save_model(make_distilbert(read, layers), tokenizer, made)
        save_model(read, tokenizer, made / "teacher")
    return made


def texts(case: Case, folder: Path) -> Path:
    """The texts of a dev set, a line each: all of SST-2's, some long ones of IMDB's."""
    made = folder / f"{case.name}.txt"
    source = find_source(case.task, str(official_data()), {})
    read = source.read("dev").examples
    assert isinstance(read, TextExamples)
    lines = [" ".join(text.split()) for text in read.texts]
    if case.task == "imdb":
        long = [line for line in lines if len(line.split()) > 250]
        lines = long[:: max(1, len(long) // 128)][:128]
    made.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return made


def learnt(case: Case, folder: Path) -> Path:
    """A model that tells the texts of a task apart, so that its labels say something, in the size of the case.

    A pre-trained one learns in a minute, with the pooler that all engines know; else a tiny one learns from nothing, and is
    then made larger.
    """
    run, is_pretrained = folder / f"learnt-{case.name}", case.size in PRETRAINED
    if not run.exists():
        options: dict[str, Any] = {"limit": LEARNT_FROM[case.task], "epochs": 2, "learning_rate": 1e-3}
        options |= {"from_": "scratch", "size": "tiny", "tokenizer": SHIPPED}
        if is_pretrained:
            options = {"limit": 640, "epochs": 1, "from_": str(model(case, folder))}
        finetune(
            case.task,
            data_dir=str(official_data()),
            out=str(run),
            max_seq_length=case.length,
            baseline=False,
            limit_dev=200,
            **options,
        )
        if not is_pretrained:
            enlarge(run / "model", case.size)
    return run / "model"


@torch.no_grad()
def enlarge(folder: Path, size: str) -> None:
    """Write a model of another size in the place of a small one, of nearly the same function.

    Hidden units, heads and intermediate units are repeated, the products over them divided by how often; the layers that
    come on top are computed, and add nothing.
    """
    small, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), load_tokenizer(folder)
    labels = {name: getattr(small.config, name) for name in ("id2label", "label2id")}
    large, weights = build("classify", size, tokenizer, labels, seed=0), small.state_dict()
    for name, wanted in large.state_dict().items():
        if name in weights:
            times = [after // before for after, before in zip(wanted.shape, weights[name].shape, strict=True)]
            is_product = wanted.dim() == 2 and "embeddings" not in name
            wanted.copy_(weights[name].repeat(times) / (times[1] if is_product else 1))
        elif ".output.dense." in name:
            wanted.zero_()
    (folder / CHECKSUMS).unlink(missing_ok=True)  # of what is replaced
    save_model(large, tokenizer, folder)


MAKERS: dict[str, Callable[[Case, Path], object]] = {
    made.__name__: made for made in (books, vocab, shards, data, trained_on, model, student, texts, learnt)
}
