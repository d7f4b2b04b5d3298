"""Training curves as pictures."""

from pathlib import Path
from typing import Any


def plot_run(metrics: list[dict[str, Any]], path: Path) -> None:
    """Plot loss, learning rate and evaluation metrics over the steps, as a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _plot_training(left, metrics)
    evaluations = [(line["step"], line["metrics"]) for line in metrics if "metrics" in line]
    names = {name for _, values in evaluations for name in values if not name.endswith(("loss", "thresh", "entropy"))}
    for name in sorted(names):
        points = [(step, values[name]) for step, values in evaluations if name in values]
        right.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    right.set(xlabel="step", ylabel="%")
    if evaluations:
        right.legend(fontsize=7)
        if entropy := evaluations[-1][1].get("token_entropy"):
            left.axhline(entropy, color="tab:red", linewidth=0.8, linestyle="--")
            left.annotate("entropy of the tokens", (0, entropy), fontsize=7, color="tab:red", va="bottom")
    figure.savefig(path, dpi=110)


def _plot_training(axes: Any, metrics: list[dict[str, Any]]) -> None:
    """Plot the loss, and the learning rate on an axis of its own."""
    lines = [line for line in metrics if "loss" in line]
    steps = [line["step"] for line in lines]
    name = "masked_lm_loss" if lines and "masked_lm_loss" in lines[0] else "loss"
    axes.plot(steps, [line[name] for line in lines], color="tab:blue")
    axes.set(xlabel="step", ylabel=f"training {name.replace('_', ' ')}")
    rate = axes.twinx()
    rate.plot(steps, [line["learning_rate"] for line in lines], color="tab:gray", linewidth=0.8)
    rate.set_ylabel("learning rate")
