"""The server: what it answers to each path, and its bounds."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from bertcli import kernels, quietly, say
from bertcli.config.use import ServeConfig
from bertcli.errors import UserError
from bertcli.kinds.types import Prediction
from bertcli.lifecycle.predictor import kind_to_serve, load_for_rows
from bertcli.lifecycle.scoring.task_model import TaskModel
from bertcli.lifecycle.serving.pages import docs_page, main_page, openapi
from bertcli.lifecycle.serving.protocol import LINGER_SECONDS, BoundedProtocol, refusal
from bertcli.lifecycle.serving.queue import Full, Job, Worker
from bertcli.lifecycle.serving.rows import Asked, Refused, ServedModel, read_request
from bertcli.lifecycle.workspace import saved_config, takes_pairs
from bertcli.training.device import inference_tokens

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
WARM_UP_ROWS = 64


class Metrics:
    """What `GET /metrics` shows to Prometheus."""

    def __init__(self, worker: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        own: Any = {"registry": self.registry}
        self.requests = Counter("bert_requests", "Requests to /predict, by status.", ["status"], **own)
        self.seconds = Histogram("bert_request_seconds", "Time to an answer.", buckets=SECONDS, **own)
        self.rows = Counter("bert_rows", "Rows predicted.", **own)
        self.cut = Counter("bert_inputs_cut", "Inputs that were longer than the model takes, and cut.", **own)
        sizes = tuple(2**power for power in range(10))
        self.batch = Histogram("bert_batch_rows", "Rows that were predicted together.", buckets=sizes, **own)
        Gauge("bert_waiting_requests", "Requests in the queue.", **own).set_function(worker)
        self.by_status: dict[int, Any] = {}

    def count(self, status: int, seconds: float) -> None:
        """Count a request to /predict."""
        if status not in self.by_status:
            self.by_status[status] = self.requests.labels(str(status))
        self.by_status[status].inc()
        self.seconds.observe(seconds)


@dataclass
class Service:
    """The models, the thread that runs them, and the bounds."""

    config: ServeConfig
    models: dict[str, ServedModel]
    address: str

    def __post_init__(self) -> None:
        self.worker = Worker(inference_tokens(), self.config.max_queue, lambda rows: self.metrics.batch.observe(rows))
        self.metrics = Metrics(lambda: len(self.worker.waiting))
        self.answered = 0
        self.counting = asyncio.Semaphore(1)  # of long texts that are tokenized to be counted

    async def predict(self, request: Request) -> Response:
        """Answer `POST /predict`."""
        started = perf_counter()
        try:
            async with asyncio.timeout(self.config.timeout_seconds):
                response = await self._answer(request)
        except Refused as error:
            response = refusal(error.status, error.message, error.hint, error.headers)
        except TimeoutError:
            what = f"There was no answer within {self.config.timeout_seconds:g} seconds."
            response = refusal(503, what, "Try again later, or send less at a time.")
        except ClientDisconnect:
            response = Response(status_code=400)
        except Exception:
            self.metrics.count(500, perf_counter() - started)
            raise
        self.answered += 1
        self.metrics.count(response.status_code, perf_counter() - started)
        return response

    async def _answer(self, request: Request) -> Response:
        body = await _body(request, self.config.max_bytes)
        asked = read_request(body, request.path_params.get("model"), self.models, self.config.max_rows)
        await self._check_tokens(asked, len(body))
        predictions, cut = await self._predictions(asked)
        self.metrics.rows.inc(len(asked.rows))
        headers = {"Inputs-Cut": str(cut)} if cut else None
        if cut:
            self.metrics.cut.inc(cut)
        return Response(as_line(predictions if asked.is_list else predictions[0]), headers=headers, media_type=JSON)

    async def _check_tokens(self, asked: Asked, size: int) -> None:
        """Refuse too many tokens; fewer bytes than that cannot hold them, so that few texts are tokenized twice."""
        if size <= self.config.max_tokens:
            return
        async with self.counting:
            count = await asyncio.to_thread(asked.model.count_tokens, asked.rows)
        if count > self.config.max_tokens:
            what = f"The request has {count:,} tokens; the maximum is {self.config.max_tokens:,}."
            raise Refused(413, what, "Send less at a time.")

    async def _predictions(self, asked: Asked) -> tuple[list[Prediction], int]:
        alone = asked.model.explain if asked.is_explained else None
        job = Job(asked.model.task_model, asked.rows, asyncio.get_running_loop().create_future(), alone)
        try:
            self.worker.submit(job)
        except Full:
            what = f"{self.config.max_queue:,} requests are waiting already."
            raise Refused(429, what, "Try again in a second.", {"Retry-After": "1"}) from None
        try:
            return await job.answer
        except Refused:
            raise
        except UserError as error:  # such as a package that is missing
            raise Refused(422, error.message, error.hint) from None

    async def health(self, request: Request) -> Response:
        """Answer `GET /health`: the models, and what each takes."""
        models = [model.described for model in self.models.values()]
        return Response(as_line({"status": "ok", "models": models}), media_type=JSON)

    async def show_metrics(self, request: Request) -> Response:
        """Answer `GET /metrics`."""
        return Response(generate_latest(self.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    def application(self) -> Starlette:
        """The application: its paths."""
        described = [model.described for model in self.models.values()]
        documented = openapi(described, limits_of(self.config), self.config.max_rows)
        pages = {"/": main_page(described), "/docs": docs_page(documented, self.address)}
        routes = [
            Route("/predict", self.predict, methods=["POST"]),
            Route("/predict/{model}", self.predict, methods=["POST"]),
            Route("/health", self.health),
            Route("/metrics", self.show_metrics),
            Route("/openapi.json", _constant(Response(as_line(documented), media_type=JSON))),
            *(Route(path, _constant(HTMLResponse(page, headers=HEADERS))) for path, page in pages.items()),
        ]
        return Starlette(routes=routes, exception_handlers=HANDLERS)


JSON = "application/json"


def limits_of(config: ServeConfig) -> str:
    """The bounds of a request in words."""
    return (
        f"A request has at most {config.max_bytes:,} bytes, {config.max_rows:,} rows and {config.max_tokens:,} tokens, and "
        f"{config.timeout_seconds:g} seconds. An input longer than its model takes is cut, and counted in the header "
        "Inputs-Cut of the answer. An error is one line of JSON."
    )


def as_line(values: Any) -> str:
    """A line of JSON."""
    return json.dumps(values, ensure_ascii=False) + "\n"


def _constant(response: Response) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return response

    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    return refusal(404, f"There is no {request.url.path}.", "See /docs.")


async def _wrong_method(request: Request, error: Any) -> Response:
    return refusal(405, f"{request.url.path} does not take {request.method}.", "See /docs.", error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return refusal(500, "Internal server error.", "The server's error stream says why.")


HANDLERS: Any = {404: _not_found, 405: _wrong_method, 500: _failed}


async def _body(request: Request, most: int) -> bytes:
    """The body of a request. Raises Refused if it is longer than `most` bytes."""
    announced = request.headers.get("content-length", "")
    parts, size, stream = [], int(announced) if announced.isdecimal() else 0, request.stream()
    if size <= most:
        size = 0
        async for part in stream:
            parts.append(part)
            size += len(part)
            if size > most:
                break
    if size <= most:
        return b"".join(parts)
    with suppress(TimeoutError):  # a client that is cut off while it sends does not see the answer
        async with asyncio.timeout(LINGER_SECONDS):
            async for _ in stream:
                pass
    raise Refused(413, f"The request is longer than {most:,} bytes.", "Send less at a time.", {"Connection": "close"})


def load_served(name: str, source: str, config: ServeConfig) -> ServedModel:
    """Load a model to serve. Raises UserError if `bert predict` cannot use it."""
    model = load_for_rows(source, kind_to_serve(source), config.precision, config.top_k, engine=config.engine)
    return ServedModel(name, cast(TaskModel, model), bool(takes_pairs(saved_config(source))), source)


def run_server(config: ServeConfig, models: dict[str, str], listener: socket.socket, address: str) -> int:
    """Serve until SIGINT or SIGTERM; return the number of requests that were answered."""
    served = {name: load_served(name, source, config) for name, source in models.items()}
    with quietly():  # so that no request waits for kernels to be loaded
        kernels.load()
        for each in served.values():
            each.task_model.predict_rows([each.task_model.kind.sample] * WARM_UP_ROWS)
    service = Service(config, served, address)
    BoundedProtocol.timeout_seconds = config.timeout_seconds
    silent: dict[str, Any] = {"log_config": None, "log_level": "error", "access_log": False, "server_header": False}
    plain: dict[str, Any] = {"http": BoundedProtocol, "ws": "none", "lifespan": "off", **silent}
    settings = uvicorn.Config(service.application(), timeout_graceful_shutdown=int(config.timeout_seconds) + 1, **plain)
    say(f"serving {', '.join(models)} at {address} (docs: {address}/docs); Ctrl-C stops it")
    server = uvicorn.Server(settings)

    def listen() -> None:
        try:
            server.run([listener])
        finally:
            service.worker.stop()

    with quietly(), _ended_by_signals(server):
        thread = threading.Thread(target=listen, name="http", daemon=True)
        thread.start()
        service.worker.run()
        thread.join()
    say(f"stopped: {service.answered:,} requests answered")
    return service.answered


@contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Pass SIGINT and SIGTERM to the server, whose thread gets no signals: it answers and ends; a second Ctrl-C ends it at once."""
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, server.handle_exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
