"""Draw the diagrams of the docs: a CP layer beside sum pooling (README), and nested function classes (theory.md).

Run: .venv/bin/python tools/draw_pooling_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

BLUE, ORANGE, GRAY, INK = "#cfe0f3", "#fbdcc0", "#eeeeee", "#222222"
IMAGES = Path(__file__).parent.parent / "docs" / "images"


def box(axis: Axes, x: float, y: float, text: str, color: str, width: float = 1.5, height: float = 0.62) -> None:
    patch = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0.02,rounding_size=0.12",
        fc=color,
        ec=INK,
        lw=1,
    )
    axis.add_patch(patch)
    axis.text(x, y, text, ha="center", va="center", fontsize=11, color=INK)


def arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, lw=1, color=INK, shrinkA=0, shrinkB=0)
    )


def draw_neighbors(axis: Axes) -> list[float]:
    heights = [3.0, 2.0, 1.0]
    for i, y in enumerate(heights, 1):
        axis.add_patch(Circle((0.45, y), 0.33, fc=GRAY, ec=INK, lw=1))
        axis.text(0.45, y, rf"$x_{i}$", ha="center", va="center", fontsize=12)
    return heights


def pooling() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.6), width_ratios=[7.6, 10.2], layout="constrained")
    for axis, title in ((left, "sum pooling"), (right, "CP layer (Definition 1)")):
        axis.set_title(title, fontsize=13, color=INK, loc="left")
        axis.set_aspect("equal")
        axis.axis("off")
        for y in draw_neighbors(axis):
            low = axis is left
            arrow(axis, (0.8, y), (1.51 if low else 1.27, y))
            box(axis, 2.05, y, r"$W_2^\top$" if low else r"$W_1^\top[\,\cdot\,;1]$", GRAY, 1.0 if low else 1.5)
            arrow(axis, (2.57 if low else 2.83, y), (3.45, 2.0 + (y - 2) * 0.18))
    box(left, 3.85, 2.0, r"$\Sigma$", BLUE, 0.75, 0.75)
    arrow(left, (4.25, 2), (4.75, 2))
    left.text(4.85, 2, r"$W_2^\top(x_1 + x_2 + x_3)$", va="center", fontsize=12)
    left.text(4.85, 1.45, "first order only", va="center", fontsize=10, color="#666666")
    left.set(xlim=(0, 7.6), ylim=(0.4, 3.6))
    box(right, 3.85, 2.0, r"$\prod$", ORANGE, 0.75, 0.75)
    arrow(right, (4.25, 2), (4.7, 2))
    box(right, 5.1, 2.0, r"$\tanh$", GRAY, 0.8)
    arrow(right, (5.52, 2), (5.95, 2))
    box(right, 6.3, 2.0, r"$M$", GRAY, 0.66)
    arrow(right, (6.65, 2), (7.1, 2))
    right.text(7.2, 2.0, r"$1,\ x_i,\ x_i x_j,\ x_1 x_2 x_3$", va="center", fontsize=12)
    right.text(7.2, 1.45, "all orders up to the degree", va="center", fontsize=10, color="#666666")
    right.set(xlim=(0, 10.2), ylim=(0.4, 3.6))
    figure.savefig(IMAGES / "pooling.png", dpi=130, bbox_inches="tight", facecolor="white")


def function_spaces() -> None:
    """Draw four nested classes of functions, as in the paper's theory section."""
    figure, axis = plt.subplots(figsize=(9.6, 5.3), layout="constrained")
    axis.set_aspect("equal")
    axis.axis("off")
    # From the outside in: name, note, half width, half height, color.
    functions = r"e.g. $\max(x_1, \ldots, x_k)$"
    layers = r"Theorem 3: few are functions of the sum  ·  e.g. $\tanh(x_1 x_2 \cdots x_k)$"
    polynomials = r"Theorem 1: all are CP layers  ·  e.g. $\sum_{i<j}\, x_i\, x_j$"
    sums = r"Theorem 2: rank $F k$ is enough"
    sets = [
        ("permutation-invariant functions", functions, 5.2, 2.86, "#f6f6f6"),
        ("CP layers", layers, 4.3, 2.22, "#fdeee0"),
        ("permutation-invariant multilinear polynomials", polynomials, 3.4, 1.58, ORANGE),
        ("sum and mean", sums, 1.75, 0.74, BLUE),
    ]
    bottom = 0.0
    for name, note, width, height, color in sets:
        axis.add_patch(
            FancyBboxPatch(
                (-width, bottom),
                2 * width,
                2 * height,
                boxstyle=f"round,pad=0,rounding_size={min(0.6, height)}",
                fc=color,
                ec=INK,
                lw=1.1,
            )
        )
        inner = name == "sum and mean"
        top = bottom + 2 * height - (0.52 if inner else 0.34)
        axis.text(0, top, name, ha="center", va="center", fontsize=12.5, color=INK, weight="bold")
        axis.text(0, top - (0.46 if inner else 0.4), note, ha="center", va="center", fontsize=11, color="#555555")
        bottom += 0.2
    axis.set(xlim=(-5.4, 5.4), ylim=(-0.15, 5.87))
    path = IMAGES / "function_spaces.png"
    figure.savefig(path, dpi=130, bbox_inches="tight", facecolor="white")


def main() -> None:
    pooling()
    function_spaces()


if __name__ == "__main__":
    main()
