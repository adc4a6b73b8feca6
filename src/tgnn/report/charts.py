"""Charts of the report page: plotly figures as plain dictionaries, each with a text alternative.

The dictionaries are built by hand, because ``plotly.graph_objects`` validates every property and takes about 1 ms per
figure. The tests validate them. A color is the name of a variable of the style sheet, such as ``"var(--c0)"``, and the
page replaces it by the color of its theme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NUM_COLORS = 8
"""Number of colors in the style sheet, ``c0`` to ``c7``: the palette of Okabe and Ito with adjusted contrast."""
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
        "hoverlabel": {"bgcolor": "var(--raised)", "bordercolor": "var(--strong)", "font": {"color": "var(--text)"}},
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
    """Plotly figure with a text alternative.

    Args:
        title: Title above the chart.
        alternative: Text alternative, which contains the values where there are few.
        data: Traces of plotly.
        layout: Layout of plotly without the template.
        height: Height in pixels.
        wide: Whether the chart needs the width of several panels.
    """

    title: str
    alternative: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    height: int
    wide: bool = False

    @property
    def figure(self) -> dict[str, Any]:
        """Figure that plotly draws."""
        return {"data": self.data, "layout": {**self.layout, "height": self.height}}


@dataclass(frozen=True)
class ReportFigure:
    """Heading with one or more charts.

    Args:
        title: Heading above the charts.
        charts: Charts.
        note: Text below the charts.
    """

    title: str
    charts: Sequence[Chart]
    note: str = ""


def value_range(values: Iterable[float | None], margin: float = 0.06, least: float = 0.01) -> tuple[float, float]:
    """Return the range of an axis: the smallest and largest value with a margin.

    Args:
        values: Values on the axis.
        margin: Margin relative to the range of the values.
        least: Minimum range relative to the values, so that differences in the last digits look small.

    Example:
        >>> [round(end, 4) for end in value_range([0.0, 1.0])], [round(end, 4) for end in value_range([0.99998, 1.0])]
        ([-0.06, 1.06], [0.995, 1.005])
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if low == high:
        room = abs(high) * 0.05 or 0.5
    else:
        room = max((high - low) * margin, (least * max(abs(low), abs(high)) - (high - low)) / 2)
    return low - room, high + room


def plain_text(text: str) -> str:
    """Escape a text, because plotly interprets tags such as ``<b>`` in labels."""
    return html.escape(text, quote=False)


def shorten(text: str, most: int) -> str:
    """Truncate a label that is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def legend_height(names: Sequence[str]) -> int:
    """Estimate the height of a legend in pixels, so that a long legend does not make the chart itself small."""
    per_row = max(1, 290 // (46 + 7 * max(map(len, names), default=0)))
    return 16 + 19 * math.ceil(len(names) / per_row)


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Round to six significant digits, so that the page stays small. Missing values are ``None``."""
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in values]


def hover_labels(tips: Sequence[str]) -> dict[str, Any]:
    """Return the properties of a trace that shows a label when the pointer is over a point."""
    return {"customdata": [plain_text(tip) for tip in tips], "hovertemplate": "%{customdata}<extra></extra>"}


def error_bars(
    values: Sequence[float | None], low: Sequence[float | None], high: Sequence[float | None], color: str
) -> dict[str, Any]:
    """Return the error bars from ``low`` to ``high`` around the values of a trace."""
    above = [None if end is None or value is None else end - value for value, end in zip(values, high)]
    below = [None if end is None or value is None else value - end for value, end in zip(values, low)]
    bars = {"type": "data", "symmetric": False, "array": rounded(above), "arrayminus": rounded(below)}
    return {**bars, "color": color, "thickness": 1.5, "width": 0}


def vertical_line(x: float, dash: str) -> dict[str, Any]:
    """Return a vertical line over the whole height of a chart, below the traces."""
    line = {"color": "var(--strong)", "dash": dash, "width": 1}
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line, "layer": "between"}
