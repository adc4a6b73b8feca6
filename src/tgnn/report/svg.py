"""SVG elements shared by all charts: scales, ticks, markers, and colors for color-blind readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

NUM_COLORS = 8
"""Number of colors in the style sheet, ``c0`` to ``c7``: the palette of Okabe and Ito with adjusted contrast."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2 1 2")
_MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z",  # circle
    "M-3.2 -3.2H3.2V3.2H-3.2Z",  # square
    "M0 -4.2L4 3.2H-4Z",  # triangle
    "M0 -4.6L4.6 0L0 4.6L-4.6 0Z",  # diamond
    "M0 4.2L4 -3.2H-4Z",  # triangle, down
    "M-1.4 -4H1.4V-1.4H4V1.4H1.4V4H-1.4V1.4H-4V-1.4H-1.4Z",  # plus
    "M0 -4.4L4.2 -1.3L2.6 3.6H-2.6L-4.2 -1.3Z",  # pentagon
    "M-3.9 -2L-2 -3.9L0 -1.9L2 -3.9L3.9 -2L1.9 0L3.9 2L2 3.9L0 1.9L-2 3.9L-3.9 2L-1.9 0Z",  # cross
)


@dataclass(frozen=True)
class Scale:
    """Map values to pixels.

    Args:
        low: Value at ``start``.
        high: Value at ``end``.
        start: First pixel.
        end: Last pixel.
        log2: Whether the scale is logarithmic to base 2.

    Example:
        >>> Scale(0, 10, 100, 200)(5), Scale(8, 32, 0, 10, log2=True)(16)
        (150.0, 5.0)
    """

    low: float
    high: float
    start: float
    end: float
    log2: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log2:
            low, high, value = (math.log2(max(v, 1e-300)) for v in (low, high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


_LEAST = 0.01
"""Minimum range of an axis relative to its values, so that differences in the last digits look small."""


def bounds(values: Iterable[float | None], margin: float = 0.06) -> tuple[float, float]:
    """Return the range of an axis: the smallest and largest value with a margin.

    Example:
        >>> [round(end, 4) for end in bounds([0.0, 1.0])], [round(end, 4) for end in bounds([0.99998, 1.0])]
        ([-0.06, 1.06], [0.995, 1.005])
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if low == high:
        room = abs(high) * 0.05 or 0.5
    else:
        room = max((high - low) * margin, (_LEAST * max(abs(low), abs(high)) - (high - low)) / 2)
    return low - room, high + room


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round tick values in a range.

    Example:
        >>> ticks(0.0, 1.0), ticks(0.83, 0.91)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.84, 0.86, 0.88, 0.9])
    """
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(by for by in (1, 2, 2.5, 5, 10, 20) if (high - low) / (step * by) <= most)
    first = math.ceil(low / step - 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def powers(low: float, high: float, most: int = 10) -> list[float]:
    """Return the powers of two in a range.

    Example:
        >>> powers(8, 64)
        [8.0, 16.0, 32.0, 64.0]
    """
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / most))
    return [2.0**k for k in range(first, last + 1, step)]


def tick_text(value: float) -> str:
    """Format a tick label, with k for thousands. Powers of two use 1024.

    Example:
        >>> [tick_text(value) for value in (0.85, 512.0, 1024.0, 16384.0, 1500.0, 2e6, -2.0)]
        ['0.85', '512', '1k', '16k', '1.5k', '2M', '−2']
    """
    size = abs(value)
    thousand = 1024 if size >= 1024 and math.log2(size).is_integer() else 1000
    units = {thousand**3: "G", thousand**2: "M", thousand: "k"}
    unit = next((unit for unit in units if size >= unit), 1)
    text = f"{size:g}" if unit == 1 else f"{size / unit:.3g}{units[unit]}"
    return ("\u2212" if value < 0 else "") + text


def short(text: str, most: int) -> str:
    """Truncate a label that is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def join(parts: Iterable[Markup]) -> Markup:
    """Concatenate SVG elements."""
    return Markup("").join(parts)


def text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> Markup:
    """Draw a text."""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(x, y, anchor, kind, words)


def line(x1: float, y1: float, x2: float, y2: float, kind: str, dash: str = "") -> Markup:
    """Draw a straight line."""
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}" stroke-dasharray="{}"/>').format(
        x1, y1, x2, y2, kind, dash
    )


def marker(x: float, y: float, style: int, kind: str = "", tip: str = "") -> Markup:
    """Draw a marker with the shape and color of a curve."""
    note = Markup("<title>{}</title>").format(tip) if tip else ""
    return Markup('<path class="mark c{} {}" transform="translate({:.1f} {:.1f})" d="{}">{}</path>').format(
        style % NUM_COLORS, kind, x, y, _MARKERS[style % len(_MARKERS)], note
    )


def thin(xs: Sequence[float], ys: Sequence[float | None], most: int) -> tuple[list[float], list[float | None]]:
    """Reduce the number of points of a curve. Each interval keeps its minimum and maximum.

    Example:
        >>> thin([0, 1, 2, 3, 4, 5], [0.0, 9.0, 0.0, 1.0, 2.0, 3.0], 4)
        ([0, 1, 3, 5], [0.0, 9.0, 1.0, 3.0])
    """
    if len(xs) <= most:
        return list(xs), list(ys)
    stretches = max(1, most // 2)
    chosen: set[int] = set()
    for part in range(stretches):
        places = range(part * len(xs) // stretches, (part + 1) * len(xs) // stretches)
        known = [(y, place) for place in places if (y := ys[place]) is not None]
        chosen |= {min(known)[1], max(known)[1]} if known else {places[0]}
    order = sorted(chosen)
    return [xs[place] for place in order], [ys[place] for place in order]


def picture(width: float, height: float, label: str, *parts: Markup, data: Markup | str = "") -> Markup:
    """Return the SVG image. ``label`` is the text alternative."""
    return Markup(
        '<svg viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" height="{h:.0f}" role="img" aria-label="{label}"{data}>'
        "{parts}</svg>"
    ).format(w=width, h=height, label=label, data=data, parts=join(parts))
