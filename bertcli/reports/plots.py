"""The curves of a run as pictures."""

from pathlib import Path
from typing import Any


def plot_run(metrics: list[dict[str, Any]], path: Path) -> None:
    """Draw loss, learning rate and what was measured over the steps, to a PNG."""
    from matplotlib.figure import Figure

    logged = [line for line in metrics if "loss" in line]
    measured = [line for line in metrics if "metrics" in line]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    name = "masked_lm_loss" if logged and "masked_lm_loss" in logged[0] else "loss"
    steps = [line["step"] for line in logged]
    left.plot(steps, [line[name] for line in logged], color="tab:blue")
    left.set(xlabel="step", ylabel=f"training {name.replace('_', ' ')}")
    if measured and (entropy := measured[-1]["metrics"].get("token_entropy")):
        left.axhline(entropy, color="tab:red", linewidth=0.8, linestyle="--")
        left.annotate("token frequencies alone", (0, entropy), fontsize=7, color="tab:red", va="bottom")
    rate = left.twinx()
    rate.plot(steps, [line["learning_rate"] for line in logged], color="tab:gray", linewidth=0.8)
    rate.set_ylabel("learning rate")
    shares = {name for line in measured for name in line["metrics"] if not name.endswith(("loss", "thresh", "entropy"))}
    for name in sorted(shares):
        points = [(line["step"], line["metrics"][name]) for line in measured if name in line["metrics"]]
        right.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    right.set(xlabel="step", ylabel="%")
    if measured:
        right.legend(fontsize=7)
    figure.savefig(path, dpi=110)
