"""Draw how many products are neither saturated nor zero at initialization, by degree: docs/images/init.png.

Run: .venv/bin/python tools/draw_initialization.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from tgnn import TGNNConv
from tgnn.ops import neighbor_product

DEGREES = [1, 3, 10, 30, 100, 300, 1000, 3000, 10000]
RANK, FEATURES = 256, 16
IMAGES = Path(__file__).parent.parent / "docs" / "images"


def glorot(bias: float) -> Callable[[TGNNConv], None]:
    def initialize(conv: TGNNConv) -> None:
        torch.nn.init.xavier_uniform_(conv.cp.lin.weight)
        torch.nn.init.constant_(conv.cp.lin.bias, bias)

    return initialize


INITIALIZATIONS = {
    "tgnn: one scale per column, bias 1": (lambda conv: None, "#1f5fa8", "o-"),
    "Glorot, bias 1": (glorot(1.0), "#d9822b", "s--"),
    "Glorot, bias 0": (glorot(0.0), "#999999", "^--"),
}


def measure(initialize: Callable[[TGNNConv], None], degree: int) -> tuple[float, float, float]:
    """Measure the fraction of active products, the spread of tanh(product) and the gradient norm of W1 on ten stars."""
    torch.manual_seed(degree)
    conv = TGNNConv(FEATURES, 8, RANK)
    initialize(conv)
    star = torch.stack([torch.arange(1, degree + 1), torch.zeros(degree, dtype=torch.int64)])
    values, gradients = [], []
    for _ in range(10):
        conv.zero_grad()
        z = conv.cp.factors(torch.randn(degree + 1, FEATURES))
        value = neighbor_product(z, star, activation="tanh", self_loops=True)[0]
        conv.cp.update(value).sum().backward()
        values.append(value.detach())
        gradients.append(float(conv.cp.lin.weight.grad.norm()))
    products = torch.stack(values)
    active = ((products.abs() > 1e-3) & (products.abs() < 0.999)).float().mean()
    return float(active), float(products.std()), sum(gradients) / len(gradients)


def main() -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.7), layout="constrained")
    for name, (initialize, color, style) in INITIALIZATIONS.items():
        measurements = [measure(initialize, degree) for degree in DEGREES]
        for axis, column in zip(axes, zip(*measurements)):
            axis.plot(DEGREES, [max(v, 1e-8) for v in column], style, color=color, label=name, ms=4)
    for axis, title in zip(
        axes, ("fraction of active products", "standard deviation of tanh(product)", "gradient norm of W1")
    ):
        axis.set(title=title, xlabel="degree", xscale="log")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(0, 1.02)
    axes[1].set_ylim(0, None)
    axes[2].set_yscale("log")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(IMAGES / "init.png", dpi=130)


if __name__ == "__main__":
    main()
