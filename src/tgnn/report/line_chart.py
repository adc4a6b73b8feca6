"""Line charts, with an optional second axis on the right and markers for single points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tgnn.report.charts import (
    NUM_COLORS,
    Chart,
    error_bars,
    hover_labels,
    legend_height,
    plain_text,
    rounded,
    value_range,
    vertical_line,
)

POINTS = 400
"""Maximum number of points drawn per curve."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "pentagon", "x")


@dataclass(frozen=True)
class Curve:
    """One curve of a line chart.

    Args:
        name: Name in the legend.
        xs: Ascending x values.
        ys: y values, ``None`` if missing.
        style: Index of color and marker.
        dash: Index of the dash pattern.
        right: Whether the curve uses the right axis.
        points: Whether to draw markers.
        low: Lower ends of the confidence intervals.
        high: Upper ends of the confidence intervals.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float | None]
    style: int = 0
    dash: int = 0
    right: bool = False
    points: bool = False
    low: Sequence[float | None] = field(default=())
    high: Sequence[float | None] = field(default=())


@dataclass(frozen=True)
class Points:
    """Markers of a line chart that share an entry of the legend.

    Args:
        name: Name in the legend.
        xs: x values.
        ys: y values. Markers with ``None`` are drawn in a strip below the chart.
        tips: Label of each marker when the pointer is over it.
        color: Variable of the style sheet.
        symbol: Marker symbol of plotly.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float | None]
    tips: Sequence[str]
    color: str
    symbol: str


def line_chart(
    title: str,
    curves: Sequence[Curve],
    x_name: str,
    y_name: str,
    right_name: str = "",
    log: bool = False,
    at: float | None = None,
    max_points: int = POINTS,
    height: int = 225,
    span: tuple[float, float] | None = None,
    points: Sequence[Points] = (),
    alternative: str = "",
) -> Chart:
    """Draw a line chart.

    Args:
        title: Title above the chart.
        curves: Curves to draw.
        x_name: Label of the x axis.
        y_name: Label of the left axis.
        right_name: Label of the right axis, empty for none.
        log: Whether the x axis is logarithmic.
        at: x value of a vertical line.
        max_points: Maximum number of points drawn per curve.
        height: Height in pixels without the legend.
        span: Range of the left axis, to make panels comparable.
        points: Markers drawn over the curves.
        alternative: Text alternative. By default it names the curves with their first and last value.
    """
    on_left = [curve for curve in curves if not curve.right]
    values = [value for curve in on_left for part in (curve.ys, curve.low, curve.high) for value in part]
    values += [value for group in points for value in group.ys]
    every: list[Curve | Points] = [*curves, *points]
    xs = [x for series in every for x in series.xs]
    layout: dict[str, Any] = {
        "hovermode": "closest" if points else "x unified",
        "showlegend": True,
        "xaxis": {"title": {"text": plain_text(x_name)}, **_x_ticks(xs, log)},
        "yaxis": {"title": {"text": plain_text(y_name)}, "range": rounded(span or value_range(values))},
    }
    if right_name:
        layout["yaxis2"] = {"title": {"text": right_name}, "overlaying": "y", "side": "right", "showgrid": False}
        layout["yaxis2"] |= {"rangemode": "tozero", "tickmode": "auto", "nticks": 6}
    if at is not None:
        layout["shapes"] = [vertical_line(at, "dot")]
    data = [_curve_trace(curve, max_points) for curve in curves]
    for group in points:
        data += _points_traces(group)
    if any(trace.get("yaxis") == "y3" for trace in data):
        layout["yaxis"]["domain"] = [0.16, 1]
        layout["yaxis3"] = {"domain": [0, 0.1], "range": [-1, 1], "fixedrange": True, "showgrid": False}
        layout["yaxis3"] |= {"tickvals": [0], "ticktext": ["no score"]}
        layout["xaxis"]["anchor"] = "y3"
    alternative = alternative or f"{title}: {', '.join(map(_describe, curves))}, against {x_name}".removeprefix(": ")
    height += legend_height([series.name for series in every])
    return Chart(title, alternative, data, layout, height)


def thin(xs: Sequence[float], ys: Sequence[float | None], most: int) -> tuple[list[float], list[float | None]]:
    """Reduce the number of points of a curve. Each interval keeps its minimum and maximum.

    Example:
        >>> thin([0, 1, 2, 3, 4, 5], [0.0, 9.0, 0.0, 1.0, 2.0, 3.0], 4)
        ([0, 1, 3, 5], [0.0, 9.0, 1.0, 3.0])
    """
    if len(xs) <= most:
        return list(xs), list(ys)
    intervals = max(1, most // 2)
    kept: set[int] = set()
    for part in range(intervals):
        indices = range(part * len(xs) // intervals, (part + 1) * len(xs) // intervals)
        known = [(y, index) for index in indices if (y := ys[index]) is not None]
        kept |= {min(known)[1], max(known)[1]} if known else {indices[0]}
    order = sorted(kept)
    return [xs[index] for index in order], [ys[index] for index in order]


def _describe(curve: Curve) -> str:
    known = [y for y in curve.ys if y is not None]
    return f"{curve.name} from {known[0]:.4g} to {known[-1]:.4g}" if known else curve.name


def _x_ticks(xs: Sequence[float], log: bool) -> dict[str, Any]:
    if log:
        sizes = sorted({x for x in xs if x > 0 and math.log2(x).is_integer()})
        shown = sizes[::2] if len(sizes) > 6 else sizes  # every label fits without rotation
        ticks = {"tickvals": shown, "ticktext": [f"{x:g}" for x in shown]} if len(sizes) == len(set(xs)) else {}
        return {"type": "log", "tickformat": "~s", "nticks": 6, **ticks}
    whole = {"dtick": 1} if xs and max(xs) - min(xs) < 9 else {"nticks": 6}
    return {"type": "linear", "tickformat": ",d", "hoverformat": ",.0f", **whole}


def _curve_trace(curve: Curve, max_points: int) -> dict[str, Any]:
    has_intervals = any(end is not None for end in curve.low)
    xs, ys = (curve.xs, curve.ys) if has_intervals else thin(curve.xs, curve.ys, max_points)
    color, symbol = f"var(--c{curve.style % NUM_COLORS})", _SYMBOLS[curve.style % len(_SYMBOLS)]
    markers = curve.points or sum(y is not None for y in ys) == 1  # a line with one point is invisible
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": plain_text(curve.name),
        "x": rounded(xs),
        "y": rounded(ys),
        "line": {"color": color, "dash": _DASHES[curve.dash % len(_DASHES)], "width": 2},
    }
    if markers:
        trace["marker"] = {"color": color, "size": 7, "symbol": symbol + ("-open" if curve.right else "")}
    if curve.right:
        trace["yaxis"] = "y2"
    if has_intervals:
        trace["error_y"] = error_bars(curve.ys, curve.low, curve.high, color)
    return trace


def _points_traces(group: Points) -> list[dict[str, Any]]:
    """Return the trace of the markers with a y value and the trace of those without one."""
    traces: list[dict[str, Any]] = []
    for has_y in (True, False):
        chosen = [index for index, y in enumerate(group.ys) if (y is not None) == has_y]
        if chosen:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": plain_text(group.name),
                    "legendgroup": plain_text(group.name),
                    "showlegend": not traces,
                    "x": [group.xs[index] for index in chosen],
                    "y": rounded([group.ys[index] if has_y else 0.0 for index in chosen]),
                    "yaxis": "y" if has_y else "y3",
                    "marker": {"color": group.color, "size": 8, "symbol": group.symbol},
                    **hover_labels([group.tips[index] for index in chosen]),
                }
            )
    return traces
