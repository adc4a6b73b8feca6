"""The tables of a result: ours beside the paper's, what failed, which is best, and what is more than chance."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tgnn.experiments.failure_messages import in_short
from tgnn.experiments.paper_figures import find_paper_figure
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import SIGNIFICANT, Summary, against, best_rows, costs, differs_from_paper, reference
from tgnn.experiments.statistics import summary as summarize
from tgnn.report.numbers import count, metric, p_value, rate, signed
from tgnn.report.tables import Cell, Table
from tgnn.training.metrics import HIGHER_IS_BETTER

_COMPARED = "≠ differs from the paper, ≈ does not (Welch's t test, p < 0.05; at least three runs)."


@lru_cache(maxsize=4096)
def _summary(values: tuple[float, ...]) -> Summary | None:
    return summarize(values)


def summary(cell: CellResult | None) -> Summary | None:
    """Of a cell's runs; a page that refreshes itself does not reckon twice."""
    return None if cell is None else _summary(tuple(cell.tests))


def differs(cell: CellResult) -> bool:
    """Whether our mean differs from the paper's figure by more than chance."""
    p = differs_from_paper(cell)
    return p is not None and p < SIGNIFICANT


def score_table(result: Result, key: str) -> Table:
    """One cell for every row and column."""
    rows = []
    best = {column: best_rows(result, column) for column in result.columns}
    for row in result.rows:
        cells = [Cell(row, row)]
        for column in result.columns:
            cells.append(score_cell(result.cell(row, column), row in best[column]))
        rows.append(cells)
    headers = ["", *(_header(result, column) for column in result.columns)]
    papers = any(cell.paper is not None for cell in result.cells)
    note = "Mean ± standard deviation of the test score; runs, 95 % bootstrap interval from five runs on"
    note += (
        f"; the paper's figure, our difference. ★ best of the column. {_COMPARED}"
        if papers
        else ". ★ best of the column."
    )
    return Table(key, headers, rows, note, frozenset(range(1, len(headers))))


def _header(result: Result, column: str) -> str:
    metrics = {cell.metric for cell in result.cells if cell.column == column and cell.metric}
    if len(metrics) != 1:
        return column
    (name,) = metrics
    return f"{column}, {name}" + ("" if HIGHER_IS_BETTER.get(name, True) else " (lower is better)")


def score_cell(cell: CellResult | None, best: bool = False) -> Cell:
    """Ours, the paper's, and what lies between."""
    if cell is None:
        return Cell("")
    found, small = summary(cell), []
    if found is not None:
        runs = f"{found.runs} runs" if found.runs > 1 else "1 run"
        small.append(runs if found.interval is None else f"{runs}, {metric(found.low)} to {metric(found.high)}")
    if cell.paper is not None:
        spread = f" ± {metric(cell.paper_spread)}" if cell.paper_spread is not None else ""
        difference = "" if found is None else f", {signed(found.mean - cell.paper)}{_sign(cell)}"
        small.append(f"paper {metric(cell.paper)}{spread}{difference}")
    if cell.failed:
        small.append(in_short(cell.failed) if found is None else f"failed in part: {in_short(cell.failed)}")
    if found is None:
        return Cell("failed" if cell.failed else "", None, small, "failed" if cell.failed else "")
    text = metric(found.mean) + (f" ± {metric(found.std)}" if found.runs > 1 else "")
    return Cell(text, found.mean, small, "best" if best else "", _tip(cell), badge="★" if best else "")


def _sign(cell: CellResult) -> str:
    if differs_from_paper(cell) is None:
        return ""
    return "\u00a0≠" if differs(cell) else "\u00a0≈"


def _tip(cell: CellResult) -> str:
    p = differs_from_paper(cell)
    return "" if p is None else f"p = {p_value(p)} that our mean is the paper's"


# ---- times -----------------------------------------------------------------------------------------------------


def speed(cell: CellResult | None) -> float | None:
    """Epochs per second over all runs of a cell."""
    found = None if cell is None else costs(cell)
    return None if found is None else found.rate


def milliseconds(result: Result, column: str) -> dict[str, float]:
    """Milliseconds per epoch of every row of a column."""
    speeds = {row: speed(result.cell(row, column)) for row in result.rows}
    return {row: 1000 / by for row, by in speeds.items() if by}


def base_row(rows: dict[str, float]) -> str:
    """What others are compared with: gcn, or the first row."""
    return next((row for row in rows if row.split()[0] == "gcn"), next(iter(rows)))


def efficiency_table(result: Result, key: str) -> Table:
    """Parameters, seconds, epochs, epochs per second, score; the paper's under ours."""
    several = len(result.columns) > 1
    metrics = sorted({cell.metric for cell in result.cells if cell.metric})
    headers = ["", *(["neighbours"] if several else []), "parameters", "seconds", "epochs", "epochs/s"]
    headers.append(metrics[0] if len(metrics) == 1 else "score")
    best = {column: best_rows(result, column) for column in result.columns}
    rows = []
    for cell in result.cells:
        names = [Cell(cell.row, cell.row), *([Cell(cell.column, cell.column)] if several else [])]
        rows.append([*names, *_costs(result, cell), score_cell(cell, cell.row in best[cell.column])])
    first = 2 if several else 1
    note = "Means over runs; seconds are of training until it stopped by itself, the paper's of its own machine. ★ best"
    note += f" of {'those with as many neighbours' if several else 'all'}. Under the score: runs, 95 % bootstrap "
    note += f"interval from five runs on. {_COMPARED}"
    return Table(key, headers, rows, note, frozenset(range(first, len(headers))))


def _costs(result: Result, cell: CellResult) -> list[Cell]:
    found = costs(cell)
    values = [None] * 4 if found is None else [found.parameters, found.seconds, found.epochs, found.rate]
    shown = zip(values, (count, rate, count, rate), ("parameters", "seconds", "epochs", "epochs-per-second"))
    return [Cell(show(value), value, _paper_line(result, cell, what, show)) for value, show, what in shown]


def _paper_line(result: Result, cell: CellResult, what: str, show: Callable[[float | None], str]) -> tuple[str, ...]:
    figure = find_paper_figure(f"{result.name}/{what}", cell.row, cell.column)
    return () if figure is None else (f"paper {show(figure.value)}",)


# ---- tests -----------------------------------------------------------------------------------------------------


def against_table(result: Result, key: str) -> Table | None:
    """Corrected p-values of every row against the reference; ``None`` where nothing could be asked."""
    base = reference(result)
    found = {column: against(result, column) for column in result.columns}
    rows = [row for row in result.rows if any(row in by for by in found.values())]
    if base is None or not rows:
        return None
    body = [[Cell(row, row), *(_p_cell(result, base, row, column, found[column]) for column in found)] for row in rows]
    note = (
        f"Wilcoxon's signed-rank test of each row against {base} over the same splits, Holm-corrected in each column; "
        f"▲ {base} is better, ▼ worse, = not told apart (p ≥ 0.05; five runs can give no less than 0.0625)."
    )
    return Table(key, ["", *result.columns], body, note, frozenset(range(1, len(result.columns) + 1)))


def _p_cell(result: Result, base: str, row: str, column: str, found: dict[str, float]) -> Cell:
    if row not in found:
        return Cell("")
    p, mine, yours = found[row], summary(result.cell(base, column)), summary(result.cell(row, column))
    if p >= SIGNIFICANT or mine is None or yours is None:
        return Cell(f"{p_value(p)} =", p)
    cell = result.cell(row, column)
    higher = HIGHER_IS_BETTER.get(cell.metric, True) if cell is not None else True
    better = (mine.mean > yours.mean) == higher
    return Cell(f"{p_value(p)} {'▲' if better else '▼'}", p, tone="good" if better else "bad")
