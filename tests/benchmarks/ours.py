"""Our side where a whole command would time more than its peer does: the loading of a model, or a step as one."""

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bertcli.config.use import PredictConfig
from bertcli.families.bert import BERT
from bertcli.lifecycle.predict import stream
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.packed import PACKED, prepare_layers
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


def encode(size: str, objective: str, length: str, batch_size: str, steps: str, precision: str) -> dict[str, Any]:
    """Forward and backward of an encoder as an objective has it, on sequences of random tokens of half the length to all of it."""
    import numpy as np
    import torch

    from bertcli.data.packing.batches import pack
    from bertcli.models import encoder
    from bertcli.models.model_with_loss import ModelWithLoss
    from bertcli.models.working_copy import WorkingCopy
    from bertcli.objectives import get_objective

    asked = get_objective(objective)
    config = BERT.new_config(size, vocab_size=8000, attn_implementation=PACKED, **asked.labels)
    model = asked.auto_class().from_config(config)
    prepare_layers(model)
    with_loss = ModelWithLoss(
        model, lambda own, batch: {"states": encoder.encode(own, batch)}, lambda out, _: {"loss": out["states"].sum()}
    )
    module = WorkingCopy(with_loss, getattr(torch, precision)).module
    draw = np.random.default_rng(0)
    lengths = np.sort(draw.integers(int(length) // 2, int(length) + 1, int(batch_size)))[::-1].copy()
    batch = pack(draw.integers(5, 8000, lengths.sum()), None, lengths, np.arange(len(lengths)))
    seconds = []
    for _ in range(int(steps)):
        started = time.perf_counter()
        module(batch)["loss"].float().backward()
        seconds.append(time.perf_counter() - started)
    return {"tokens_per_second": int(lengths.sum()) / median(seconds[2:])}


if __name__ == "__main__":
    print(json.dumps({"predict": predict, "outside": outside, "encode": encode}[sys.argv[1]](*sys.argv[2:])))
