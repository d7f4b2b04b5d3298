"""The queue of a server: requests are gathered into packed batches while the machine is busy."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from bertcli.kinds.types import Prediction, Row
from bertcli.lifecycle.scoring.task_model import TaskModel

GATHERING_SECONDS = 0.001  # without a new request, after which a busy server takes those that wait
CHARACTERS_PER_TOKEN = 4  # about, in English; only how much is gathered depends on it


@dataclass(eq=False)
class Job:
    """The rows of a request, and where its answer goes."""

    model: TaskModel
    rows: list[Row]
    answer: asyncio.Future[tuple[list[Prediction], int]]  # the predictions, and how many inputs were cut
    alone: Callable[[list[Row]], tuple[list[Prediction], int]] | None = None  # what answers it instead of the model
    tokens: float = field(init=False)

    def __post_init__(self) -> None:
        characters = sum(len(str(value)) for row in self.rows for value in row.values())
        self.tokens = inf if self.alone else characters // CHARACTERS_PER_TOKEN + 2 * len(self.rows)


class Full(Exception):
    """The queue has no room."""


class Worker:
    """Runs the models in one thread: it takes what is waiting, up to a number of tokens; an idle one never waits for more."""

    def __init__(self, tokens: int, most: int, observe: Callable[[int], object] = lambda rows: None) -> None:
        self.tokens, self.most, self.observe = tokens, most, observe
        self.waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stops, self._taken = False, 0

    def submit(self, job: Job) -> None:
        """Put a request into the queue. Raises Full if there is no room."""
        with self._changed:
            if len(self.waiting) >= self.most or self._stops:
                raise Full
            self.waiting.append(job)
            self._changed.notify()

    def stop(self) -> None:
        """Have `run` answer what is waiting, and end."""
        with self._changed:
            self._stops = True
            self._changed.notify()

    def run(self) -> None:
        """Answer until `stop`. Call it in the main thread: in another, OpenMP takes twice as long for a single text."""
        while jobs := self._take():
            jobs = [job for job in jobs if not job.answer.cancelled()]  # whose time was up
            self.observe(sum(len(job.rows) for job in jobs))
            found = _predict(jobs)
            for loop in {job.answer.get_loop() for job in jobs}:
                with suppress(RuntimeError):  # the loop has ended, and nobody waits for the answers
                    loop.call_soon_threadsafe(_deliver, [pair for pair in found if pair[0].answer.get_loop() is loop])

    def _take(self) -> list[Job]:
        """What is waiting, up to the number of tokens; nothing once it stops."""
        with self._changed:
            self._changed.wait_for(lambda: self.waiting or self._stops)
            while len(self.waiting) < self._taken and self._changed.wait(GATHERING_SECONDS):
                pass  # clients that were answered together send their next requests together, within some milliseconds
            jobs: list[Job] = []
            room: float = self.tokens
            while self.waiting and (not jobs or self.waiting[0].tokens <= room):
                jobs.append(self.waiting.popleft())
                room -= jobs[-1].tokens
            self._taken = len(jobs)
            return jobs


Answer = tuple[list[Prediction], int] | Exception


def _deliver(found: list[tuple[Job, Answer]]) -> None:
    for job, answer in found:
        if job.answer.done():
            continue
        if isinstance(answer, Exception):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)


def _predict(jobs: list[Job]) -> list[tuple[Job, Answer]]:
    """The answer to each request; if they fail together, each is tried alone, so that one does not spoil the others."""
    try:
        return list(zip(jobs, _together(jobs), strict=True))
    except Exception as error:
        return [(jobs[0], error)] if len(jobs) == 1 else [pair for job in jobs for pair in _predict([job])]


def _together(jobs: list[Job]) -> list[Answer]:
    """The answers to several requests: rows of the same model and columns go into the same packed batches."""
    if alone := jobs[0].alone:  # nothing else is taken with it
        return [alone(jobs[0].rows)]
    alike: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for number, job in enumerate(jobs):
        for place, row in enumerate(job.rows):
            alike[id(job.model), *sorted(row), len(row.get("choices", ()))].append((number, place))
    found: list[list[Prediction]] = [[{}] * len(job.rows) for job in jobs]
    is_cut = False
    for places in alike.values():
        model = jobs[places[0][0]].model
        predictions, lost = model.predict_rows([jobs[number].rows[place] for number, place in places])
        is_cut |= lost.inputs > 0
        for (number, place), prediction in zip(places, predictions, strict=True):
            found[number][place] = prediction
    cut = [sum(job.model.count_cut([row]) for row in job.rows) if is_cut else 0 for job in jobs]
    return list(zip(found, cut, strict=True))
