"""Predicting with ours, with transformers and with other engines: `python -m tests.benchmarks engines`, on a quiet machine.

Each engine runs as a process of its own, in turn: it loads the model, labels the first texts (cold, what is compiled at the first
call included), then all texts until a pass takes no longer than before (warm), then single texts. All but ours and the pipeline
take texts sorted by length, padded to the longest of a batch; tokenizing is inside the time. Engines that are not installed
are left out. The last two make vectors of the texts instead.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.data.labelled.examples import TextExamples
from bertcli.errors import RunError
from bertcli.lifecycle.sources import find_source
from tests.benchmarks.cases import Case
from tests.benchmarks.materials import learnt, model, official_data
from tests.benchmarks.race import run

Probabilities = NDArray[np.float64]
Engine = Callable[[Sequence[str]], Probabilities]
Engines = dict[str, tuple[Callable[[str, int, str], Engine], tuple[str, ...]]]  # how each is made, and its precisions
BATCH, COLD, SINGLE, THREADS = 32, 872, 100, os.cpu_count() or 1
COLUMNS = ["model and texts", "precision", "engine", "texts/s, cold", "texts/s, warm", "a text alone", "difference"]
PASSES = 6  # at most, of the warm ones
DATA = {"SST-2": ("glue/sst2", 64, 4000), "IMDB, 128": ("imdb", 128, 800), "IMDB, 512": ("imdb", 512, 200)}


def ours(model: str, length: int, precision: str) -> Engine:
    """What `bert predict --file` does with the rows of a file."""
    from dataclasses import replace

    from bertcli import kernels
    from bertcli.kinds import KINDS
    from bertcli.lifecycle.scoring.task_model import load_for_rows

    loaded = load_for_rows(model, KINDS["classify"], precision, top_k=1)
    kernels.load()  # as `predict` does for files of this length
    loaded = replace(loaded, rules=replace(loaded.rules, max_seq_length=length))

    def predict(texts: Sequence[str]) -> Probabilities:
        shown, _ = loaded.predict_rows([{"text": text} for text in texts])
        return np.array([[each["scores"][name] for name in loaded.task.labels] for each in shown])

    return predict


def pipeline(model: str, length: int, precision: str) -> Engine:
    """A pipeline of transformers."""
    import torch
    from transformers import pipeline

    pipe = pipeline("text-classification", model=model, dtype=getattr(torch, precision), device="cpu", top_k=None)

    def predict(texts: Sequence[str]) -> Probabilities:
        found = pipe(list(texts), batch_size=BATCH, truncation=True, max_length=length)
        order = pipe.model.config.label2id
        return np.array([[each["score"] for each in sorted(row, key=lambda e: order[e["label"]])] for row in found])

    return predict


def padded(model: str, length: int, logits_of: Callable[[dict[str, NDArray[np.int64]]], Any]) -> Engine:
    """An engine that takes texts sorted by length, in batches padded to their longest."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)

    def predict(texts: Sequence[str]) -> Probabilities:
        ids = tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]
        order = sorted(range(len(texts)), key=lambda row: -len(ids[row]))
        logits: list[Any] = [None] * len(texts)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="np")
            feed = {name: column.astype(np.int64) for name, column in batch.items()}
            feed["token_type_ids"] = np.zeros_like(feed["input_ids"])
            for row, found in zip(rows, logits_of(feed), strict=True):
                logits[row] = found
        shares = np.exp(np.stack(logits).astype(np.float64))
        return shares / shares.sum(-1, keepdims=True)

    return predict


def torch_(model: str, length: int, precision: str) -> Engine:
    """Torch, by autocast in bfloat16."""
    import torch
    from transformers import AutoModelForSequenceClassification

    loaded = AutoModelForSequenceClassification.from_pretrained(model).eval()

    def logits_of(feed: dict[str, Any]) -> Any:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            return loaded(**{name: torch.from_numpy(column) for name, column in feed.items()}).logits.float().numpy()

    return padded(model, length, logits_of)


def exported(model: str, precision: str) -> Path:
    """The model as ONNX, made once."""
    from bertcli.lifecycle.export import export

    made = Path(model).parent / f"onnx-{precision}"
    if not made.exists():
        export(model, out=str(made), precision=precision)
    return made / "model.onnx"


def onnxruntime(model: str, length: int, precision: str) -> Engine:
    """ONNX Runtime; int8 by its dynamic quantization."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = THREADS
    session = InferenceSession(exported(model, precision), options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    return padded(model, length, lambda feed: session.run(None, {name: feed[name] for name in names})[0])


def openvino(model: str, length: int, precision: str) -> Engine:
    """OpenVINO."""
    from openvino import Core

    core = Core()
    hint = {"float32": "f32", "bfloat16": "bf16"}[precision]
    settings = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": "1"}
    settings["INFERENCE_NUM_THREADS"] = THREADS
    compiled = core.compile_model(core.read_model(str(exported(model, "float32"))), "CPU", settings)
    names = [next(iter(node.names)) for node in compiled.inputs]
    return padded(model, length, lambda feed: compiled({name: feed[name] for name in names})[0])


def vectors_of_ours(model: str, length: int, precision: str) -> Engine:
    """What `bert similar` does with the texts of a file."""
    from dataclasses import replace

    from bertcli.lifecycle.similarity.encoder import load_text_encoder

    encoder = replace(load_text_encoder(model, precision), longest=length)
    return lambda texts: encoder.encode(list(texts)).astype(np.float64)


def sentence_transformers(model: str, length: int, precision: str) -> Engine:
    """The library of the model's authors, which sorts texts by length too."""
    import torch
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device="cpu", model_kwargs={"dtype": getattr(torch, precision)})
    encoder.max_seq_length = length
    encode = encoder.encode
    return lambda texts: encode(list(texts), batch_size=BATCH, normalize_embeddings=True).astype(np.float64)


LABELLING: Engines = {
    "bert": (ours, ("float32", "bfloat16")),
    "openvino": (openvino, ("float32", "bfloat16")),
    "onnxruntime": (onnxruntime, ("float32", "int8")),
    "torch": (torch_, ("float32", "bfloat16")),
    "pipeline": (pipeline, ("float32", "bfloat16")),
}
VECTORS: Engines = {
    "bert similar": (vectors_of_ours, ("float32", "bfloat16")),
    "sentence-transformers": (sentence_transformers, ("float32", "bfloat16")),
}
ENGINES = LABELLING | VECTORS
PRECISIONS = ("float32", "bfloat16", "int8")
REFERENCES = ("torch", "float32"), ("sentence-transformers", "float32")


def measure(name: str, precision: str, model: str, texts_file: str, length: str, answers: str) -> dict[str, Any]:
    """Cold and warm texts a second, and milliseconds a single text; the probabilities go into a file."""
    texts = Path(texts_file).read_text(encoding="utf-8").splitlines()
    predict = ENGINES[name][0](model, int(length), precision)
    first = texts[:COLD]
    started = time.perf_counter()
    predict(first)
    cold = len(first) / (time.perf_counter() - started)
    best, passes = float("inf"), 0
    while passes < PASSES:
        started = time.perf_counter()
        found = predict(texts)
        seconds, passes = time.perf_counter() - started, passes + 1
        if seconds > 0.98 * best:
            best = min(seconds, best)
            break
        best = seconds
    single = []
    for text in texts[:SINGLE]:
        started = time.perf_counter()
        predict([text])
        single.append(time.perf_counter() - started)
    np.save(answers, found)
    return {"cold": cold, "warm": len(texts) / best, "single_ms": 1000 * median(single)}


def texts_of(task: str, count: int) -> list[str]:
    """Some training texts of a task."""
    examples = find_source(task, str(official_data()), {}).read("train").examples
    assert isinstance(examples, TextExamples)
    rows = range(0, len(examples), max(1, len(examples) // count))
    return [" ".join(examples.texts[row].split()) for row in rows][:count]


def compare(
    what: str, model: str, texts: Path, length: int, runs: Sequence[tuple[str, str]], rounds: int
) -> list[list[str]]:
    """The engines in their precisions in turn, `rounds` times; a row for each."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    answers: dict[tuple[str, str], Probabilities] = {}
    with tempfile.TemporaryDirectory() as kept:
        for _ in range(rounds):
            for name, precision in runs:
                file = f"{kept}/answers.npy"
                command = ["tests.benchmarks.engines", name, precision, model, str(texts), str(length), file]
                try:
                    found.setdefault((name, precision), []).append(run(command))
                except RunError as error:
                    print(f"left out: {name} in {precision}: {error.hint.splitlines()[-1]}", flush=True)
                    continue
                answers[name, precision] = np.load(file)
    rows = []
    for engine in sorted((each for each in runs if each in answers), key=lambda each: each[1]):
        cold, warm, single = (median(each[key] for each in found[engine]) for key in ("cold", "warm", "single_ms"))
        exact = next((answers[each] for each in REFERENCES if each in answers), answers[engine])
        difference = abs(answers[engine] - exact).max()
        speeds = [f"{cold:,.0f}", f"{warm:,.0f}", f"{single:.1f} ms"]
        rows.append([what, engine[1], engine[0], *speeds, f"{difference:.4f}"])
        print(*rows[-1], sep=" | ", flush=True)
    return rows


def main(arguments: list[str]) -> list[list[str]]:
    """Measure the engines on all data, and print a line for each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="*", default=["minilm"])
    options.add_argument("--data", nargs="*", default=[*DATA], choices=[*DATA])
    options.add_argument("--engines", nargs="*", default=[*ENGINES], choices=[*ENGINES])
    options.add_argument("--precisions", nargs="*", default=PRECISIONS, choices=PRECISIONS)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args(arguments)
    installed = {"bert": "torch", "bert similar": "torch", "pipeline": "transformers"}
    installed["sentence-transformers"] = "sentence_transformers"
    names = [name for name in asked.engines if find_spec(installed.get(name, name))]
    rows = []
    with tempfile.TemporaryDirectory() as made:
        for size in asked.models:
            for what in asked.data:
                task, length, count = DATA[what]
                case = Case(f"{size}-{length}", task, {}, (), task=task, length=length, size=size)
                texts = Path(made, f"{task.replace('/', '-')}-{length}.txt")
                texts.write_text("\n".join(texts_of(task, count)), encoding="utf-8")
                for engines, make, words in ((LABELLING, learnt, ""), (VECTORS, model, ", vectors")):
                    of_each = {name: engines[name][1] for name in names if name in engines}
                    if own := [(name, each) for name in of_each for each in of_each[name] if each in asked.precisions]:
                        source = str(make(case, Path(made)))
                        rows += compare(f"{size}, {what}{words}", source, texts, length, own, asked.rounds)
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
