"""64 clients of one text each: our server, and what people put behind the same framework: onnxruntime, a pipeline."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CLIENTS, WARM_UP = 64, 256  # texts before the clock starts
Engine = Callable[[str], dict[str, Any]]


def onnx_engine(model: str) -> Engine:
    """An exported graph in onnxruntime, a text at a time, as its own example runs it."""
    import onnxruntime
    from tokenizers import Tokenizer

    from bertcli.lifecycle.export import export

    made = Path(model).parent / "served-onnx"
    folder = made if made.exists() else Path(export(model, out=str(made)).out)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(128)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    labels = json.loads((folder / "labels.json").read_text())
    names = [node.name for node in session.get_inputs()]

    def predict(text: str) -> dict[str, Any]:
        found = tokenizer.encode(text)
        columns = {"input_ids": found.ids, "attention_mask": found.attention_mask, "token_type_ids": found.type_ids}
        (logits,) = session.run(None, {name: np.array([columns[name]]) for name in names})
        shares = np.exp(logits[0]) / np.exp(logits[0]).sum()
        return {"label": labels[shares.argmax()], "score": float(shares.max())}

    return predict


def pipeline_engine(model: str) -> Engine:
    """A pipeline of transformers, a text at a time."""
    import torch
    from transformers import pipeline

    pipe = pipeline("text-classification", model=model, dtype=torch.float32, device="cpu")
    return lambda text: dict(pipe(text, truncation=True, max_length=128)[0])


ENGINES = {"onnxruntime": onnx_engine, "pipeline": pipeline_engine}


def serve(engine: str, model: str) -> None:
    """Serve an engine, which runs in the threads of the framework."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    run = ENGINES[engine](model)

    async def predict(request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(run, (await request.json())["text"]))

    settings = uvicorn.Config(
        Starlette(routes=[Route("/predict", predict, methods=["POST"])]), port=0, log_level="error"
    )
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2 * CLIENTS)
    print(f"serving at http://127.0.0.1:{listener.getsockname()[1]} ", file=sys.stderr, flush=True)
    uvicorn.Server(settings).run([listener])


async def ask(port: int, texts: list[str]) -> tuple[list[Any], list[float], float]:
    """Ask for each text, `CLIENTS` at once; return the answers, the seconds of each, and those of all."""
    answers: list[Any] = [None] * len(texts)
    seconds, numbers = [0.0] * len(texts), iter(range(len(texts)))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            started = time.perf_counter()
            body = json.dumps({"text": texts[number]}).encode()
            writer.write(b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
            answers[number] = json.loads(await reader.readexactly(length))
            seconds[number] = time.perf_counter() - started
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return answers, seconds, time.perf_counter() - started


def measure(texts: str, command: list[str]) -> dict[str, Any]:
    """Start a server, ask it, stop it."""
    lines = Path(texts).read_text(encoding="utf-8").splitlines()
    with subprocess.Popen([sys.executable, "-m", *command], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            said = ""
            while not (found := re.search(r"at http://127.0.0.1:(\d+) ", said)):
                said += server.stderr.readline() or sys.exit(said)
            asyncio.run(ask(int(found[1]), (lines * CLIENTS)[:WARM_UP]))
            answers, seconds, total = asyncio.run(ask(int(found[1]), lines))
        finally:
            server.terminate()
    times = dict(
        zip(("p50_ms", "p95_ms", "p99_ms"), (1000 * np.percentile(seconds, (50, 95, 99))).tolist(), strict=True)
    )
    return {"texts_per_second": len(lines) / total, **times, "labels": [answer["label"] for answer in answers]}


def ours(texts: str, model: str, precision: str) -> dict[str, Any]:
    """`bert serve`."""
    return measure(texts, ["bertcli", "serve", model, "--port", "0", "--precision", precision])


def theirs(texts: str, model: str, engine: str) -> dict[str, Any]:
    """Another engine."""
    return measure(texts, ["tests.benchmarks.serving", "serve", engine, model])


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        print(json.dumps({"ours": ours, "theirs": theirs}[sys.argv[1]](*sys.argv[2:])))
