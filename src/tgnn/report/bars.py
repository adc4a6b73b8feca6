"""Times beside one another."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from tgnn.report.numbers import rate
from tgnn.report.svg import Scale, line, picture, short, text, tick_text, ticks

_ROW = 24.0


def bar_chart(title: str, values: Mapping[str, float], base: str, unit: str, width: float = 300) -> Markup:
    """A bar for each value, in multiples of one of them, with the value itself in its tip.

    Args:
        title: Above.
        values: By row.
        base: The row that is 1.
        unit: Of the values.
        width: In pixels.
    """
    times = {row: value / values[base] for row, value in values.items()}
    labels = {row: f"{rate(by)}\u00d7" for row, by in times.items()}
    right = 12 + 7.0 * max(len(label) for label in labels.values())
    left = 16 + 7.0 * max(min(len(row), 18) for row in values)
    top, bottom = 8.0, 36.0
    height = top + _ROW * len(values) + bottom
    across = Scale(0, max(times.values()) * 1.02, left, width - right)
    parts = []
    for value in ticks(0, across.high, 4):
        parts.append(line(across(value), top, across(value), height - bottom, "grid"))
        parts.append(text(across(value), height - bottom + 15, tick_text(value), kind="tick"))
    parts.append(line(across(1), top, across(1), height - bottom, "at", "4 3"))
    for place, (row, by) in enumerate(times.items()):
        y = top + _ROW * place
        parts.append(text(left - 8, y + 16, short(row, 18), "end", "label"))
        parts.append(
            Markup(
                '<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="14"><title>{}</title></rect>'
            ).format(
                "c2" if row == base else "c0",
                left,
                y + 5,
                max(across(by) - left, 0.5),
                f"{row}: {rate(values[row])} {unit}",
            )
        )
        parts.append(text(across(by) + 5, y + 16, labels[row], "start", "label"))
    parts.append(
        text((left + width - right) / 2, height - 5, f"{unit}, in multiples of {short(base, 18)}", kind="name")
    )
    label = f"{title}: " + ", ".join(f"{row} {rate(by)} times {base}" for row, by in times.items())
    return Markup('<figure class="chart"><figcaption>{}</figcaption>{}</figure>').format(
        title, picture(width, height, label, *parts)
    )
