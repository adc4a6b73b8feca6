"""Tables of a result: scores next to the values of the paper, training costs and significance tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tgnn.experiments.failure_messages import shorten_reason
from tgnn.experiments.paper_figures import find_paper_figure
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import (
    SIGNIFICANCE_LEVEL,
    ScoreSummary,
    best_rows,
    paper_p_value,
    reference_p_values,
    reference_row,
    summarize_scores,
    training_costs,
)
from tgnn.report.number_format import count, metric, p_value, rate, signed
from tgnn.report.tables import ReportTable, TableCell
from tgnn.training.metrics import HIGHER_IS_BETTER

_PAPER_COMPARISON = (
    "≠ statistically significant difference from the paper, ≈ no significant difference (Welch's t-test, p < .05, at "
    "least three runs)."
)


@lru_cache(maxsize=4096)
def _cached_summary(values: tuple[float, ...]) -> ScoreSummary | None:
    return summarize_scores(values)


def cell_summary(cell: CellResult | None) -> ScoreSummary | None:
    """Summarize the runs of a cell. The cache avoids repeated bootstraps when a served page refreshes."""
    return None if cell is None else _cached_summary(tuple(cell.tests))


def differs_from_paper(cell: CellResult) -> bool:
    """Check whether our mean differs significantly from the value of the paper."""
    p = paper_p_value(cell)
    return p is not None and p < SIGNIFICANCE_LEVEL


def score_table(result: Result, key: str) -> ReportTable:
    """Build the table of scores with one cell per row and column."""
    rows = []
    best = {column: best_rows(result, column) for column in result.columns}
    for row in result.rows:
        cells = [TableCell(row, row)]
        for column in result.columns:
            cells.append(score_cell(result.cell(row, column), row in best[column]))
        rows.append(cells)
    headers = ["", *(_header(result, column) for column in result.columns)]
    has_paper = any(cell.paper is not None for cell in result.cells)
    note = "Mean ± standard deviation on the test set. Below: runs, 95% bootstrap confidence interval (at least 5 runs)"
    note += (
        f", value of the paper and difference of our mean from it. ★ best of the column. {_PAPER_COMPARISON}"
        if has_paper
        else ". ★ best of the column."
    )
    return ReportTable(key, headers, rows, note, frozenset(range(1, len(headers))))


def _header(result: Result, column: str) -> str:
    metrics = {cell.metric for cell in result.cells if cell.column == column and cell.metric}
    if len(metrics) != 1:
        return column
    (name,) = metrics
    return f"{column}, {name}" + ("" if HIGHER_IS_BETTER.get(name, True) else " (lower is better)")


def score_cell(cell: CellResult | None, best: bool = False) -> TableCell:
    """Build a table cell with our score, the value of the paper and the difference."""
    if cell is None:
        return TableCell("")
    scores, small = cell_summary(cell), []
    if scores is not None:
        runs = f"{scores.runs} runs" if scores.runs > 1 else "1 run"
        small.append(runs if scores.interval is None else f"{runs}, {metric(scores.low)} to {metric(scores.high)}")
    if cell.paper is not None:
        spread = f" ± {metric(cell.paper_spread)}" if cell.paper_spread is not None else ""
        difference = "" if scores is None else f", {signed(scores.mean - cell.paper)}{_significance_sign(cell)}"
        small.append(f"paper {metric(cell.paper)}{spread}{difference}")
    if cell.failed:
        reason = shorten_reason(cell.failed)
        small.append(reason if scores is None else f"some runs failed: {reason}")
    if scores is None:
        return TableCell("failed" if cell.failed else "", None, small, "failed" if cell.failed else "")
    text = metric(scores.mean) + (f" ± {metric(scores.std)}" if scores.runs > 1 else "")
    return TableCell(text, scores.mean, small, "best" if best else "", _tip(cell), badge="★" if best else "")


def _significance_sign(cell: CellResult) -> str:
    if paper_p_value(cell) is None:
        return ""
    return "\u00a0≠" if differs_from_paper(cell) else "\u00a0≈"


def _tip(cell: CellResult) -> str:
    p = paper_p_value(cell)
    return "" if p is None else f"difference from the paper: p = {p_value(p)} (Welch's t-test)".replace("= <", "< ")


# ---- training costs --------------------------------------------------------------------------------------------


def speed(cell: CellResult | None) -> float | None:
    """Compute the epochs per second over all runs of a cell."""
    costs = None if cell is None else training_costs(cell)
    return None if costs is None else costs.rate


def milliseconds(result: Result, column: str) -> dict[str, float]:
    """Compute the milliseconds per epoch of every row of a column."""
    speeds = {row: speed(result.cell(row, column)) for row in result.rows}
    return {row: 1000 / by for row, by in speeds.items() if by}


def base_row(rows: dict[str, float]) -> str:
    """Return the row that the speed of the others is compared with: gcn, or the first row."""
    return next((row for row in rows if row.split()[0] == "gcn"), next(iter(rows)))


def efficiency_table(result: Result, key: str) -> ReportTable:
    """Build the table of parameters, seconds, epochs, epochs per second and score, with the values of the paper."""
    has_columns = len(result.columns) > 1
    metrics = sorted({cell.metric for cell in result.cells if cell.metric})
    headers = ["", *(["neighbors"] if has_columns else []), "parameters", "seconds", "epochs", "epochs/s"]
    headers.append(metrics[0] if len(metrics) == 1 else "score")
    best = {column: best_rows(result, column) for column in result.columns}
    rows = []
    for cell in result.cells:
        names = [TableCell(cell.row, cell.row), *([TableCell(cell.column, cell.column)] if has_columns else [])]
        rows.append([*names, *_cost_cells(result, cell), score_cell(cell, cell.row in best[cell.column])])
    first = 2 if has_columns else 1
    note = "Means over runs. Seconds are the training time until early stopping; the paper used another machine. ★ best"
    note += f" {'for this number of neighbors' if has_columns else 'of all rows'}. Below the score: runs and 95% "
    note += f"bootstrap confidence interval if there are at least 5 runs. {_PAPER_COMPARISON}"
    return ReportTable(key, headers, rows, note, frozenset(range(first, len(headers))))


def _cost_cells(result: Result, cell: CellResult) -> list[TableCell]:
    costs = training_costs(cell)
    values = [None] * 4 if costs is None else [costs.parameters, costs.seconds, costs.epochs, costs.rate]
    columns = zip(values, (count, rate, count, rate), ("parameters", "seconds", "epochs", "epochs-per-second"))
    return [
        TableCell(show(value), value, _paper_line(result, cell, quantity, show)) for value, show, quantity in columns
    ]


def _paper_line(
    result: Result, cell: CellResult, quantity: str, show: Callable[[float | None], str]
) -> tuple[str, ...]:
    figure = find_paper_figure(f"{result.name}/{quantity}", cell.row, cell.column)
    return () if figure is None else (f"paper {show(figure.value)}",)


# ---- significance tests ----------------------------------------------------------------------------------------


def significance_table(result: Result, key: str) -> ReportTable | None:
    """Build the table of Holm-corrected p-values of every row against the reference row, or return ``None``."""
    base = reference_row(result)
    p_values = {column: reference_p_values(result, column) for column in result.columns}
    rows = [row for row in result.rows if any(row in by_row for by_row in p_values.values())]
    if base is None or not rows:
        return None
    body = [
        [TableCell(row, row), *(_p_cell(result, base, row, column, p_values[column]) for column in p_values)]
        for row in rows
    ]
    note = (
        f"p-values of Wilcoxon's signed-rank test of each row against {base} over the same splits, Holm-corrected per "
        f"column. ▲ {base} is significantly better, ▼ significantly worse, = no significant difference (p ≥ .05). With "
        f"five runs the smallest possible p-value is .0625."
    )
    return ReportTable(key, ["", *result.columns], body, note, frozenset(range(1, len(result.columns) + 1)))


def _p_cell(result: Result, base: str, row: str, column: str, p_values: dict[str, float]) -> TableCell:
    if row not in p_values:
        return TableCell("")
    p, mine, yours = p_values[row], cell_summary(result.cell(base, column)), cell_summary(result.cell(row, column))
    if p >= SIGNIFICANCE_LEVEL or mine is None or yours is None:
        return TableCell(f"{p_value(p)} =", p)
    cell = result.cell(row, column)
    higher = HIGHER_IS_BETTER.get(cell.metric, True) if cell is not None else True
    better = (mine.mean > yours.mean) == higher
    return TableCell(f"{p_value(p)} {'▲' if better else '▼'}", p, tone="good" if better else "bad")
