"""Figures of a result, one function per figure.

The charts themselves are drawn in :mod:`~tgnn.report.dot_plot`, :mod:`~tgnn.report.critical_difference`,
:mod:`~tgnn.report.bar_chart` and :mod:`~tgnn.report.line_chart`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from tgnn.experiments.captions import result_layout
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import average_ranks
from tgnn.report.bar_chart import bar_chart
from tgnn.report.critical_difference import critical_difference
from tgnn.report.dot_plot import Dot, dot_legend, dot_plot
from tgnn.report.interaction_figures import interaction_figure, parameters_figure
from tgnn.report.line_chart import Curve, legend, line_chart
from tgnn.report.number_format import number
from tgnn.report.report_figure import ReportFigure
from tgnn.report.result_tables import base_row, cell_summary, differs_from_paper, milliseconds, speed


def paper_figure(result: Result) -> ReportFigure | None:
    """Compare our scores with those of the paper, one panel per column."""
    panels = []
    for column in result.columns:
        cells = [cell for cell in result.cells if cell.column == column]
        if not any(cell.paper is not None for cell in cells):
            continue
        dots = [_dot(cell) for cell in cells if cell.paper is not None or cell.runs]
        panels.append(
            dot_plot(_panel_title(result, column), dots, next((cell.metric for cell in cells if cell.metric), ""))
        )
    return ReportFigure("Our scores and those of the paper", panels, dot_legend()) if panels else None


def _panel_title(result: Result, column: str) -> str:
    """Return the title of the panel of a column, which is a number of neighbors in the efficiency table."""
    return f"{column} neighbors" if result_layout(result) == "efficiency" and len(result.columns) > 1 else column


def _dot(cell: CellResult) -> Dot:
    scores = cell_summary(cell)
    if scores is None:
        return Dot(cell.row, paper=cell.paper, spread=cell.paper_spread)
    return Dot(cell.row, scores.mean, scores.low, scores.high, cell.paper, cell.paper_spread, differs_from_paper(cell))


def rank_figure(result: Result) -> ReportFigure | None:
    """Draw the average ranks of the rows and the critical difference between them."""
    average = average_ranks(result)
    if average is None or len(average.columns) < 2:
        return None
    left_out = [row for row in result.rows if row not in average.ranks]
    note = (
        f"Average rank over {', '.join(average.columns)}; 1 is best. A bar joins rows without a significant difference "
        f"(Nemenyi test, 5 % level)."
    )
    if left_out:
        note += f" Rows without a score in every column are left out: {', '.join(left_out)}."
    chart = critical_difference(average.ranks, average.critical_difference)
    return ReportFigure("Critical difference diagram", [chart], note=note)


def speed_figure(result: Result) -> ReportFigure | None:
    """Compare the time per epoch with that of gcn, one panel per column."""
    panels = []
    for column in result.columns:
        times = milliseconds(result, column)
        if len(times) > 1:
            panels.append(bar_chart(_panel_title(result, column), times, base_row(times), "time per epoch"))
    note = "The tooltips show milliseconds per epoch."
    if result_layout(result) != "efficiency":
        note += " These times are a rough guide, because other runs may have trained at the same time."
    return ReportFigure("Speed", panels, note=note) if panels else None


def size_figure(result: Result) -> ReportFigure | None:
    """Draw score and speed against rank or hidden size."""
    panels: list[Markup] = []
    shown: list[Curve] = []
    models = list(dict.fromkeys(_model_and_size(row)[0] for row in result.rows))
    for column in result.columns:
        curves: list[Curve] = []
        for style, model in enumerate(models):
            points = _points(result, column, model)
            if not points:
                continue
            sizes = [size for size, _ in points]
            summaries = [cell_summary(cell) for _, cell in points]
            metric = points[0][1].metric
            curves.append(
                Curve(
                    f"{model}, {metric} (left)",
                    sizes,
                    [s.mean if s else None for s in summaries],
                    style,
                    points=True,
                    low=[s.low if s else None for s in summaries],
                    high=[s.high if s else None for s in summaries],
                )
            )
            speeds = [speed(cell) for _, cell in points]
            curves.append(
                Curve(f"{model}, epochs per second (right)", sizes, speeds, style, 1, right=True, points=True)
            )
        if curves:
            shown += curves
            name = curves[0].name.partition(", ")[2].removesuffix(" (left)")
            panels.append(line_chart(column, curves, "rank or hidden size", name, "epochs/s", log2=True))
    return ReportFigure("Score and speed against size", panels, legend(shown)) if panels else None


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
    """Draw the learned branch weights over epochs, one panel per cell."""
    panels: list[Markup] = []
    shown: list[Curve] = []
    for cell in result.cells:
        curves = mixing_curves({name: list(values) for name, values in cell.series.items()})
        if curves:
            shown += curves
            panels.append(line_chart(f"{cell.row} on {cell.column}", curves, "epoch", "branch weight"))
    return ReportFigure("Learned branch weights", panels, legend(shown)) if panels else None


def mixing_curves(series: dict[str, list[float | None]]) -> list[Curve]:
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


FIGURES_BY_LAYOUT: dict[str, Sequence[Callable[[Result], ReportFigure | None]]] = {
    "table": (paper_figure, rank_figure, speed_figure),
    "efficiency": (paper_figure, speed_figure),
    "rank": (size_figure,),
    "mixing": (mixing_figure,),
    "interactions": (interaction_figure, parameters_figure),
    "theorems": (),
}
"""Functions that draw the figures of a result, by layout."""
