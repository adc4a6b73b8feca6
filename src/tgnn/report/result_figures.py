"""Figures of a result, one function per figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tgnn.experiments.captions import result_layout
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import average_ranks, training_costs
from tgnn.report.charts import Chart, ReportFigure, shorten, value_range
from tgnn.report.line_chart import Curve, line_chart
from tgnn.report.number_format import metric, number, rate
from tgnn.report.result_tables import base_row, cell_summary, differs_from_paper, milliseconds, speed
from tgnn.report.row_charts import Bar, Dot, bar_chart, critical_difference, dot_plot

_APART = 0.07
"""Horizontal offset between the curves of poolings, so that their confidence intervals do not overlap."""


# ---- tables ----------------------------------------------------------------------------------------------------


def paper_figure(result: Result) -> ReportFigure | None:
    """Compare our scores with those of the paper, one chart per column."""
    charts = []
    for column in result.columns:
        cells = [cell for cell in result.cells if cell.column == column and (cell.paper is not None or cell.runs)]
        if not any(cell.paper is not None for cell in cells):
            continue
        title = _chart_title(result, column)
        series = {
            "ours": [_our_dot(cell) for cell in cells],
            "paper": [_paper_dot(cell) for cell in cells],
        }
        alternative = "; ".join(dot.tip for dots in zip(*series.values()) for dot in dots)
        name = next((cell.metric for cell in cells if cell.metric), "")
        charts.append(dot_plot(title, series, name, f"{title}: {alternative}"))
    note = (
        "Ours: mean and 95% bootstrap confidence interval. Paper: value ± standard deviation. ≠ marks a significant "
        "difference from the paper (p < .05)."
    )
    return ReportFigure("Our scores and those of the paper", charts, note) if charts else None


def _chart_title(result: Result, column: str) -> str:
    """Return the title of the chart of a column, which is a number of neighbors in the efficiency table."""
    return f"{column} neighbors" if result_layout(result) == "efficiency" and len(result.columns) > 1 else column


def _our_dot(cell: CellResult) -> Dot:
    scores = cell_summary(cell)
    if scores is None:
        return Dot(cell.row, None, None, None, f"{cell.row}, ours: missing")
    interval = "" if scores.low is None else f", {metric(scores.low)} to {metric(scores.high)}"
    row = f"{cell.row} ≠" if differs_from_paper(cell) else cell.row
    return Dot(row, scores.mean, scores.low, scores.high, f"{cell.row}, ours: {metric(scores.mean)}{interval}")


def _paper_dot(cell: CellResult) -> Dot:
    if cell.paper is None:
        return Dot(cell.row, None, None, None, f"{cell.row}, paper: missing")
    if cell.paper_spread is None:
        return Dot(cell.row, cell.paper, None, None, f"{cell.row}, paper: {metric(cell.paper)}")
    low, high = cell.paper - cell.paper_spread, cell.paper + cell.paper_spread
    tip = f"{cell.row}, paper: {metric(cell.paper)} ± {metric(cell.paper_spread)}"
    return Dot(cell.row, cell.paper, low, high, tip)


def rank_figure(result: Result) -> ReportFigure | None:
    """Draw the average ranks of the rows and the critical difference between them."""
    average = average_ranks(result)
    if average is None or len(average.columns) < 2:
        return None
    left_out = [row for row in result.rows if row not in average.ranks]
    note = (
        f"Average rank over {', '.join(average.columns)}; 1 is best. A bar joins rows without a significant difference "
        f"(Nemenyi test, 5% level)."
    )
    if left_out:
        note += f" Rows without a score in every column are left out: {', '.join(left_out)}."
    chart = critical_difference(average.ranks, average.critical_difference)
    return ReportFigure("Critical difference diagram", [chart], note)


def speed_figure(result: Result) -> ReportFigure | None:
    """Compare the time per epoch with that of gcn, one chart per column."""
    charts = []
    for column in result.columns:
        times = milliseconds(result, column)
        if len(times) > 1:
            charts.append(_speed_chart(_chart_title(result, column), times))
    note = "The labels at the pointer show milliseconds per epoch."
    if result_layout(result) != "efficiency":
        note += " These times are a rough guide, because other runs may have trained at the same time."
    return ReportFigure("Speed", charts, note) if charts else None


def _speed_chart(title: str, times: dict[str, float]) -> Chart:
    base = base_row(times)
    bars = []
    for row, time in times.items():
        ratio, color = time / times[base], "var(--c2)" if row == base else "var(--c0)"
        bars.append(Bar(row, ratio, f"{rate(ratio)}\u00d7", f"{row}: {rate(time)} ms per epoch", color))
    return bar_chart(title, bars, f"time per epoch relative to {shorten(base, 18)}", at=1)


# ---- rank and branch weights -----------------------------------------------------------------------------------


def size_figure(result: Result) -> ReportFigure | None:
    """Draw score and speed against rank or hidden channels, one chart per column."""
    charts = []
    models = list(dict.fromkeys(_model_and_size(row)[0] for row in result.rows))
    for column in result.columns:
        curves: list[Curve] = []
        metric_name = ""
        for style, model in enumerate(models):
            points = _points(result, column, model)
            if points:
                metric_name = metric_name or points[0][1].metric
                sizes, speeds = [size for size, _ in points], [speed(cell) for _, cell in points]
                curves.append(_score_curve(model, points, style))
                curves.append(Curve(f"{model}, epochs/s", sizes, speeds, style, 1, right=True, points=True))
        if curves:
            charts.append(line_chart(column, curves, "rank or hidden channels", metric_name, "epochs/s", log=True))
    return ReportFigure("Score and speed against size", charts) if charts else None


def _points(result: Result, column: str, model: str) -> list[tuple[float, CellResult]]:
    points = []
    for cell in result.cells:
        name, size = _model_and_size(cell.row)
        if cell.column == column and name == model and size is not None and cell.runs:
            points.append((size, cell))
    return sorted(points, key=lambda point: point[0])


def _model_and_size(row: str) -> tuple[str, float | None]:
    """Split the name of a row into the model and its size.

    Example:
        >>> _model_and_size("tgnn 8"), _model_and_size("gcn")
        (('tgnn', 8.0), ('gcn', None))
    """
    words = row.split() or [""]
    try:
        size = float(words[-1])
    except ValueError:
        return words[0], None
    return words[0], size if size > 0 and number(size) is not None else None


def mixing_figure(result: Result) -> ReportFigure | None:
    """Draw the learned branch weights over epochs, one chart per cell."""
    charts = []
    for cell in result.cells:
        curves = mixing_curves({name: list(values) for name, values in cell.series.items()})
        if curves:
            charts.append(line_chart(f"{cell.row} on {cell.column}", curves, "epoch", "branch weight"))
    return ReportFigure("Learned branch weights", charts) if charts else None


def mixing_curves(series: Mapping[str, Sequence[float | None]]) -> list[Curve]:
    """Return the curves of branch weights: ``a_high`` solid, ``a_low`` dashed, one color per layer."""
    layers = list(dict.fromkeys(name.partition("/")[2] for name in series))
    curves = []
    for name, values in series.items():
        dash = 0 if name.startswith("a_high") else 1 if name.startswith("a_low") else 2
        clean = [number(value) for value in values]
        epochs = [float(epoch) for epoch in range(1, len(clean) + 1)]
        if any(value is not None for value in clean):
            curves.append(Curve(name, epochs, clean, layers.index(name.partition("/")[2]), dash))
    return curves


# ---- planted interactions --------------------------------------------------------------------------------------


def interaction_figure(result: Result) -> ReportFigure | None:
    """Draw score against the order of the interaction, one curve per pooling function and one chart per width."""
    groups: dict[str, dict[str, list[tuple[float, CellResult]]]] = {}
    for cell in result.cells:
        pooling, size, order = order_and_size(cell)
        if order is not None and cell.runs:
            groups.setdefault(size, {}).setdefault(pooling, []).append((order, cell))
    poolings = list(dict.fromkeys(pooling for group in groups.values() for pooling in group))
    offsets = {pooling: _APART * (style - (len(poolings) - 1) / 2) for style, pooling in enumerate(poolings)}
    charts = []
    for size, group in groups.items():
        curves = [
            _score_curve(pooling, [(order + offsets[pooling], cell) for order, cell in points], poolings.index(pooling))
            for pooling, points in group.items()
        ]
        charts.append(line_chart(size, curves, "order of the interaction", _metric_name(group)))
    return ReportFigure("Score against the order of the interaction", charts) if charts else None


def parameters_figure(result: Result) -> ReportFigure | None:
    """Draw score against the number of parameters, one curve per pooling function and one chart per order."""
    orders: dict[float, dict[str, list[tuple[float, CellResult]]]] = {}
    for cell in result.cells:
        pooling, _, order = order_and_size(cell)
        costs = training_costs(cell)
        if order is not None and costs is not None and costs.parameters > 0:
            orders.setdefault(order, {}).setdefault(pooling, []).append((costs.parameters, cell))
    poolings = list(dict.fromkeys(pooling for group in orders.values() for pooling in group))
    span = value_range(mean.mean for cell in result.cells if (mean := cell_summary(cell)) is not None)
    charts = []
    for order, group in sorted(orders.items()):
        curves = [
            _score_curve(pooling, points, poolings.index(pooling), interval=False) for pooling, points in group.items()
        ]
        charts.append(line_chart(f"order {order:g}", curves, "parameters", _metric_name(group), log=True, span=span))
    return ReportFigure("Score against the number of parameters", charts) if charts else None


def _metric_name(group: Mapping[str, Sequence[tuple[float, CellResult]]]) -> str:
    return next(cell.metric for points in group.values() for _, cell in points)


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


def _score_curve(name: str, points: Sequence[tuple[float, CellResult]], style: int, interval: bool = True) -> Curve:
    """Return the mean scores of cells over x, with their confidence intervals."""
    points = sorted(points, key=lambda point: point[0])
    summaries = [cell_summary(cell) for _, cell in points]
    return Curve(
        name,
        [x for x, _ in points],
        [scores.mean if scores else None for scores in summaries],
        style,
        points=True,
        low=[scores.low if scores else None for scores in summaries] if interval else (),
        high=[scores.high if scores else None for scores in summaries] if interval else (),
    )


FIGURES_BY_LAYOUT: dict[str, Sequence[Callable[[Result], ReportFigure | None]]] = {
    "table": (paper_figure, rank_figure, speed_figure),
    "efficiency": (paper_figure, speed_figure),
    "rank": (size_figure,),
    "mixing": (mixing_figure,),
    "interactions": (interaction_figure, parameters_figure),
    "theorems": (),
}
"""Functions that draw the figures of a result, by layout."""
