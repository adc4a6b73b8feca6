"""Figures of a result, one function per figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from tgnn.experiments.captions import result_layout
from tgnn.experiments.decoding import AGGREGATIONS, ITERATIONS, METRIC, NETWORK_ROWS, PUBLISHED, RULES, by_protocol
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import (
    SIGNIFICANCE_LEVEL,
    ScoreSummary,
    average_ranks,
    paper_p_value,
    summarize_scores,
    training_costs,
)
from tgnn.report.charts import ReportFigure, Trace, curve, line_chart, plain_label, shorten, value_range
from tgnn.report.number_format import metric, number, rate
from tgnn.report.row_charts import Bar, Dot, bar_chart, critical_difference, dot_plot

_APART = 0.07
"""Horizontal offset between the curves of poolings, so that their confidence intervals do not overlap."""


@lru_cache(maxsize=4096)
def _summarize(values: tuple[float, ...]) -> ScoreSummary | None:
    return summarize_scores(values)


def cell_summary(cell: CellResult | None) -> ScoreSummary | None:
    """Summarize the runs of a cell. The cache avoids repeated bootstraps when a served page refreshes."""
    return None if cell is None else _summarize(tuple(cell.tests))


def differs_from_paper(cell: CellResult) -> bool:
    """Check whether our mean differs significantly from the value of the paper."""
    p = paper_p_value(cell)
    return p is not None and p < SIGNIFICANCE_LEVEL


# ---- tables ----------------------------------------------------------------------------------------------------


def _paper_figure(result: Result) -> ReportFigure | None:
    """Compare our scores with those of the paper, one chart per column."""
    charts = []
    for column in result.columns:
        cells = [cell for cell in result.cells if cell.column == column and (cell.paper is not None or cell.runs)]
        if any(cell.paper is not None for cell in cells):
            rows = [f"{cell.row} ≠" if differs_from_paper(cell) else cell.row for cell in cells]
            series = {"ours": [_our_dot(cell) for cell in cells], "paper": [_paper_dot(cell) for cell in cells]}
            charts.append(dot_plot(_chart_title(result, column), rows, series, _metric_name(cells)))
    note = (
        "Ours: mean and 95% bootstrap confidence interval. Paper: value ± standard deviation. ≠ marks a significant "
        "difference from the paper (p < .05)."
    )
    return ReportFigure("Our scores and those of the paper", charts, note) if charts else None


def _chart_title(result: Result, column: str) -> str:
    """Return the title of the chart of a column, which is a number of neighbors in the efficiency table."""
    return f"{column} neighbors" if result_layout(result) == "efficiency" and len(result.columns) > 1 else column


def _metric_name(cells: Iterable[CellResult]) -> str:
    return next((cell.metric for cell in cells if cell.metric), "")


def _our_dot(cell: CellResult) -> Dot:
    scores = cell_summary(cell)
    if scores is None:
        return Dot(f"{cell.row}, ours: missing")
    interval = "" if scores.low is None else f", {metric(scores.low)} to {metric(scores.high)}"
    return Dot(f"{cell.row}, ours: {metric(scores.mean)}{interval}", scores.mean, scores.low, scores.high)


def _paper_dot(cell: CellResult) -> Dot:
    if cell.paper is None:
        return Dot(f"{cell.row}, paper: missing")
    label, spread = f"{cell.row}, paper: {metric(cell.paper)}", cell.paper_spread
    if spread is None:
        return Dot(label, cell.paper)
    return Dot(f"{label} ± {metric(spread)}", cell.paper, cell.paper - spread, cell.paper + spread)


def _rank_figure(result: Result) -> ReportFigure | None:
    """Draw the average ranks of the rows and the critical difference between them."""
    average = average_ranks(result)
    if average is None:
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


def _speed_figure(result: Result) -> ReportFigure | None:
    """Compare the time per epoch with that of gcn, or of the first row, one chart per column."""
    charts = []
    for column in result.columns:
        speeds = {row: _speed(result.cell(row, column)) for row in result.rows}
        times = {row: 1000 / speed for row, speed in speeds.items() if speed}
        if len(times) > 1:
            base = next((row for row in times if row.split()[0] == "gcn"), next(iter(times)))
            bars = [
                Bar(
                    row,
                    time / times[base],
                    f"{rate(time / times[base])}\u00d7",
                    f"{row}: {rate(time)} ms per epoch",
                    "var(--c2)" if row == base else "var(--c0)",
                )
                for row, time in times.items()
            ]
            x_name = f"time per epoch relative to {shorten(base, 18)}"
            charts.append(bar_chart(_chart_title(result, column), bars, x_name, mark=1))
    note = "The labels at the pointer show milliseconds per epoch."
    if result_layout(result) != "efficiency":
        note += " These times are a rough guide, because other runs may have trained at the same time."
    return ReportFigure("Speed", charts, note) if charts else None


def _speed(cell: CellResult | None) -> float | None:
    """Compute the epochs per second over all runs of a cell."""
    costs = None if cell is None else training_costs(cell)
    return None if costs is None else costs.rate


# ---- branch weights --------------------------------------------------------------------------------------------


def _mixing_figure(result: Result) -> ReportFigure | None:
    """Draw the learned branch weights over epochs, one chart per cell."""
    charts = [
        line_chart(f"{cell.row} on {cell.column}", curves, "epoch", "branch weight")
        for cell in result.cells
        if (curves := mixing_curves(cell.series))
    ]
    return ReportFigure("Learned branch weights", charts) if charts else None


def mixing_curves(series: Mapping[str, Sequence[float | None]]) -> list[Trace]:
    """Return the curves of branch weights: ``a_high`` solid, ``a_low`` dashed, one color per layer."""
    layers = list(dict.fromkeys(name.partition("/")[2] for name in series))
    curves = []
    for name, values in series.items():
        dash = 0 if name.startswith("a_high") else 1 if name.startswith("a_low") else 2
        if any(value is not None for value in values):
            epochs = range(1, len(values) + 1)
            curves.append(curve(plain_label(name), epochs, values, layers.index(name.partition("/")[2]), dash))
    return curves


# ---- scores against size and order -----------------------------------------------------------------------------

Points = list[tuple[float, CellResult]]


def _size_figure(result: Result) -> ReportFigure | None:
    """Draw score and speed against rank or hidden channels, one chart per column."""
    charts = []
    for column, y_name, series in _panels(result, lambda cell: (cell.column, *_name_and_number(cell.row))):
        curves = []
        for style, model, points in series:
            sizes, speeds = [size for size, _ in points], [_speed(cell) for _, cell in points]
            curves.append(_score_curve(model, points, style))
            curves.append(curve(f"{model}, epochs/s", sizes, speeds, style, 1, right=True, markers=True))
        chart = line_chart(column, curves, "rank or hidden channels", y_name, right_name="epochs/s", log=True)
        charts.append(chart)
    return ReportFigure("Score and speed against size", charts) if charts else None


def _interaction_figure(result: Result) -> ReportFigure | None:
    """Draw score against the order of the interaction, one curve per pooling function and one chart per width."""

    def place(cell: CellResult) -> tuple[str, str, float | None]:
        pooling, width = _name_and_number(cell.row)
        return "" if width is None else f"width {width:g}", pooling, _name_and_number(cell.column)[1]

    charts = []
    for width, y_name, series in _panels(result, place):
        curves = []
        for style, pooling, points in series:
            offset = _APART * (style - (len(series) - 1) / 2)
            curves.append(_score_curve(pooling, [(order + offset, cell) for order, cell in points], style))
        charts.append(line_chart(width, curves, "order of the interaction", y_name))
    return ReportFigure("Score against the order of the interaction", charts) if charts else None


def _parameters_figure(result: Result) -> ReportFigure | None:
    """Draw score against the number of parameters, one curve per pooling function and one chart per order."""

    def place(cell: CellResult) -> tuple[str, str, float | None]:
        costs, order = training_costs(cell), _name_and_number(cell.column)[1]
        parameters = None if costs is None or order is None else costs.parameters
        return f"order {order:g}" if order else "", _name_and_number(cell.row)[0], parameters

    y_range = value_range(scores.mean for cell in result.cells if (scores := cell_summary(cell)) is not None)
    charts = []
    for order, y_name, series in _panels(result, place):
        curves = [_score_curve(pooling, points, style, interval=False) for style, pooling, points in series]
        charts.append(line_chart(order, curves, "parameters", y_name, log=True, y_range=y_range))
    return ReportFigure("Score against the number of parameters", charts) if charts else None


def _panels(
    result: Result, place: Callable[[CellResult], tuple[str, str, float | None]]
) -> Iterator[tuple[str, str, list[tuple[int, str, Points]]]]:
    """Yield the title, the metric, and the style, name and sorted points of each curve of every chart.

    Args:
        result: Result with the cells to draw. Cells without runs or without a positive x value are left out.
        place: Returns the title of the chart, the name of the curve and the x value of a cell.
    """
    panels: dict[str, dict[str, Points]] = {}
    for cell in result.cells:
        title, name, x = place(cell)
        if cell.runs and x is not None and x > 0:
            panels.setdefault(title, {}).setdefault(name, []).append((x, cell))
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    for title, curves in panels.items():
        series = [
            (names.index(name), name, sorted(points, key=lambda point: point[0])) for name, points in curves.items()
        ]
        yield title, _metric_name(cell for _, _, points in series for _, cell in points), series


def _name_and_number(text: str) -> tuple[str, float | None]:
    """Split a number from the end of the name of a row or column.

    Example:
        >>> _name_and_number("tgnn 8"), _name_and_number("gcn"), _name_and_number("3")
        (('tgnn', 8.0), ('gcn', None), ('', 3.0))
    """
    found = re.fullmatch(r"(.*?)\s*(\d+)", text)
    return (found[1], number(float(found[2]))) if found else (text, None)


def _score_curve(name: str, points: Points, style: int, interval: bool = True) -> Trace:
    """Return the mean scores of cells over x, with their confidence intervals."""
    scores = [summary for _, cell in points if (summary := cell_summary(cell)) is not None]
    ends = ([score.low for score in scores], [score.high for score in scores]) if interval else None
    return curve(name, [x for x, _ in points], [score.mean for score in scores], style, markers=True, interval=ends)


def _decoding_figure(result: Result) -> ReportFigure | None:
    """Draw the bit error rate against the signal-to-noise ratio, one chart per code or protocol."""
    charts = []
    for protocol, columns in by_protocol(result.columns).items():
        curves = []
        for row in (*NETWORK_ROWS, *(f"{RULES[0]} {iterations}" for iterations in ITERATIONS)):
            scores = {ebn0: cell_summary(result.cell(row, column)) for ebn0, column in columns.items()}
            rates = {ebn0: summary.mean for ebn0, summary in scores.items() if summary is not None and summary.mean > 0}
            name, _, variant = row.partition(" ")
            style = AGGREGATIONS.index(name) if name in AGGREGATIONS else len(AGGREGATIONS)
            dash = ITERATIONS.index(int(variant)) if name in RULES else int(bool(variant))
            curves += [curve(row, list(rates), list(rates.values()), style, dash, markers=True)] if rates else []
        for style, (name, (_, published)) in enumerate(PUBLISHED.get(protocol, {}).items()):
            trace = curve(name, list(published), list(published.values()), style, 2, markers=True)
            curves.append(trace | {"line": trace["line"] | {"color": "var(--muted)"}})
        charts.append(line_chart(protocol, curves, "Eb/N0 in dB", METRIC, log_y=True, height=380))
    return ReportFigure("Bit error rate against the signal-to-noise ratio", charts) if charts else None


FIGURES_BY_LAYOUT: dict[str, Sequence[Callable[[Result], ReportFigure | None]]] = {
    "table": (_paper_figure, _rank_figure, _speed_figure),
    "efficiency": (_paper_figure, _speed_figure),
    "rank": (_size_figure,),
    "mixing": (_mixing_figure,),
    "interactions": (_interaction_figure, _parameters_figure),
    "decoding": (_decoding_figure,),
    "theorems": (),
}
"""Functions that draw the figures of a result, by layout."""
