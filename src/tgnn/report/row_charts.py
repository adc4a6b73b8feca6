"""Charts with one line per row: bars, dots with error bars, and critical difference diagrams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgnn.report.charts import (
    NUM_COLORS,
    Chart,
    error_bars,
    hover_labels,
    plain_text,
    rounded,
    shorten,
    value_range,
    vertical_line,
)

_NAME_LENGTH = 18
_ROW_HEIGHT = 24


@dataclass(frozen=True)
class Bar:
    """One bar: name of the row, length, label at its end, and label when the pointer is over it."""

    row: str
    length: float
    label: str
    tip: str
    color: str = "var(--c0)"


def bar_chart(title: str, bars: Sequence[Bar], name: str, at: float | None = None) -> Chart:
    """Draw horizontal bars.

    Args:
        title: Title above the chart.
        bars: Bars from top to bottom.
        name: Label of the axis.
        at: Value of a vertical line.
    """
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": rounded([bar.length for bar in bars]),
        "y": list(range(len(bars))),
        "text": [plain_text(bar.label) for bar in bars],
        "textposition": "outside",
        "textangle": 0,
        "cliponaxis": False,
        "marker": {"color": [bar.color for bar in bars]},
        **hover_labels([bar.tip for bar in bars]),
    }
    longest = max(bar.length for bar in bars) or 1
    layout: dict[str, Any] = {
        "showlegend": False,
        "xaxis": {"title": {"text": plain_text(name)}, "range": rounded([0, 1.24 * longest]), "nticks": 5},
        "yaxis": _row_axis([bar.row for bar in bars]),
    }
    if at is not None:
        layout["shapes"] = [vertical_line(at, "dash")]
    alternative = f"{title}: {name}: " + ", ".join(f"{bar.row} {bar.label}" for bar in bars)
    return Chart(title, alternative.removeprefix(": "), [trace], layout, 80 + _ROW_HEIGHT * len(bars))


@dataclass(frozen=True)
class Dot:
    """Score of one row.

    Args:
        row: Name of the row.
        value: Score, ``None`` if missing.
        low: Lower end of the error bar.
        high: Upper end of the error bar.
        tip: Label when the pointer is over the dot.
    """

    row: str
    value: float | None
    low: float | None
    high: float | None
    tip: str


def dot_plot(title: str, series: Mapping[str, Sequence[Dot]], name: str, alternative: str) -> Chart:
    """Draw dots with error bars, one line per row. Every series has a dot for every row.

    Args:
        title: Title above the chart.
        series: Dots by the name in the legend.
        name: Label of the axis.
        alternative: Text alternative.
    """
    data = []
    for style, (series_name, dots) in enumerate(series.items()):
        color, values = f"var(--c{style % NUM_COLORS})", [dot.value for dot in dots]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plain_text(series_name),
                "x": rounded(values),
                "y": [row - 0.12 + 0.24 * style for row in range(len(dots))],  # error bars must not overlap
                "error_x": error_bars(values, [dot.low for dot in dots], [dot.high for dot in dots], color),
                "marker": {
                    "color": color,
                    "size": 8,
                    "symbol": ("circle", "diamond-open")[style % 2],
                    "line": {"width": 1.5, "color": color},
                },
                **hover_labels([dot.tip for dot in dots]),
            }
        )
    every = [end for dots in series.values() for dot in dots for end in (dot.value, dot.low, dot.high)]
    rows = [dot.row for dot in next(iter(series.values()))]
    layout = {
        "hovermode": "closest",
        "showlegend": True,
        "xaxis": {"title": {"text": plain_text(name)}, "range": rounded(value_range(every)), "nticks": 5},
        "yaxis": _row_axis(rows),
    }
    return Chart(title, alternative, data, layout, 108 + _ROW_HEIGHT * len(rows))


def cliques(ranks: Mapping[str, float], critical: float) -> list[tuple[float, float]]:
    """Find the maximal groups of ranks without a significant difference, as their first and last rank.

    Example:
        >>> cliques({"a": 1.0, "b": 1.5, "c": 2.4, "d": 4.0}, 1.0)
        [(1.0, 1.5), (1.5, 2.4)]
    """
    values = sorted(ranks.values())
    groups: list[tuple[float, float]] = []
    for first, low in enumerate(values):
        last = max(k for k in range(first, len(values)) if values[k] - low < critical or k == first)
        high = values[last]
        if last > first and not (groups and groups[-1][1] >= high):
            groups.append((low, high))
    return groups


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
    difference = [(1, 32), (min(1 + critical, last), 32)]
    tips = hover_labels([f"{row}: average rank {ranks[row]:.2f}" for row in order])
    data = [
        _line_trace("", leaders, "var(--strong)", 1) | {"showlegend": False},
        _line_trace(f"critical difference {critical:.2f}", difference, "var(--text)", 2),
        _line_trace("no significant difference", bars, "var(--c1)", 5),
        {
            **{"type": "scatter", "mode": "markers", "showlegend": False, "x": rounded([ranks[row] for row in order])},
            **{"y": [0] * len(order), "marker": {"color": "var(--c0)", "size": 8}, **tips},
        },
    ]
    bottom, top = labels_top - 21 * (half - 1) - 14, 44
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
    return Chart("", alternative, data, layout, top - bottom + 62, wide=True)


def _row_axis(rows: Sequence[str]) -> dict[str, Any]:
    """Return a y axis with one name per row, from top to bottom."""
    names = [plain_text(shorten(row, _NAME_LENGTH)) for row in rows]
    ticks = {"tickvals": list(range(len(rows))), "ticktext": names, "tickfont": {"color": "var(--text)"}}
    return {**ticks, "ticklabelstandoff": 5, "range": [len(rows) - 0.4, -0.6], "showgrid": False}


def _line_trace(name: str, points: Sequence[tuple[float, float]], color: str, width: int) -> dict[str, Any]:
    xs, ys = rounded(x for x, _ in points), rounded(y for _, y in points)
    line = {"color": color, "width": width}
    return {"type": "scatter", "mode": "lines", "name": name, "x": xs, "y": ys, "line": line, "hoverinfo": "skip"}
