"""Bar charts as SVG: time per epoch, and importance of hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from tgnn.report.number_format import rate
from tgnn.report.svg import Scale, line, picture, short, text, tick_text, ticks

_ROW, _NAME = 24.0, 18


@dataclass(frozen=True)
class _Bar:
    row: str
    length: float
    label: str
    tip: str
    color: str = "c0"


def bar_chart(title: str, values: Mapping[str, float], base: str, unit: str, width: float = 300) -> Markup:
    """Draw a bar per row, as a multiple of one row. The tooltip shows the value.

    Args:
        title: Title above the chart.
        values: Value of each row.
        base: Row whose value is 1.
        unit: Name of the quantity.
        width: Width in pixels.
    """
    bars = []
    for row, value in values.items():
        by, color = value / values[base], "c2" if row == base else "c0"
        bars.append(_Bar(row, by, f"{rate(by)}\u00d7", f"{row}: {rate(value)} {unit}", color))
    label = f"{title}: " + ", ".join(f"{bar.row} {rate(bar.length)} times {base}" for bar in bars)
    return _draw(title, bars, f"{unit} relative to {short(base, _NAME)}", label, width, at=1)


def fraction_chart(title: str, fractions: Mapping[str, float], name: str, width: float = 300) -> Markup:
    """Draw a bar per fraction, the largest first.

    Args:
        title: Title above the chart.
        fractions: Fraction of each row, between 0 and 1.
        name: Label of the axis, in percent.
        width: Width in pixels.
    """
    order = sorted(fractions.items(), key=lambda pair: -pair[1])
    bars = [_Bar(row, 100 * value, f"{100 * value:.0f} %", f"{row}: {100 * value:.1f} %") for row, value in order]
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
            ).format(bar.color, left, y + 5, max(across(bar.length) - left, 0.5), bar.tip)
        )
        parts.append(text(across(bar.length) + 5, y + 16, bar.label, "start", "label"))
    parts.append(text((left + width - right) / 2, height - 5, name, kind="name"))
    head = Markup("<figcaption>{}</figcaption>").format(title) if title else Markup("")
    return Markup('<figure class="chart">{}{}</figure>').format(head, picture(width, height, label, *parts))
