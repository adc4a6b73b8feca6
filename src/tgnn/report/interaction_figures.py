"""Figures of planted interactions: score against the order of the interaction and against the number of parameters."""

from __future__ import annotations

import re

from markupsafe import Markup

from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import training_costs
from tgnn.report.line_chart import Curve, legend, line_chart
from tgnn.report.report_figure import ReportFigure
from tgnn.report.result_tables import cell_summary
from tgnn.report.svg import bounds

_APART = 0.07
"""Horizontal offset between the curves, so that their confidence intervals do not overlap."""


def interaction_figure(result: Result) -> ReportFigure | None:
    """Draw score against the order of the interaction, one curve per pooling function and one panel per width."""
    groups: dict[str, dict[str, list[tuple[float, CellResult]]]] = {}
    for cell in result.cells:
        pooling, size, order = order_and_size(cell)
        if order is not None and cell.runs:
            groups.setdefault(size, {}).setdefault(pooling, []).append((order, cell))
    panels: list[Markup] = []
    shown: list[Curve] = []
    poolings = list(dict.fromkeys(pooling for group in groups.values() for pooling in group))
    for size, group in groups.items():
        curves = []
        for pooling, points in group.items():
            points.sort(key=lambda point: point[0])
            summaries = [cell_summary(cell) for _, cell in points]
            style = poolings.index(pooling)
            curves.append(
                Curve(
                    pooling,
                    [order + _APART * (style - (len(poolings) - 1) / 2) for order, _ in points],
                    [s.mean if s else None for s in summaries],
                    style,
                    style,
                    points=True,
                    low=[s.low if s else None for s in summaries],
                    high=[s.high if s else None for s in summaries],
                )
            )
        shown += curves
        metric = next(cell.metric for points in group.values() for _, cell in points)
        panels.append(line_chart(size, curves, "order of the interaction", metric))
    return ReportFigure("Score against the order of the interaction", panels, legend(shown)) if panels else None


def parameters_figure(result: Result) -> ReportFigure | None:
    """Draw score against the number of parameters, one curve per pooling function and one panel per order."""
    orders: dict[float, dict[str, list[tuple[float, CellResult]]]] = {}
    for cell in result.cells:
        pooling, _, order = order_and_size(cell)
        costs = training_costs(cell)
        if order is not None and costs is not None and costs.parameters > 0:
            orders.setdefault(order, {}).setdefault(pooling, []).append((costs.parameters, cell))
    panels: list[Markup] = []
    shown: list[Curve] = []
    poolings = list(dict.fromkeys(pooling for group in orders.values() for pooling in group))
    span = bounds(mean.mean for cell in result.cells if (mean := cell_summary(cell)) is not None)
    for order, group in sorted(orders.items()):
        curves = []
        for pooling, points in group.items():
            points.sort(key=lambda point: point[0])
            means = [None if (s := cell_summary(cell)) is None else s.mean for _, cell in points]
            style = poolings.index(pooling)
            curves.append(Curve(pooling, [size for size, _ in points], means, style, style, points=True))
        shown += curves
        metric = next(cell.metric for points in group.values() for _, cell in points)
        panels.append(
            line_chart(f"order {order:g}", curves, "parameters", metric, log2=True, width=235, height=190, span=span)
        )
    return ReportFigure("Score against the number of parameters", panels, legend(shown)) if panels else None


def order_and_size(cell: CellResult) -> tuple[str, str, float | None]:
    """Return the pooling function, width and order of a cell.

    The order is the number after the word "order" in the name of the column, or its last number.

    Example:
        >>> order_and_size(CellResult("tgnn 64", "order 3", "accuracy"))
        ('tgnn', 'width 64', 3.0)
        >>> order_and_size(CellResult("sum", "64 wide, order 3", "accuracy"))
        ('sum', '64 wide', 3.0)
    """
    named = re.search(r"order\s*[=:]?\s*(\d+)", cell.column)
    if named is None:
        named = next(iter(list(re.finditer(r"(\d+)", cell.column))[-1:]), None)
    order = float(named.group(1)) if named else None
    rest = (cell.column[: named.start()] + cell.column[named.end() :] if named else cell.column).strip(" ,;:/-")
    words = cell.row.split()
    if len(words) > 1 and re.fullmatch(r"\d+", words[-1]):
        return " ".join(words[:-1]), f"width {words[-1]}", order
    return cell.row, rest, order
