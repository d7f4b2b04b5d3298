"""Our side where a whole command would time more than its peer does: the loading of a model, or a step as one."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from bertcli.config.use import PredictConfig
from bertcli.lifecycle.predict import stream
from bertcli.lifecycle.pretrain import pretrain
from bertcli.training.loop import Training


def predict(texts: str, model: str, precision: str) -> dict[str, Any]:
    """Label the lines of a file; reading and tokenizing count, loading the model does not."""
    found = stream(PredictConfig.build(None, {"file": texts, "model": model, "precision": precision}))
    started = time.perf_counter()
    labels = [record["label"] for record in found.records]
    return {"texts_per_second": len(labels) / (time.perf_counter() - started), "labels": labels}


def outside(shards: str, steps: str, batch_size: str, model: str, out: str) -> dict[str, Any]:
    """The share of the loop's time that neither forward, backward nor the optimizer and its copies take."""
    inside: dict[str, float] = {}

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                inside[name] = inside.get(name, 0.0) + time.perf_counter() - started

        return run

    setup = Training.__init__

    def instrumented(self: Training, *args: Any, **kwargs: Any) -> None:
        setup(self, *args, **kwargs)
        self.module.forward = timed("forward", self.module.forward)
        self.accelerator.backward = timed("backward", self.accelerator.backward)  # type: ignore[method-assign]
        self.optimizer.step = timed("optimizer", self.optimizer.step)  # type: ignore[method-assign]
        self.working_copy.give_gradients = timed("optimizer", self.working_copy.give_gradients)  # type: ignore[method-assign]

    run, seconds = Training._step, []

    def step(self: Training, *args: Any) -> tuple[int, bool]:
        """Between the starts of two steps lies all that a step costs: waiting for data, logging, progress."""
        seconds.append((time.perf_counter(), sum(inside.values())))
        return run(self, *args)

    Training.__init__, Training._step = instrumented, step  # type: ignore[method-assign]
    pretrain(data=shards, steps=int(steps), batch_size=int(batch_size), from_=model, out=out)
    (first, before), (last, after) = seconds[3], seconds[-1]
    return {"share_outside": 1 - (after - before) / (last - first), **inside}


if __name__ == "__main__":
    print(json.dumps({"predict": predict, "outside": outside}[sys.argv[1]](*sys.argv[2:])))
