"""The figures of a result: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import ranking
from tgnn.report.bars import bar_chart
from tgnn.report.critical import critical_difference
from tgnn.report.dots import Dot, dot_legend, dot_plot
from tgnn.report.figure import Figure
from tgnn.report.interactions import interaction_figure, parameters_figure
from tgnn.report.lines import Curve, legend, line_chart
from tgnn.report.numbers import number
from tgnn.report.scores import base_row, differs, milliseconds, speed, summary


def paper_figure(result: Result) -> Figure | None:
    """Ours against the paper's, a panel for each column."""
    panels = []
    for column in result.columns:
        cells = [cell for cell in result.cells if cell.column == column]
        if not any(cell.paper is not None for cell in cells):
            continue
        dots = [_dot(cell) for cell in cells if cell.paper is not None or cell.runs]
        panels.append(dot_plot(_named(result, column), dots, next((cell.metric for cell in cells if cell.metric), "")))
    return Figure("The paper's figures and ours", panels, dot_legend()) if panels else None


def _named(result: Result, column: str) -> str:
    """A column in words: in tables of efficiency it is a number of neighbours."""
    return f"{column} neighbours" if result.kind == "efficiency" and len(result.columns) > 1 else column


def _dot(cell: CellResult) -> Dot:
    found = summary(cell)
    if found is None:
        return Dot(cell.row, paper=cell.paper, spread=cell.paper_spread)
    return Dot(cell.row, found.mean, found.low, found.high, cell.paper, cell.paper_spread, differs(cell))


def rank_figure(result: Result) -> Figure | None:
    """Average ranks of the rows, and which of them are told apart."""
    found = ranking(result)
    if found is None or len(found.columns) < 2:
        return None
    left_out = [row for row in result.rows if row not in found.ranks]
    note = (
        f"Average rank over {', '.join(found.columns)}; 1 is best. A bar joins rows that Nemenyi's test (5 %) does not "
    )
    note += "tell apart."
    if left_out:
        note += f" Left out, because a column is missing: {', '.join(left_out)}."
    return Figure("Critical differences", [critical_difference(found.ranks, found.critical)], note=note)


def speed_figure(result: Result) -> Figure | None:
    """Milliseconds per epoch in multiples of gcn's, a panel for each column."""
    panels = []
    for column in result.columns:
        found = milliseconds(result, column)
        if len(found) > 1:
            panels.append(bar_chart(_named(result, column), found, base_row(found), "time per epoch"))
    note = "Milliseconds per epoch are in the tips of the bars."
    if result.kind != "efficiency":
        note += " A guide only, unless nothing else ran: a table of many runs is seldom made on a quiet machine."
    return Figure("Speed", panels, note=note) if panels else None


def size_figure(result: Result) -> Figure | None:
    """Score and speed against rank or width."""
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
            found = [summary(cell) for _, cell in points]
            metric = points[0][1].metric
            curves.append(
                Curve(
                    f"{model}, {metric} (left)",
                    sizes,
                    [s.mean if s else None for s in found],
                    style,
                    points=True,
                    low=[s.low if s else None for s in found],
                    high=[s.high if s else None for s in found],
                )
            )
            speeds = [speed(cell) for _, cell in points]
            curves.append(
                Curve(f"{model}, epochs per second (right)", sizes, speeds, style, 1, right=True, points=True)
            )
        if curves:
            shown += curves
            name = curves[0].name.partition(", ")[2].removesuffix(" (left)")
            panels.append(line_chart(column, curves, "rank or width", name, "epochs/s", log2=True))
    return Figure("Score and speed against size", panels, legend(shown)) if panels else None


def _points(result: Result, column: str, model: str) -> list[tuple[float, CellResult]]:
    found = []
    for cell in result.cells:
        name, size = _model_and_size(cell.row)
        if cell.column == column and name == model and size is not None and cell.runs:
            found.append((size, cell))
    return sorted(found, key=lambda point: point[0])


def _model_and_size(row: str) -> tuple[str, float | None]:
    """The first word, and the last as a number.

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


def mixing_figure(result: Result) -> Figure | None:
    """The learned weights of the branches over epochs, a panel for each cell."""
    panels: list[Markup] = []
    shown: list[Curve] = []
    for cell in result.cells:
        curves = mixing_curves({name: list(values) for name, values in cell.series.items()})
        if curves:
            shown += curves
            panels.append(line_chart(f"{cell.row} on {cell.column}", curves, "epoch", "weight of the branch"))
    return Figure("How much of each branch training wants", panels, legend(shown)) if panels else None


def mixing_curves(series: dict[str, list[float | None]]) -> list[Curve]:
    """``a_high`` solid, ``a_low`` dashed, one colour for each layer."""
    layers = list(dict.fromkeys(name.partition("/")[2] for name in series))
    curves = []
    for name, values in series.items():
        dash = 0 if name.startswith("a_high") else 1 if name.startswith("a_low") else 2
        clean = [number(value) for value in values]
        epochs = [float(epoch) for epoch in range(1, len(clean) + 1)]
        if any(value is not None for value in clean):
            curves.append(Curve(name, epochs, clean, layers.index(name.partition("/")[2]), dash))
    return curves


MAKERS: dict[str, Sequence[Callable[[Result], Figure | None]]] = {
    "table": (paper_figure, rank_figure, speed_figure),
    "efficiency": (paper_figure, speed_figure),
    "rank": (size_figure,),
    "mixing": (mixing_figure,),
    "interactions": (interaction_figure, parameters_figure),
    "theorems": (),
}
"""Which figures a kind of result has."""
