"""The paper's figures and ours, on one line per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tgnn.report.numbers import metric
from tgnn.report.svg import Scale, bounds, join, line, marker, picture, short, text, tick_text, ticks

_PAPER = 3  # a diamond
_ROW = 24.0


@dataclass(frozen=True)
class Dot:
    """One row.

    Args:
        row: Its name.
        mean: Ours.
        low: Lower end of its interval.
        high: Upper end.
        paper: The paper's figure.
        spread: Its standard deviation.
        differs: Whether the difference is more than chance.
    """

    row: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    spread: float | None = None
    differs: bool = False


def dot_plot(title: str, dots: Sequence[Dot], metric_name: str, width: float = 300) -> Markup:
    """A panel: ours as a dot with its interval, the paper's as a hollow diamond with its standard deviation."""
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
    """What the signs stand for."""
    ours = join([line(1, 8, 29, 8, "whisker c0"), marker(15, 8, 0)])
    papers = join([line(1, 8, 29, 8, "whisker thin c1"), marker(15, 8, _PAPER, "hollow paper")])
    sign = '<svg width="30" height="16" aria-hidden="true">{}</svg>'
    return Markup(
        f'<ul class="legend"><li>{sign}ours, 95 % bootstrap interval</li><li>{sign}paper ± standard deviation</li>'
        "<li><b>≠</b>&nbsp;differs from the paper (p &lt; 0.05)</li></ul>"
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
        tip = f"{dot.row}, ours: {metric(dot.mean)}, {metric(dot.low)} to {metric(dot.high)}"
        parts.append(marker(across(dot.mean), y - 3, 0, "", tip))
    if dot.differs:
        parts.append(text(width - 10, y + 5, "≠", kind="label"))
    return join(parts)
