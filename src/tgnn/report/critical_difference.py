"""Critical-difference diagram as SVG (Demšar, 2006)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from markupsafe import Markup

from tgnn.report.svg import Scale, join, line, picture, short, text

_SIDE = 130.0


def cliques(ranks: Mapping[str, float], critical: float) -> list[tuple[float, float]]:
    """Find the maximal groups of ranks without a significant difference, as their first and last rank.

    Example:
        >>> cliques({"a": 1.0, "b": 1.5, "c": 2.4, "d": 4.0}, 1.0)
        [(1.0, 1.5), (1.5, 2.4)]
    """
    values = sorted(ranks.values())
    found: list[tuple[float, float]] = []
    for place, low in enumerate(values):
        last = max(k for k in range(place, len(values)) if values[k] - low < critical or k == place)
        high = values[last]
        if last > place and not (found and found[-1][1] >= high):
            found.append((low, high))
    return found


def critical_difference(ranks: Mapping[str, float], critical: float, width: float = 640) -> Markup:
    """Draw average ranks on an axis, best on the left. A bar joins ranks without a significant difference."""
    order = sorted(ranks, key=lambda row: ranks[row])
    half = math.ceil(len(order) / 2)
    groups = cliques(ranks, critical)
    axis_y = 58.0
    across = Scale(1, max(2, math.ceil(max(ranks.values()))), _SIDE, width - _SIDE)
    first = axis_y + 22 + 9 * len(groups)
    height = first + 21 * half + 4
    parts = [line(across.start, axis_y, across.end, axis_y, "axis strong")]
    for value in range(1, int(across.high) + 1):
        parts.append(line(across(value), axis_y - 6, across(value), axis_y, "axis strong"))
        parts.append(text(across(value), axis_y - 11, str(value), kind="tick"))
    end = min(across(1 + critical), width - 4)
    parts += [line(across(1), 16, end, 16, "axis strong"), line(across(1), 12, across(1), 20, "axis strong")]
    parts += [line(end, 12, end, 20, "axis strong")] if across(1 + critical) <= width - 4 else []
    parts.append(text(across(1), 32, f"critical difference {critical:.2f}", "start", "tick"))
    for place, (low, high) in enumerate(groups):
        y = axis_y + 10 + 9 * place
        parts.append(line(across(low) - 4, y, across(high) + 4, y, "clique"))
    for place, row in enumerate(order):
        parts.append(_leader(row, ranks[row], across, axis_y, first, place, half, len(order), width))
    label = "Average ranks, 1 is best: " + ", ".join(f"{row} {ranks[row]:.2f}" for row in order)
    return Markup('<figure class="chart wide">{}</figure>').format(picture(width, height, label, *parts))


def _leader(
    row: str, rank: float, across: Scale, axis_y: float, first: float, place: int, half: int, rows: int, width: float
) -> Markup:
    """Draw the line from a rank on the axis to the name of its row."""
    left = place < half
    y = first + 21 * (place if left else rows - 1 - place)
    x, side = across(rank), (_SIDE - 12 if left else width - _SIDE + 12)
    words = f"{short(row, 14)}  {rank:.2f}"
    return join(
        [
            Markup('<path class="leader" d="M{:.1f} {:.1f}V{:.1f}H{:.1f}"/>').format(x, axis_y, y, side),
            Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(x, axis_y),
            text(side - 5 if left else side + 5, y + 4, words, "end" if left else "start", "label"),
        ]
    )
