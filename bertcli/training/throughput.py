"""Model FLOPs utilization: the FLOPs of training, and the peak of the device."""

import time
from collections.abc import Iterable
from functools import lru_cache

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from bertcli.data.packing.batches import PackedBatch
from bertcli.kernels import switched_off
from bertcli.models.own.two_streams import has_two_streams

# Dense bfloat16 peaks from the data sheets, FLOP/s.
BFLOAT16_PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "B200": 2250e12}
PRODUCT_SIZE, PRODUCTS = 1024, 20  # rows and columns of the measured matrices; the maximum number of products


def training_flops(model: PreTrainedModel, batch: PackedBatch) -> float:
    """The FLOPs of forward and backward over the tokens of a batch, a multiply-add counted as two.

    6 (T L (4 H² + 2 H I) + 2 L H Σ length² + M (H E + E V)) for T tokens, of which M are masked, where embeddings of E are as
    wide as the layers; others have a product to the width of the layers, and a model without a vocabulary a head for each
    token. Padding, embeddings, pooler, optimizer and a frozen model count nothing.
    """
    config = model.config
    if not next(model.base_model.parameters()).requires_grad:
        return 0.0
    hidden: int = config.hidden_size
    layers: int = config.num_hidden_layers
    inner: int = getattr(config, "intermediate_size", 4 * hidden)
    masked = len(batch.labels.get("masked_lm_ids", ()))
    layer = 4 * hidden**2 + 2 * hidden * inner  # of a token
    encoder = len(batch.input_ids) * layers * layer
    attention = 2.0 * layers * hidden * sum(length**2 for length in batch.lengths)
    if has_two_streams(model):
        predicts, without_keys = "predictions" in batch.labels, layer - 2 * hidden**2
        encoder += masked * layers * without_keys  # of predictions
        encoder -= predicts * len(batch.input_ids) * without_keys  # the last layer has the keys of tokens alone
        shares = layers + predicts * (layers * masked / len(batch.input_ids) - 1)
        attention *= 2 * shares / layers  # half of it is of distances
    width: int = getattr(config, "embedding_size", hidden)
    head = masked * width * (hidden + int(config.vocab_size))
    if masked and model.get_output_embeddings() is None:  # it tells tokens apart
        head = len(batch.input_ids) * hidden * (hidden + 1)
    return 6.0 * (encoder + attention + head + len(batch.input_ids) * width * hidden * (width != hidden))


def count_flops(model: nn.Module, batch: PackedBatch) -> float:
    """The FLOPs of forward and backward over a batch, as torch counts them by the shapes of the products; weights stay."""
    is_training = model.training
    model.eval()
    # Only the plain attention is made of products that have counts.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), switched_off():
        torch.autograd.backward(list(model(batch).values()))
    model.zero_grad(set_to_none=True)
    model.train(is_training)
    return float(counter.get_total_flops())


def work_of(models: Iterable[PreTrainedModel], micro_batches: list[PackedBatch]) -> dict[str, float]:
    """The tokens and FLOPs of a step of models that are trained together, and what each of its losses is divided by."""
    work = {"tokens": 0.0, "flops": 0.0}
    for batch in micro_batches:
        flops = sum(training_flops(model, batch) for model in models)
        counts = {"tokens": len(batch.input_ids), "flops": flops, **batch.counts}
        work |= {name: work.get(name, 0) + count for name, count in counts.items()}
    return work


@lru_cache
def peak_flops(device: torch.device, dtype: torch.dtype) -> tuple[float, str]:
    """The peak FLOP/s of a device, and its source: the data sheet, else large matrix products measured here."""
    if device.type == "cuda" and dtype == torch.bfloat16:
        name = torch.cuda.get_device_name(device)
        for chip, peak in BFLOAT16_PEAKS.items():
            if chip in name:
                return peak, f"the bfloat16 peak of {chip}, {peak / 1e12:,.0f} TFLOP/s"
    peak = _measured_flops(device, dtype)
    return peak, f"the {peak / 1e12:,.2f} TFLOP/s of large matrix products here"


def _measured_flops(device: torch.device, dtype: torch.dtype) -> float:
    """The fastest of several products after a warm-up; fewer on a slow device."""
    left, right = (torch.ones(PRODUCT_SIZE, PRODUCT_SIZE, dtype=dtype, device=device) for _ in range(2))
    times: list[float] = []
    while len(times) < 3 or (len(times) < PRODUCTS and sum(times) < 0.2):
        started = time.perf_counter()
        float((left @ right)[0, 0])  # read back, to wait for a GPU
        times.append(time.perf_counter() - started)
    return 2.0 * PRODUCT_SIZE**3 / min(times[1:])
