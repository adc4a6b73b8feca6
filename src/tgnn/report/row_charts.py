"""Charts with one line per row: bars, dots with error bars, and critical difference diagrams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tgnn.report.charts import (
    NUM_COLORS,
    Chart,
    error_bars,
    hover_labels,
    plain_text,
    rounded,
    scatter,
    shorten,
    value_range,
    values_with_bars,
    vertical_line,
)

_ROW_HEIGHT = 24


class Bar(NamedTuple):
    """Bar of a row: its length, the label at its end, and the label at the pointer."""

    row: str
    length: float
    text: str
    label: str
    color: str = "var(--c0)"


def bar_chart(title: str, bars: Sequence[Bar], x_name: str, mark: float | None = None) -> Chart:
    """Draw horizontal bars from top to bottom, with a vertical line at ``mark``."""
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": rounded(bar.length for bar in bars),
        "y": list(range(len(bars))),
        "text": [plain_text(bar.text) for bar in bars],
        "textposition": "outside",
        "textangle": 0,
        "cliponaxis": False,
        "marker": {"color": [bar.color for bar in bars]},
        **hover_labels([bar.label for bar in bars]),
    }
    longest = max(bar.length for bar in bars) or 1
    layout: dict[str, Any] = {
        "showlegend": False,
        "xaxis": {"title": {"text": plain_text(x_name)}, "range": rounded([0, 1.24 * longest]), "nticks": 5},
        "yaxis": _row_axis([bar.row for bar in bars]),
    }
    if mark is not None:
        layout["shapes"] = [vertical_line(mark, "dash")]
    alternative = f"{title}: {x_name}: " + ", ".join(f"{bar.row} {bar.text}" for bar in bars)
    return Chart(title, alternative.removeprefix(": "), [trace], layout, 80 + _ROW_HEIGHT * len(bars))


class Dot(NamedTuple):
    """Score of a row with the ends of its error bar, ``None`` if missing, and the label at the pointer."""

    label: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


def dot_plot(title: str, rows: Sequence[str], series: Mapping[str, Sequence[Dot]], x_name: str) -> Chart:
    """Draw dots with error bars. Every series has a dot for every row. The text alternative contains all labels."""
    data = []
    for style, (name, dots) in enumerate(series.items()):
        color, values = f"var(--c{style % NUM_COLORS})", [dot.value for dot in dots]
        ys = [row - 0.12 + 0.24 * style for row in range(len(dots))]  # error bars must not overlap
        symbol = ("circle", "diamond-open")[style % 2]
        trace = scatter(name, "markers", values, ys) | hover_labels([dot.label for dot in dots])
        trace["marker"] = {"color": color, "size": 8, "symbol": symbol, "line": {"width": 1.5, "color": color}}
        trace["error_x"] = error_bars(values, [dot.low for dot in dots], [dot.high for dot in dots], color)
        data.append(trace)
    x_range = value_range(value for trace in data for value in values_with_bars(trace, "x"))
    layout = {
        "hovermode": "closest",
        "showlegend": True,
        "xaxis": {"title": {"text": plain_text(x_name)}, "range": rounded(x_range), "nticks": 5},
        "yaxis": _row_axis(rows),
    }
    labels = "; ".join(dot.label for dots in zip(*series.values()) for dot in dots)
    return Chart(title, f"{title}: {labels}", data, layout, 108 + _ROW_HEIGHT * len(rows))


def critical_difference(ranks: Mapping[str, float], critical: float) -> Chart:
    """Draw average ranks on an axis, best on the left (Demšar, 2006).

    A bar joins ranks without a significant difference. One unit of the y axis is one pixel, counted upwards from the
    axis of the ranks.
    """
    order = sorted(ranks, key=lambda row: ranks[row])
    half = math.ceil(len(order) / 2)
    groups = cliques(ranks, critical)
    first, last = 0.9, max(2, math.ceil(max(ranks.values()))) + 0.1
    labels_top = -24 - 9 * len(groups)
    bottom, top = labels_top - 21 * (half - 1) - 14, 44
    leaders: list[tuple[float, float]] = []
    names = []
    for index, row in enumerate(order):
        on_left = index < half
        y = labels_top - 21 * (index if on_left else len(order) - 1 - index)
        leaders += [(ranks[row], 0), (ranks[row], y), (first if on_left else last, y), (math.nan, math.nan)]
        text = plain_text(f"{shorten(row, 14)}  {ranks[row]:.2f}")
        side = {"x": 0, "xanchor": "right", "xshift": -5} if on_left else {"x": 1, "xanchor": "left", "xshift": 5}
        names.append({"text": text, "xref": "paper", "y": y, "yanchor": "middle", "showarrow": False, **side})
    bars = [(x, -10 - 9 * k) for k, ends in enumerate(groups) for x in (*ends, math.nan)]
    lines = (
        ("", leaders, "var(--strong)", 1),
        (f"critical difference {critical:.2f}", [(1, 32), (min(1 + critical, last), 32)], "var(--text)", 2),
        ("no significant difference", bars, "var(--c1)", 5),
    )
    data = [
        scatter(name, "lines", [x for x, _ in ends], [y for _, y in ends], line={"color": color, "width": width})
        | {"hoverinfo": "skip", "showlegend": bool(name)}
        for name, ends, color, width in lines
    ]
    dots = scatter("", "markers", [ranks[row] for row in order], [0] * len(order), showlegend=False)
    dots |= hover_labels([f"{row}: average rank {ranks[row]:.2f}" for row in order])
    margin = 18 + 7 * max(len(shorten(row, 14)) + 6 for row in order)
    layout = {
        "annotations": names,
        "hovermode": "closest",
        "margin": {"l": margin, "r": margin, "t": 26, "b": 36},
        "showlegend": True,
        "xaxis": {"range": rounded([first, last]), "dtick": 1, "position": -bottom / (top - bottom), "anchor": "free"}
        | {"fixedrange": True, "showgrid": False, "side": "top", "ticks": "outside"},
        "yaxis": {"range": [bottom, top], "fixedrange": True, "visible": False},
    }
    alternative = "Average ranks, 1 is best: " + ", ".join(f"{row} {ranks[row]:.2f}" for row in order)
    data.append(dots | {"marker": {"color": "var(--c0)", "size": 8}})
    return Chart("", alternative, data, layout, top - bottom + 62, wide=True)


def cliques(ranks: Mapping[str, float], critical: float) -> list[tuple[float, float]]:
    """Find the maximal groups of ranks without a significant difference, as their first and last rank.

    Example:
        >>> cliques({"a": 1.0, "b": 1.5, "c": 2.4, "d": 4.0}, 1.0)
        [(1.0, 1.5), (1.5, 2.4)]
    """
    values = sorted(ranks.values())
    groups: list[tuple[float, float]] = []
    for low in values:
        high = max(value for value in values if value == low or value - low < critical)
        if high > low and not (groups and groups[-1][1] >= high):
            groups.append((low, high))
    return groups


def _row_axis(rows: Sequence[str]) -> dict[str, Any]:
    """Return a y axis with one name per row, from top to bottom."""
    names = [plain_text(shorten(row, 18)) for row in rows]
    ticks = {"tickvals": list(range(len(rows))), "ticktext": names, "tickfont": {"color": "var(--text)"}}
    return {**ticks, "ticklabelstandoff": 5, "range": [len(rows) - 0.4, -0.6], "showgrid": False}
