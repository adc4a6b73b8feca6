"""Bars beside one another: times, and shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from tgnn.report.numbers import rate
from tgnn.report.svg import Scale, line, picture, short, text, tick_text, ticks

_ROW, _NAME = 24.0, 18


@dataclass(frozen=True)
class _Bar:
    row: str
    length: float
    label: str
    tip: str
    colour: str = "c0"


def bar_chart(title: str, values: Mapping[str, float], base: str, unit: str, width: float = 300) -> Markup:
    """A bar for each value, in multiples of one of them, with the value itself in its tip.

    Args:
        title: Above.
        values: By row.
        base: The row that is 1.
        unit: Of the values.
        width: In pixels.
    """
    bars = []
    for row, value in values.items():
        by, colour = value / values[base], "c2" if row == base else "c0"
        bars.append(_Bar(row, by, f"{rate(by)}\u00d7", f"{row}: {rate(value)} {unit}", colour))
    label = f"{title}: " + ", ".join(f"{bar.row} {rate(bar.length)} times {base}" for bar in bars)
    return _draw(title, bars, f"{unit}, in multiples of {short(base, _NAME)}", label, width, at=1)


def share_chart(title: str, shares: Mapping[str, float], name: str, width: float = 300) -> Markup:
    """A bar for each share of a whole, the largest first.

    Args:
        title: Above.
        shares: By row, between 0 and 1.
        name: Under the axis, in percent.
        width: In pixels.
    """
    order = sorted(shares.items(), key=lambda pair: -pair[1])
    bars = [_Bar(row, 100 * share, f"{100 * share:.0f} %", f"{row}: {100 * share:.1f} %") for row, share in order]
    label = f"{title}: " + ", ".join(f"{bar.row} {bar.label}" for bar in bars)
    return _draw(title, bars, f"{name}, %", label, width)


def _draw(title: str, bars: list[_Bar], name: str, label: str, width: float, at: float | None = None) -> Markup:
    right = 12 + 7.0 * max(len(bar.label) for bar in bars)
    left = 16 + 7.0 * max(min(len(bar.row), _NAME) for bar in bars)
    top, bottom = 8.0, 36.0
    height = top + _ROW * len(bars) + bottom
    across = Scale(0, max(bar.length for bar in bars) * 1.02 or 1, left, width - right)
    parts = []
    for value in ticks(0, across.high, 4):
        parts.append(line(across(value), top, across(value), height - bottom, "grid"))
        parts.append(text(across(value), height - bottom + 15, tick_text(value), kind="tick"))
    if at is not None:
        parts.append(line(across(at), top, across(at), height - bottom, "at", "4 3"))
    for place, bar in enumerate(bars):
        y = top + _ROW * place
        parts.append(text(left - 8, y + 16, short(bar.row, _NAME), "end", "label"))
        parts.append(
            Markup(
                '<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="14"><title>{}</title></rect>'
            ).format(bar.colour, left, y + 5, max(across(bar.length) - left, 0.5), bar.tip)
        )
        parts.append(text(across(bar.length) + 5, y + 16, bar.label, "start", "label"))
    parts.append(text((left + width - right) / 2, height - 5, name, kind="name"))
    head = Markup("<figcaption>{}</figcaption>").format(title) if title else Markup("")
    return Markup('<figure class="chart">{}{}</figure>').format(head, picture(width, height, label, *parts))
