"""Charts of the report page: plotly figures as plain dictionaries, each with a text alternative.

The dictionaries are built by hand, because ``plotly.graph_objects`` validates every property and takes about 1 ms per
figure. The tests validate them. A color is the name of a variable of the style sheet, such as ``"var(--c0)"``, and the
page replaces it by the color of its theme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

Trace = dict[str, Any]
Values = Sequence[float | None]

MAX_POINTS = 400
"""Maximum number of points drawn per curve."""
NUM_COLORS = 8
"""Number of colors in the style sheet, ``c0`` to ``c7``: the palette of Okabe and Ito with adjusted contrast."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "pentagon", "x")
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
_AXIS = {
    "automargin": True,
    "gridcolor": "var(--line)",
    "linecolor": "var(--strong)",
    "tickfont": {"color": "var(--muted)"},
    "title": {"standoff": 8, "font": {"size": 12, "color": "var(--muted)"}},
    "zeroline": False,
}
TEMPLATE: Mapping[str, Any] = {
    "layout": {
        "autosize": True,
        "bargap": 0.4,
        "font": {"family": _FONT, "size": 12, "color": "var(--text)"},
        "hoverlabel": {
            "bgcolor": "var(--raised)",
            "bordercolor": "var(--strong)",
            "font": {"color": "var(--text)"},
            "namelength": -1,
        },
        "legend": {"orientation": "h", "x": 0, "xref": "container", "y": 0, "yref": "container", "yanchor": "bottom"},
        "margin": {"l": 8, "r": 12, "t": 26, "b": 8},
        "modebar": {"bgcolor": "var(--ground)", "color": "var(--muted)", "activecolor": "var(--accent)"},
        "paper_bgcolor": "var(--ground)",
        "plot_bgcolor": "var(--ground)",
        "xaxis": {**_AXIS, "hoverformat": ",.4~g", "showline": True},
        "yaxis": {**_AXIS, "hoverformat": ".4~g"},
    }
}
"""Plotly template of all charts. The page contains it once."""


@dataclass(frozen=True)
class Chart:
    """Plotly figure with a title and a text alternative. A ``wide`` chart needs the width of several panels."""

    title: str
    alternative: str
    data: Sequence[Trace]
    layout: Mapping[str, Any]
    height: int
    wide: bool = False

    @property
    def figure(self) -> dict[str, Any]:
        """Figure that plotly draws."""
        return {"data": self.data, "layout": {**self.layout, "height": self.height}}


@dataclass(frozen=True)
class ReportFigure:
    """Heading with one or more charts, and a note below them."""

    title: str
    charts: Sequence[Chart]
    note: str = ""


# ---- line charts -----------------------------------------------------------------------------------------------


def curve(
    name: str,
    xs: Sequence[float],
    ys: Values,
    style: int = 0,
    dash: int = 0,
    *,
    right: bool = False,
    markers: bool = False,
    interval: tuple[Values, Values] | None = None,
) -> Trace:
    """Return the trace of a curve with the color and the marker symbol number ``style``.

    ``right`` draws it on the right axis. ``interval`` contains the lower and upper ends of its confidence intervals.
    """
    color, symbol = f"var(--c{style % NUM_COLORS})", _SYMBOLS[style % len(_SYMBOLS)]
    markers = markers or sum(y is not None for y in ys) == 1  # a line with one point is invisible
    line = {"color": color, "dash": _DASHES[dash % len(_DASHES)], "width": 2}
    trace = scatter(name, "lines+markers" if markers else "lines", xs, ys, line=line)
    if markers:
        trace["marker"] = {"color": color, "size": 7, "symbol": symbol + ("-open" if right else "")}
    if right:
        trace["yaxis"] = "y2"
    if interval is not None and any(end is not None for end in interval[0]):
        trace["error_y"] = error_bars(ys, *interval, color)
    return trace


def labeled_points(name: str, xs: Sequence[float], ys: Values, labels: Sequence[str], color: str, symbol: str) -> Trace:
    """Return the trace of points that show a label at the pointer."""
    marker = {"color": color, "size": 8, "symbol": symbol}
    return scatter(name, "markers", xs, ys, marker=marker) | hover_labels(labels)


def line_chart(
    title: str,
    curves: Sequence[Trace],
    x_name: str,
    y_name: str,
    *,
    points: Sequence[Trace] = (),
    right_name: str = "",
    log: bool = False,
    log_y: bool = False,
    mark: float | None = None,
    max_points: int = MAX_POINTS,
    height: int = 225,
    y_range: tuple[float, float] | None = None,
    alternative: str = "",
) -> Chart:
    """Draw curves, and points over them.

    ``log`` makes the x axis logarithmic, ``log_y`` the y axis, ``mark`` draws a vertical line, and ``y_range`` makes
    panels comparable. The height does not include the legend. The default text alternative names the curves with their
    first and last value.
    """
    traces = [*curves, *points]
    on_left = [trace for trace in traces if "yaxis" not in trace]
    y_range = y_range or value_range(value for trace in on_left for value in values_with_bars(trace, "y"))
    layout: dict[str, Any] = {
        "hovermode": "closest" if points else "x unified",
        "showlegend": True,
        "xaxis": {"title": {"text": plain_text(x_name)}, **_x_ticks([x for trace in traces for x in trace["x"]], log)},
        "yaxis": {"title": {"text": plain_text(y_name)}, "range": rounded(y_range)},
    }
    if log_y:
        layout["yaxis"] |= {"type": "log", "autorange": True, "exponentformat": "power", "dtick": 1}
        del layout["yaxis"]["range"]
    if right_name:
        layout["yaxis2"] = {"title": {"text": right_name}, "overlaying": "y", "side": "right", "showgrid": False}
        layout["yaxis2"] |= {"rangemode": "tozero", "tickmode": "auto", "nticks": 6}
    if mark is not None:
        layout["shapes"] = [vertical_line(mark, "dot")]
    alternative = alternative or f"{title}: {', '.join(map(_describe, curves))}, against {x_name}".removeprefix(": ")
    height += _legend_height([trace["name"] for trace in traces])
    return Chart(title, alternative, [*(_thin(trace, max_points) for trace in curves), *points], layout, height)


def _thin(trace: Trace, most: int) -> Trace:
    """Reduce the number of points of a curve. Each interval keeps its minimum and maximum."""
    xs, ys = trace["x"], trace["y"]
    if len(xs) <= most or "error_y" in trace:
        return trace
    intervals = max(1, most // 2)
    kept: set[int] = set()
    for part in range(intervals):
        indices = range(part * len(xs) // intervals, (part + 1) * len(xs) // intervals)
        known = [(y, index) for index in indices if (y := ys[index]) is not None]
        kept |= {min(known)[1], max(known)[1]} if known else {indices[0]}
    return trace | {"x": [xs[index] for index in sorted(kept)], "y": [ys[index] for index in sorted(kept)]}


def _describe(trace: Trace) -> str:
    known = [y for y in trace["y"] if y is not None]
    name = html.unescape(trace["name"])
    return f"{name} from {known[0]:.4g} to {known[-1]:.4g}" if known else name


def _x_ticks(xs: Sequence[float], log: bool) -> dict[str, Any]:
    if log:
        sizes = sorted({x for x in xs if x > 0 and math.log2(x).is_integer()})
        shown = sizes[::2] if len(sizes) > 6 else sizes  # every label fits without rotation
        ticks = {"tickvals": shown, "ticktext": [f"{x:g}" for x in shown]} if len(sizes) == len(set(xs)) else {}
        return {"type": "log", "tickformat": "~s", "nticks": 6, **ticks}
    whole = {"dtick": 1} if xs and max(xs) - min(xs) < 9 else {"nticks": 6}
    return {"type": "linear", "tickformat": ",d", "hoverformat": ",.0f", **whole}


def _legend_height(names: Sequence[str]) -> int:
    """Estimate the height of a legend in pixels, so that a long legend does not make the chart itself small."""
    per_row = max(1, 290 // (46 + 7 * max(map(len, names), default=0)))
    return 16 + 19 * math.ceil(len(names) / per_row)


# ---- parts of all charts ---------------------------------------------------------------------------------------


def plain_text(text: str) -> str:
    """Escape a text, because plotly interprets tags such as ``<b>`` in labels."""
    return html.escape(text, quote=False)


_LABELS = {"loss": "training loss", "val_loss": "validation loss", "a_high": "products", "a_low": "sum"}


def plain_label(name: str) -> str:
    """Return the label of a column of ``history.jsonl``.

    Example:
        >>> plain_label("val_loss"), plain_label("saturated/gnn.convs.0.cp"), plain_label("a_high/convs.1")
        ('validation loss', 'saturated, layer 1', 'products, layer 2')
    """
    kind, slash, module = name.partition("/")
    label = _LABELS.get(kind, kind.replace("val_", "validation ", 1) if kind.startswith("val_") else kind)
    if not slash:
        return label
    digits = [part for part in module.split(".") if part.isdigit()]
    place = f"layer {int(digits[0]) + 1}" if digits else "readout" if "readout" in module else module
    return f"{label}, {place}"


def shorten(text: str, most: int) -> str:
    """Truncate a label that is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def value_range(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the range of an axis with a margin, wide enough that differences in the last digits look small.

    Example:
        >>> [round(end, 4) for end in value_range([0.0, 1.0])], [round(end, 4) for end in value_range([0.99998, 1.0])]
        ([-0.06, 1.06], [0.995, 1.005])
    """
    known = [value for value in values if value is not None]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if low == high:
        room = abs(high) * 0.05 or 0.5
    else:
        room = max((high - low) * 0.06, (0.01 * max(abs(low), abs(high)) - (high - low)) / 2)
    return low - room, high + room


def scatter(name: str, mode: str, xs: Iterable[float | None], ys: Iterable[float | None], **properties: Any) -> Trace:
    trace = {"type": "scatter", "mode": mode, "name": plain_text(name), "x": rounded(xs), "y": rounded(ys)}
    return trace | properties


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Round to six significant digits, so that the page stays small. Missing values are ``None``."""
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in values]


def error_bars(values: Values, low: Values, high: Values, color: str) -> dict[str, Any]:
    above = [None if end is None or value is None else end - value for value, end in zip(values, high)]
    below = [None if end is None or value is None else value - end for value, end in zip(values, low)]
    bars = {"type": "data", "symmetric": False, "array": rounded(above), "arrayminus": rounded(below)}
    return {**bars, "color": color, "thickness": 1.5, "width": 0}


def values_with_bars(trace: Trace, axis: str) -> Iterator[float]:
    """Yield the values of a trace and the ends of their error bars."""
    bars = trace.get(f"error_{axis}", {})
    for value, above, below in zip_longest(trace[axis], bars.get("array", ()), bars.get("arrayminus", ())):
        if value is not None:
            yield from (value, value + (above or 0), value - (below or 0))


def hover_labels(labels: Sequence[str]) -> dict[str, Any]:
    """Return the properties of a trace that shows a label when the pointer is over a point."""
    return {"customdata": [plain_text(label) for label in labels], "hovertemplate": "%{customdata}<extra></extra>"}


def vertical_line(x: float, dash: str) -> dict[str, Any]:
    """Return a vertical line over the whole height of a chart, below the traces."""
    line = {"color": "var(--strong)", "dash": dash, "width": 1}
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line, "layer": "between"}
