"""A server answers as `bert predict` does, refuses what it must, and loses nothing, whatever is sent to it."""

import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import psutil
import pytest
from chromium import BROWSER, Chromium
from conftest import WORDS
from transformers import BertConfig, BertModel

from bertcli import errors
from bertcli.config.recipes import SHIPPED
from bertcli.config.use import ServeConfig
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.lifecycle.baseline import baseline
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.serve import listening, serve

for package in ("starlette", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package, reason="needs the extra: pip install 'bertcli[serve]'")

from bertcli.lifecycle.serving.rows import Refused, ServedModel  # noqa: E402
from bertcli.lifecycle.serving.server import Service, load_served  # noqa: E402

BOUNDS = {"max-bytes": 20_000, "max-rows": 20, "max-tokens": 2_000, "timeout-seconds": 20}
CLIENTS = 16
MASKED = {"text": "Paris is the [MASK] of France."}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        assert self.body.endswith("\n")
        assert self.body.count("\n") == 1  # one line
        return json.loads(self.body)


class Server:
    """`bert serve` as a process of its own."""

    def __init__(self, *runs: str, **bounds: float) -> None:
        options = [f"--{name}={value}" for name, value in bounds.items()]
        command = [sys.executable, "-m", "bertcli", "serve", *runs, "--port", "0", "--precision", "float32", *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
        assert self.process.stderr is not None
        self.said = ""
        while not (found := re.search(r" at http://127.0.0.1:(\d+) ", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.port = int(found[1])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def send(self, data: bytes) -> Answer:
        """Send bytes; read the one answer to them."""
        with self.connect() as connection:
            with suppress(ConnectionError):  # an answer may come, and the connection close, before all is sent
                connection.sendall(data)
            return read_answer(connection)

    def get(self, path: str) -> Answer:
        return self.send(f"GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())

    def post(self, body: Any, path: str = "/predict") -> Answer:
        return self.send(posted(body if isinstance(body, bytes) else json.dumps(body).encode(), path))

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.said += self.process.communicate(timeout=60)[1]
        return self.process.returncode


def posted(body: bytes, path: str = "/predict") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def read_answer(connection: socket.socket) -> Answer:
    data = b""
    while part := connection.recv(65_536):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(first.split()[1]), headers, body.decode())


@pytest.fixture(scope="module")
def server(reviews_run: str) -> Iterator[Server]:
    running = Server(reviews_run, SHIPPED, **BOUNDS)
    yield running
    running.process.kill()
    running.process.communicate()


def texts_with_scores(model: str, count: int) -> dict[str, dict[str, float]]:
    draw = random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(count)]
    return {text: predict(text, model=model, precision="float32").records[0]["scores"] for text in texts}


@pytest.mark.usefixtures("float32")
def test_answers_are_those_of_predict(server: Server, reviews_run: str) -> None:
    wanted = texts_with_scores(reviews_run, 5)
    one, *_ = wanted
    alone = server.post({"text": one}, "/predict/run").json
    assert alone["scores"] == pytest.approx(wanted[one], abs=1e-5)
    assert alone.keys() == predict(one, model=reviews_run).records[0].keys()
    several = server.post([{"text": text, "model": "run"} for text in wanted]).json
    for answer, scores in zip(several, wanted.values(), strict=True):
        assert answer["scores"] == pytest.approx(scores, abs=1e-5)
    pair = server.post({"text": one, "text_pair": "the cat", "model": "run"}).json
    assert pair["scores"] == pytest.approx(
        predict(one, text_pair="the cat", model=reviews_run).records[0]["scores"], abs=1e-5
    )
    fills = predict(MASKED["text"], model=SHIPPED, precision="float32").records[0]["fills"]
    assert [fill["token"] for fill in server.post(MASKED, f"/predict/{SHIPPED}").json["fills"]] == [
        fill["token"] for fill in fills
    ]


def test_what_is_cut_is_counted_in_a_header(server: Server) -> None:
    answer = server.post([{"text": "the cat"}, {"text": "the cat sat " * 300}], "/predict/run")
    assert answer.status == 200
    assert answer.headers["inputs-cut"] == "1"
    assert "inputs-cut" not in server.post({"text": "the cat"}, "/predict/run").headers


def test_an_answer_is_explained_as_by_predict(server: Server, reviews_run: str) -> None:
    pytest.importorskip("captum", reason="needs the extra: pip install 'bertcli[explain]'")
    text = "the 🐈 cat sat"
    (wanted,) = predict(text, model=reviews_run, explain="words").records
    answer = server.post({"text": text, "explain": True}, "/predict/run").json
    assert answer["label"] == wanted["label"]
    assert answer["scores"] == pytest.approx(wanted["scores"], abs=1e-5)
    found, words = answer["explanation"], wanted["explanation"]["words"]
    assert [word["attribution"] for word in found["words"]] == pytest.approx(
        [word["attribution"] for word in words], abs=1e-4
    )
    assert "explanation" not in server.post({"text": text, "explain": False}, "/predict/run").json
    health, document = server.get("/health").json, server.get("/openapi.json").json
    assert [model["explains"] for model in health["models"]] == [True, False]
    assert "explain" in document["components"]["schemas"]["Row"]["properties"]
    assert "128 tokens" in server.get("/docs").body


def test_the_page_shows_the_answer_and_the_words_that_moved_it(server: Server) -> None:
    pytest.importorskip("captum", reason="needs the extra: pip install 'bertcli[explain]'")
    if BROWSER is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    hostile = "the 🐈 cat <b>sat</b> & </script>"
    with Chromium() as browser:
        browser.open(f"http://127.0.0.1:{server.port}/", 400)
        browser.value(f"document.querySelector('textarea').value = {hostile!r}; at('form').requestSubmit()")
        deadline = time.monotonic() + 60
        while (
            not browser.value("document.querySelectorAll('#explanation .card').length") and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        assert browser.value("document.querySelector('#explanation .card').textContent") == hostile
        words = browser.value(
            "[...document.querySelectorAll('#explanation .card .word')].map(each => each.textContent)"
        )
        assert [word for word in words if word in ("the", "cat", "sat")] == ["the", "cat", "sat"]
        assert browser.value("document.querySelectorAll('#answer .bar span').length") == 2
        assert browser.value("document.querySelectorAll('#explanation b').length") == 0
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        browser.value("document.querySelector('textarea').value = 'cat '.repeat(200); at('form').requestSubmit()")
        while "128 tokens" not in browser.value("at('explanation').textContent") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "is not explained here" in browser.value("at('explanation').textContent")
        assert browser.value("document.querySelectorAll('#answer .bar span').length") == 2


def test_pages_and_documents_need_no_network(server: Server) -> None:
    health = server.get("/health").json
    assert [(model["name"], model["takes"].split(" (")[0]) for model in health["models"]] == [
        ("run", "a text"),
        (SHIPPED, "a text with [MASK] in it"),
    ]
    document = server.get("/openapi.json").json
    assert set(document["paths"]) == {"/predict", "/predict/{model}", "/health", "/metrics"}
    for path in ("/", "/docs"):
        page = server.get(path)
        assert page.status == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.findall(r"(?:src|href)=[\"'](?!/)", page.body)
        assert not re.findall(r"https?://(?!127.0.0.1)", page.body)
    server.post({"text": "It was fine."}, "/predict/run")
    metrics = server.get("/metrics").body
    assert re.search(r'bert_requests_total\{status="200"\} [1-9]', metrics)


DEEP = b"[" * 9_000 + b"]" * 9_000
REFUSED: dict[str, tuple[set[int], bytes]] = {
    "no JSON": ({422}, posted(b"text=the cat")),
    "nothing": ({422}, posted(b"")),
    "binary": ({422}, posted(bytes(range(256)))),
    "deep": ({422}, posted(DEEP)),
    "a number": ({422}, posted(b"7")),
    "a long number": ({422}, posted(b'{"text": ' + b"9" * 9_000 + b"}")),
    "no rows": ({422}, posted(b"[]")),
    "rows in rows": ({422}, posted(b'[[{"text": "a"}]]')),
    "no text": ({422}, posted(b'{"text": null, "model": "run"}')),
    "no column": ({422}, posted(b'{"model": "run"}')),
    "half a surrogate": ({422}, posted(b'{"text": "\\ud800", "model": "run"}')),
    "an unknown key": ({422}, posted(b'{"text": "a", "txet": "b", "model": "run"}')),
    "explain that is no truth value": ({422}, posted(b'{"text": "a", "explain": "yes", "model": "run"}')),
    "a long text explained": (
        {422},
        posted(json.dumps({"text": "a " * 200, "explain": True, "model": "run"}).encode()),
    ),
    "two rows explained": ({422}, posted(b'[{"text": "a", "explain": true}, {"text": "a"}]', "/predict/run")),
    "fills explained": ({422}, posted(b'{"text": "a [MASK]", "explain": true, "model": "bert-books"}')),
    "a file": ({422}, posted(b'{"file": "/etc/passwd", "model": "run"}')),
    "a pair without a text": ({422}, posted(b'{"text_pair": "a", "model": "run"}')),
    "a question": ({422}, posted(b'{"question": "a", "context": "b", "model": "run"}')),
    "one choice": ({422}, posted(b'{"text": "a", "choices": ["b"], "model": "run"}')),
    "no mask": ({422}, posted(b'{"text": "a", "model": "bert-books"}')),
    "no model": ({422}, posted(b'{"text": "a"}')),
    "two models": ({422}, posted(b'[{"text": "a", "model": "run"}, {"text": "a", "model": "bert-books"}]')),
    "an unknown model": ({404}, posted(b'{"text": "a", "model": "/etc/passwd"}')),
    "a model that is a list": ({404}, posted(b'{"text": "a", "model": ["run"]}')),
    "a model elsewhere": ({404}, posted(b'{"text": "a"}', "/predict/..%2f..%2fetc%2fpasswd")),
    "a file as a path": ({404}, b"GET /../../etc/passwd HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"),
    "too many rows": ({413}, posted(json.dumps([{"text": "a", "model": "run"}] * 21).encode())),
    "too many tokens": ({413}, posted(json.dumps({"text": "a " * 2_100, "model": "run"}).encode())),
    "too many bytes": ({413}, posted(json.dumps({"text": "a" * 20_001, "model": "run"}).encode())),
    "bytes that are announced": ({413}, posted(b"")[:-5] + b"9" * 15 + b"\r\n\r\n"),
    "chunks without an end": (
        {413},
        b"POST /predict HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1000\r\n%b\r\n" % (b"a" * 4096) * 9,
    ),
    "another method": ({405}, b"GET /predict HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"),
    "no HTTP": ({400}, b"\x16\x03\x01 hello\r\n\r\n"),
    "endless headers": ({431}, b"GET / HTTP/1.1\r\n" + b"X: %b\r\n" % (b"a" * 8_000) * 20),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_in_one_line_of_json(server: Server, name: str) -> None:
    statuses, data = REFUSED[name]
    answer = server.send(data)
    assert answer.status in statuses, answer
    assert answer.json.keys() == {"error", "hint"}
    assert "root:" not in answer.body


def leave_early(server: Server) -> None:
    """Ask and go away, before the request is whole or before it is answered."""
    data = posted(b'{"text": "the cat", "model": "run"}')
    with server.connect() as connection:
        connection.sendall(data[: random.randint(1, len(data))])


def ask_much(server: Server, wanted: dict[str, dict[str, float]], count: int) -> Counter[str]:
    """Ask from several clients at once, a quarter of the time something hostile; each answer is checked."""
    texts, names = list(wanted), list(REFUSED)

    def ask(number: int) -> str:
        draw = random.Random(number)
        if number % 4:
            rows = draw.choices(texts, k=draw.choice((1, 1, 1, 4)))
            answer = server.post([{"text": text, "model": "run"} for text in rows])
            assert answer.status == 200, answer
            for row, text in zip(answer.json, rows, strict=True):
                assert row["scores"] == pytest.approx(wanted[text], abs=1e-5)
            return "answered"
        if draw.random() < 0.2:
            leave_early(server)
            return "left"
        statuses, data = REFUSED[draw.choice(names)]
        assert server.send(data).status in statuses
        return "refused"

    with ThreadPoolExecutor(CLIENTS) as pool:
        return Counter(pool.map(ask, range(count)))


def test_of_many_requests_a_quarter_hostile_none_is_lost(server: Server, reviews_run: str) -> None:
    counts = ask_much(server, texts_with_scores(reviews_run, 10), 300)
    assert counts["answered"] == 225
    assert server.get("/health").json["status"] == "ok"


@pytest.mark.torture
def test_of_ten_thousand_none_is_lost_and_memory_stays_flat(reviews_run: str) -> None:
    running = Server(reviews_run, SHIPPED, **BOUNDS)
    wanted, memory = texts_with_scores(reviews_run, 50), []
    process = psutil.Process(running.process.pid)
    for _ in range(5):
        assert ask_much(running, wanted, 2_000)["answered"] == 1_500
        memory.append(process.memory_info().rss / 1e6)
    print(f"memory after each 2,000 requests, MB: {', '.join(f'{each:.1f}' for each in memory)}")
    assert memory[-1] - memory[1] < 12  # of 28,000 requests the last 6,000 add nothing, those before them 11 MB
    assert process.num_fds() < 100
    assert running.stop() == 0


def test_sigterm_answers_what_was_asked_before(server: Server) -> None:
    """The last test of this server."""
    with server.connect() as connection:
        body = json.dumps([{"text": "the cat sat on the mat " * 10, "model": "run"}] * 20).encode()
        connection.sendall(posted(body)[:-1])
        time.sleep(0.3)  # it has begun to read it
        server.process.send_signal(signal.SIGTERM)
        connection.sendall(posted(body)[-1:])
        assert len(read_answer(connection).json) == 20
    assert server.stop() == 0
    assert re.search(r"stopped: \d+ requests answered", server.said)
    assert "Traceback" not in server.said


class Posted:
    """A request of a row to an application, without a socket."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.body, self.sent = json.dumps(row).encode(), []

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def to(self, application: Callable[..., Any]) -> tuple[int, dict[str, str]]:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/predict",
            "headers": [],
            "query_string": b"",
            "root_path": "",
        }
        await application(scope, self.receive, self.send)
        return self.sent[0]["status"], json.loads(self.sent[1]["body"])


def test_a_full_queue_is_429_and_an_answer_that_takes_too_long_503() -> None:
    config = ServeConfig(runs=[SHIPPED], max_queue=2, timeout_seconds=0.2)
    source = str(predict(MASKED["text"], model=SHIPPED).model)
    service = Service(config, {SHIPPED: load_served(SHIPPED, source, config)}, "http://127.0.0.1")
    application = service.application()

    async def ask() -> list[tuple[int, dict[str, str]]]:
        return await asyncio.gather(*(Posted(MASKED).to(application) for _ in range(3)))  # no worker has been started

    late, _, refused = asyncio.run(ask())
    assert late[0] == 503
    assert late[1]["error"] == "There was no answer within 0.2 seconds."
    assert refused[0] == 429
    assert refused[1]["error"] == "2 requests are waiting already."


def test_what_waits_is_predicted_together(reviews_run: str) -> None:
    from bertcli.lifecycle.serving.queue import Job, Worker

    config, batches = ServeConfig(runs=[reviews_run], precision="float32"), []
    model = load_served("run", f"{reviews_run}/model", config)

    async def ask() -> list[Any]:
        worker, loop = Worker(12, 100, batches.append), asyncio.get_running_loop()
        rows = [
            {"text": "the cat"},
            {"text": "a", "text_pair": "b"},
            {"text": "on the mat"},
            {"text": "the cat sat on the mat" * 9},
        ]
        jobs = [Job(model.task_model, [row], loop.create_future()) for row in rows]
        for job in jobs:
            worker.submit(job)
        jobs[0].answer.cancel()  # its time is up before it is its turn
        threading.Thread(target=worker.run).start()
        answers = [await job.answer for job in jobs[1:]]
        worker.stop()
        return answers

    answers = asyncio.run(ask())
    assert batches == [2, 1]
    wanted = predict("a", text_pair="b", model=reviews_run, precision="float32").records[0]["scores"]
    assert answers[0][0][0]["scores"] == pytest.approx(wanted, abs=1e-5)


def test_a_port_in_use_is_said_before_a_model_is_loaded(reviews_run: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            UserError, match=f"Port {port} of 127.0.0.1 cannot be listened on: Address already in use"
        ) as caught:
            serve(reviews_run, port=port)
    assert "--port 0" in caught.value.hint


def test_what_cannot_be_served_is_refused_by_a_dry_run_too(tmp_path: Path, reviews_run: str) -> None:
    BertModel(
        BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    ).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="needs fine-tuning first"):
        serve(str(tmp_path), port=0, dry_run=True)
    rows = "text,label\n" + "good,yes\nbad,no\n" * 8
    (tmp_path / "reviews.csv").write_text(rows)
    fitted = baseline(str(tmp_path / "reviews.csv"), out=str(tmp_path / "fitted"))
    with pytest.raises(UserError, match="is a baseline"):
        serve(fitted.run, port=0, dry_run=True)
    with pytest.raises(UserError, match="cannot be listened on") as caught:
        serve(reviews_run, port=0, host="192.0.2.1")
    assert caught.value.hint == "Give --host an address of this machine."


def test_an_answer_is_sent_at_once() -> None:
    """asyncio sets TCP_NODELAY if the protocol is named; else a body waits 40 ms for the client to acknowledge its headers."""
    with listening(ServeConfig(port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_who_can_reach_it_is_said(reviews_run: str, said: pytest.LogCaptureFixture) -> None:
    serve(reviews_run, port=0, dry_run=True)
    assert "without a password" not in said.text
    serve(reviews_run, port=0, host="0.0.0.0", dry_run=True)
    assert "0.0.0.0 is not this machine alone" in said.text


def test_two_models_of_one_name_are_refused(reviews_run: str) -> None:
    with pytest.raises(UserError, match="Two of the models are called `run`"):
        serve(runs=[reviews_run, f"{reviews_run}/model"], port=0)


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(UserError) as caught:
        serve(SHIPPED)
    assert caught.value.hint == "Install it: pip install 'bertcli[serve]'"


def test_a_row_may_have_the_columns_that_the_run_learnt_from(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("command: finetune\ntask: own.csv\nkind: classify\ntext: question\n")
    model = ServedModel("run", cast(Any, None), has_pairs=False, source=str(tmp_path / "model"))
    assert model.named({"question": "where?"}) == {"text": "where?"}
    for row in ({"text": "where?"}, {"question": "where?", "text": "when?"}):
        assert model.named(row) == row


def test_one_text_alone_is_refused_by_a_model_of_pairs() -> None:
    model = ServedModel("run", SimpleNamespace(kind=KINDS["classify"]), has_pairs=True, source="run")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="The model `run` needs a pair of texts") as caught:
        model.check({"text": "where?"})
    sample = json.loads(caught.value.hint.removeprefix("Send ").removesuffix("; see /docs."))
    assert {*sample} == {"text", "text_pair"}
