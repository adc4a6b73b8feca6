"""Line charts as SVG, with an optional second axis on the right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from markupsafe import Markup

from tgnn.report.svg import (
    DASHES,
    NUM_COLORS,
    Scale,
    bounds,
    join,
    line,
    marker,
    picture,
    powers,
    text,
    thin,
    tick_text,
    ticks,
)

POINTS = 400
"""Maximum number of points drawn per curve."""
_LANE = 18.0
"""Height of the strip below the axis for points without a y value."""


@dataclass(frozen=True)
class Curve:
    """One curve.

    Args:
        name: Name in the legend.
        xs: Ascending x values.
        ys: y values, ``None`` if missing.
        style: Index of color and marker.
        dash: Index in :data:`tgnn.report.svg.DASHES`.
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
class Mark:
    """Single marker.

    Args:
        x: x value.
        y: y value. ``None`` draws the marker below the axis.
        style: Index of color and shape.
        kind: Style class, such as ``"hollow"``.
        tip: Tooltip.
    """

    x: float
    y: float | None
    style: int
    kind: str = ""
    tip: str = ""


def line_chart(
    title: str,
    curves: Sequence[Curve],
    x_name: str,
    y_name: str,
    right_name: str = "",
    log2: bool = False,
    at: float | None = None,
    most: int = POINTS,
    width: float = 300,
    height: float = 225,
    span: tuple[float, float] | None = None,
    marks: Sequence[Mark] = (),
    label: str = "",
) -> Markup:
    """Draw a line chart.

    Args:
        title: Title above the chart.
        curves: Curves to draw.
        x_name: Label of the x axis.
        y_name: Label of the left axis.
        right_name: Label of the right axis, empty for none.
        log2: Whether the x axis is logarithmic to base 2.
        at: x value of a vertical line.
        most: Maximum number of points drawn per curve.
        width: Width in pixels.
        height: Height in pixels.
        span: Range of the left axis, to make panels comparable.
        marks: Markers drawn over the curves.
        label: Text alternative. By default it names the curves.
    """
    right, top, bottom = (38.0 if right_name else 12.0), 22.0, 38.0
    xs = [*(x for curve in curves for x in curve.xs), *(mark.x for mark in marks)]
    low, high = (min(xs), max(xs)) if xs else (0.0, 1.0)
    if log2:
        low, high = max(low, 1e-9) / 1.15, high * 1.15
    floor = height - bottom - (_LANE if any(mark.y is None for mark in marks) else 0)
    up = _axis([c for c in curves if not c.right], floor, top, more=[mark.y for mark in marks])
    up = up if span is None else Scale(*span, floor, top)
    left = max(42.0, 14 + 6.6 * max(len(tick_text(value)) for value in ticks(up.low, up.high)))
    across = Scale(low, high, left, width - right, log2)
    up_right = _axis([c for c in curves if c.right], floor, top, from_zero=True)
    parts = [_left_axis(up, left, width - right, y_name)]
    if right_name:
        parts.append(_right_axis(up_right, width - right, width, right_name))
    whole = all(float(x).is_integer() for x in xs)
    for value in powers(low, high, int(width / 60)) if log2 else ticks(low, high):
        if whole and not float(value).is_integer():  # no fractional epochs
            continue
        parts.append(text(across(value), height - bottom + 16, tick_text(value), kind="tick"))
        parts.append(line(across(value), height - bottom, across(value), height - bottom + 4, "axis"))
    parts.append(text((left + width - right) / 2, height - 5, x_name, kind="name"))
    if at is not None and low <= at <= high:
        parts.append(line(across(at), top, across(at), height - bottom, "at", "2 2"))
    parts += [_draw(curve, across, up_right if curve.right else up, most) for curve in curves]
    parts += [
        marker(across(mark.x), floor + _LANE / 2 if mark.y is None else up(mark.y), mark.style, mark.kind, mark.tip)
        for mark in marks
    ]
    label = label or f"{title}: {', '.join(curve.name for curve in curves)} against {x_name}"
    data = Markup(' data-x="{} {} {} {} {}" data-x-name="{}"').format(
        across.low, across.high, across.start, across.end, int(log2), x_name
    )
    head = Markup("<figcaption>{}</figcaption>").format(title) if title else Markup("")
    return Markup('<figure class="chart">{}{}</figure>').format(head, picture(width, height, label, *parts, data=data))


def legend(curves: Sequence[Curve], marks: Mapping[str, Mark] = MappingProxyType({})) -> Markup:
    """Return the legend of curves and markers as HTML.

    Args:
        curves: Curves. Duplicates are shown once.
        marks: Markers by meaning.
    """
    seen: dict[tuple[str, int, int, bool], Curve] = {}
    for curve in curves:
        seen.setdefault((curve.name, curve.style, curve.dash, curve.right), curve)
    items = [
        Markup('<li><svg width="16" height="16" aria-hidden="true">{}</svg>{}</li>').format(
            marker(8, 8, mark.style, mark.kind), name
        )
        for name, mark in marks.items()
    ]
    for curve in seen.values():
        hollow = "hollow" if curve.right else ""
        sign = line(1, 8, 29, 8, f"curve c{curve.style % NUM_COLORS}", DASHES[curve.dash % len(DASHES)])
        dot = marker(15, 8, curve.style, hollow) if curve.points else Markup("")
        items.append(
            Markup('<li><svg width="30" height="16" aria-hidden="true">{}{}</svg>{}</li>').format(sign, dot, curve.name)
        )
    return Markup('<ul class="legend">{}</ul>').format(join(items))


def _axis(
    curves: Sequence[Curve], start: float, end: float, from_zero: bool = False, more: Sequence[float | None] = ()
) -> Scale:
    values = [*more, *(y for c in curves for part in (c.ys, c.low, c.high) for y in part)]
    low, high = bounds(values)
    return Scale(0.0 if from_zero else low, high, start, end)


def _left_axis(up: Scale, left: float, right: float, name: str) -> Markup:
    parts = []
    for value in ticks(up.low, up.high):
        parts.append(line(left, up(value), right, up(value), "grid"))
        parts.append(text(left - 6, up(value) + 4, tick_text(value), "end", "tick"))
    parts.append(line(left, up.start, right, up.start, "axis"))
    return join([*parts, text(4, 12, name, "start", "name")])


def _right_axis(up: Scale, right: float, width: float, name: str) -> Markup:
    parts = [text(right + 6, up(value) + 4, tick_text(value), "start", "tick") for value in ticks(up.low, up.high)]
    parts.append(line(right, up.start, right, up.end, "axis"))
    return join([*parts, text(width - 4, 12, name, "end", "name")])


def _draw(curve: Curve, across: Scale, up: Scale, most: int) -> Markup:
    color = f"c{curve.style % NUM_COLORS}"
    parts = []
    for x, low, high in zip(curve.xs, curve.low, curve.high):
        if low is not None and high is not None:
            parts.append(line(across(x), up(low), across(x), up(high), f"whisker {color}"))
    xs, ys = thin(curve.xs, curve.ys, most)
    places, pen = [], "M"
    for x, y in zip(xs, ys):
        if y is None or not math.isfinite(y):
            pen = "M"
            continue
        places.append(f"{pen}{across(x):.1f} {up(y):.1f}")
        pen = "L"
    if len(places) == 1:  # an SVG path with one point is invisible
        x, y = next((x, y) for x, y in zip(xs, ys) if y is not None)
        parts.append(marker(across(x), up(y), curve.style))
    parts.append(
        Markup('<path class="curve {}" stroke-dasharray="{}" d="{}" data-name="{}" data-y="{} {} {} {}"/>').format(
            color, DASHES[curve.dash % len(DASHES)], "".join(places), curve.name, up.low, up.high, up.start, up.end
        )
    )
    if curve.points:
        hollow = "hollow" if curve.right else ""
        parts += [
            marker(across(x), up(y), curve.style, hollow, f"{curve.name}: {y:.4g} at {tick_text(x)}")
            for x, y in zip(xs, ys)
            if y is not None and math.isfinite(y)
        ]
    return join(parts)
