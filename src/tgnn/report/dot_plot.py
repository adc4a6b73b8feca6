"""Dot plot as SVG: our scores and those of the paper, one line per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tgnn.report.number_format import metric
from tgnn.report.svg import Scale, bounds, join, line, marker, picture, short, text, tick_text, ticks

_PAPER = 3  # a diamond
_ROW = 24.0


@dataclass(frozen=True)
class Dot:
    """Scores of one row.

    Args:
        row: Name of the row.
        mean: Our mean.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        paper: Value of the paper.
        spread: Standard deviation of the paper.
        differs: Whether the difference is statistically significant.
    """

    row: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    spread: float | None = None
    differs: bool = False


def dot_plot(title: str, dots: Sequence[Dot], metric_name: str, width: float = 300) -> Markup:
    """Draw our means with confidence intervals and the values of the paper with standard deviations."""
    left = 16 + 7.0 * max((min(len(dot.row), 18) for dot in dots), default=5)
    top, bottom = 8.0, 36.0
    height = top + _ROW * len(dots) + bottom
    ends = [value for dot in dots for value in (dot.mean, dot.low, dot.high, *_paper_ends(dot)) if value is not None]
    across = Scale(*bounds(ends), left, width - 22)
    parts = []
    for value in ticks(across.low, across.high, 4):
        parts.append(line(across(value), top, across(value), height - bottom, "grid"))
        parts.append(text(across(value), height - bottom + 15, tick_text(value), kind="tick"))
    parts.append(text((left + width - 22) / 2, height - 5, metric_name, kind="name"))
    parts += [_row(dot, across, top + _ROW * (place + 0.5), left, width) for place, dot in enumerate(dots)]
    label = f"{title}: " + "; ".join(
        f"{dot.row} ours {metric(dot.mean) or 'missing'}, paper {metric(dot.paper) or 'missing'}" for dot in dots
    )
    return Markup('<figure class="chart"><figcaption>{}</figcaption>{}</figure>').format(
        title, picture(width, height, label, *parts)
    )


def dot_legend() -> Markup:
    """Return the legend of the dot plot."""
    ours = join([line(1, 8, 29, 8, "whisker c0"), marker(15, 8, 0)])
    papers = join([line(1, 8, 29, 8, "whisker thin c1"), marker(15, 8, _PAPER, "hollow paper")])
    sign = '<svg width="30" height="16" aria-hidden="true">{}</svg>'
    return Markup(
        f'<ul class="legend"><li>{sign}ours, 95 % bootstrap confidence interval</li>'
        f"<li>{sign}paper ± standard deviation</li>"
        "<li><b>≠</b>&nbsp;significant difference from the paper (p &lt; .05)</li></ul>"
    ).format(ours, papers)


def _paper_ends(dot: Dot) -> tuple[float | None, float | None]:
    if dot.paper is None:
        return None, None
    return dot.paper - (dot.spread or 0), dot.paper + (dot.spread or 0)


def _row(dot: Dot, across: Scale, y: float, left: float, width: float) -> Markup:
    parts = [text(left - 8, y + 4, short(dot.row, 18), "end", "label")]
    if dot.paper is not None:
        low, high = _paper_ends(dot)
        assert low is not None
        assert high is not None
        parts.append(line(across(low), y + 5, across(high), y + 5, "whisker thin c1"))
        tip = f"{dot.row}, paper: {metric(dot.paper)}" + (f" ± {metric(dot.spread)}" if dot.spread else "")
        parts.append(marker(across(dot.paper), y + 5, _PAPER, "hollow paper", tip))
    if dot.mean is not None:
        if dot.low is not None and dot.high is not None:
            parts.append(line(across(dot.low), y - 3, across(dot.high), y - 3, "whisker c0"))
        interval = "" if dot.low is None else f", {metric(dot.low)} to {metric(dot.high)}"
        tip = f"{dot.row}, ours: {metric(dot.mean)}{interval}"
        parts.append(marker(across(dot.mean), y - 3, 0, "", tip))
    if dot.differs:
        parts.append(text(width - 10, y + 5, "≠", kind="label"))
    return join(parts)
