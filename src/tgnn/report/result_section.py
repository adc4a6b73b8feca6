"""Section of the report page for one result: scores next to the paper, training costs and significance tests."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from tgnn.experiments.captions import long_reasons, result_layout, result_notes, result_title, shorten_reason
from tgnn.experiments.decoding import by_protocol, error_rates_text
from tgnn.experiments.results import CellResult, Result, find_paper_figure, read_result
from tgnn.experiments.statistics import (
    PAIRED_TEST,
    SIGNIFICANCE_LEVEL,
    best_rows,
    paper_p_value,
    reference_p_values,
    reference_row,
    training_costs,
)
from tgnn.report.number_format import count, metric, p_value, rate, signed
from tgnn.report.result_figures import FIGURES_BY_LAYOUT, cell_summary, differs_from_paper
from tgnn.report.sections import ReportSection, ReportTable, TableCell, number_cell, text_cell
from tgnn.training.metrics import HIGHER_IS_BETTER

_DRAWN_LAYOUTS = ("rank", "mixing", "interactions", "decoding")
"""Layouts whose numbers are collapsed below the figures."""
_PAPER_COMPARISON = (
    "≠ statistically significant difference from the paper, ≈ no significant difference (Welch's t-test, p < .05, at "
    "least three runs)."
)


def read_result_section(path: Path, key: str) -> ReportSection:
    """Read a result file and build its section."""
    result = read_result(path)
    result = replace(result, cells=tuple(_with_scores(cell) for cell in result.cells))
    layout = result_layout(result)
    figures = [figure for draw in FIGURES_BY_LAYOUT[layout] if (figure := draw(result)) is not None]
    tables = [{"theorems": _theorems_table, "efficiency": _efficiency_table}.get(layout, _score_table)(result)]
    if layout == "decoding":
        tables = _decoding_tables(result)
    if layout in ("table", "efficiency"):
        tables.append(_significance_table(result))
    failures = [] if layout == "theorems" else long_reasons(result)
    return ReportSection(
        key=key,
        title=result_title(result),
        name=result.name,
        command=result.command,
        notes=result_notes(result),
        problems=[(f"{cells} failed", reason) for cells, reason in failures],
        tables=[table for table in tables if table.rows],
        figures=figures,
        collapsed="Show the numbers" if layout in _DRAWN_LAYOUTS and figures else "",
        environment=result.environment,
        order=list(FIGURES_BY_LAYOUT).index(layout),
    )


def _with_scores(cell: CellResult) -> CellResult:
    """Leave out the runs without a score, and report them as failed."""
    kept = tuple(run for run in cell.runs if math.isfinite(run.test))
    missing = len(cell.runs) - len(kept)
    if not missing:
        return cell
    reason = f"{missing} of {len(cell.runs)} runs have no score"
    return replace(cell, runs=kept, failed=f"{cell.failed}; {reason}" if cell.failed else reason)


def _theorems_table(result: Result) -> ReportTable:
    rows = []
    for cell in result.cells:
        holds = text_cell("✗ no", cell.failed, tone="bad") if cell.failed else text_cell("✓ yes", tone="good")
        rows.append([text_cell(cell.row), text_cell(cell.column), holds, text_cell(cell.note)])
    return ReportTable(["theorem", "case", "holds", "check"], rows)


def _decoding_tables(result: Result) -> list[ReportTable]:
    """Build one table per code or protocol, with a column for each signal-to-noise ratio."""
    tables = []
    for protocol, columns in by_protocol(result.columns).items():
        rows = []
        for row in result.rows:
            cells = [cell for column in columns.values() if (cell := result.cell(row, column)) is not None]
            weights = next((cell.runs[0].parameters for cell in cells if cell.runs), None)
            rates = {cell.column: TableCell(error_rates_text(cell), min(cell.tests, default=None)) for cell in cells}
            row_cells = [rates.get(column, TableCell()) for column in columns.values()]
            rows += [[text_cell(row), number_cell(weights, count), *row_cells]] if cells else []
        headers = ["", "weights", *(f"{ebn0_db} dB" for ebn0_db in columns)]
        tables.append(ReportTable(headers, rows, "Bit error rate / frame error rate.", protocol))
    return tables


# ---- scores ----------------------------------------------------------------------------------------------------


def _score_table(result: Result) -> ReportTable:
    best = {column: best_rows(result, column) for column in result.columns}
    rows = [
        [text_cell(row), *(_score_cell(result.cell(row, column), row in best[column]) for column in result.columns)]
        for row in result.rows
    ]
    note = "Mean ± standard deviation on the test set. Below: runs, 95% bootstrap confidence interval (at least 5 runs)"
    if any(cell.paper is not None for cell in result.cells):
        note += f", value of the paper and difference of our mean from it. ★ best of the column. {_PAPER_COMPARISON}"
    else:
        note += ". ★ best of the column."
    return ReportTable(["", *(_header(result, column) for column in result.columns)], rows, note)


def _header(result: Result, column: str) -> str:
    metrics = {cell.metric for cell in result.cells if cell.column == column and cell.metric}
    if len(metrics) != 1:
        return column
    (name,) = metrics
    return f"{column}, {name}" + ("" if HIGHER_IS_BETTER.get(name, True) else " (lower is better)")


def _score_cell(cell: CellResult | None, is_best: bool) -> TableCell:
    """Build a table cell with our score, the value of the paper and the difference."""
    if cell is None:
        return TableCell()
    scores, p, small = cell_summary(cell), paper_p_value(cell), []
    if scores is not None:
        runs = f"{scores.runs} runs" if scores.runs > 1 else "1 run"
        small.append(runs if scores.interval is None else f"{runs}, {metric(scores.low)} to {metric(scores.high)}")
    if cell.paper is not None:
        spread = f" ± {metric(cell.paper_spread)}" if cell.paper_spread is not None else ""
        sign = "" if p is None else "\u00a0≠" if differs_from_paper(cell) else "\u00a0≈"
        difference = "" if scores is None else f", {signed(scores.mean - cell.paper)}{sign}"
        small.append(f"paper {metric(cell.paper)}{spread}{difference}")
    if cell.failed:
        reason = shorten_reason(cell.failed)
        small.append(reason if scores is None else f"some runs failed: {reason}")
    if scores is None:
        return TableCell("failed", None, small, "failed") if cell.failed else TableCell(small=small)
    text = metric(scores.mean) + (f" ± {metric(scores.std)}" if scores.runs > 1 else "")
    tip = "" if p is None else f"difference from the paper: p = {p_value(p)} (Welch's t-test)".replace("= <", "< ")
    return TableCell(text, scores.mean, small, "best" if is_best else "", tip)


# ---- training costs --------------------------------------------------------------------------------------------


def _efficiency_table(result: Result) -> ReportTable:
    """Build the table of parameters, seconds, epochs, epochs per second and score, with the values of the paper."""
    has_columns = len(result.columns) > 1
    metrics = sorted({cell.metric for cell in result.cells if cell.metric})
    headers = ["", *(["neighbors"] if has_columns else []), "parameters", "seconds", "epochs", "epochs/s"]
    headers.append(metrics[0] if len(metrics) == 1 else "score")
    best = {column: best_rows(result, column) for column in result.columns}
    rows = [
        [
            text_cell(cell.row),
            *([text_cell(cell.column)] if has_columns else []),
            *_cost_cells(result, cell),
            _score_cell(cell, cell.row in best[cell.column]),
        ]
        for cell in result.cells
    ]
    note = (
        "Means over runs. Seconds are the training time until early stopping; the paper used another machine. ★ best "
        f"{'for this number of neighbors' if has_columns else 'of all rows'}. Below the score: runs and 95% bootstrap "
        f"confidence interval if there are at least 5 runs. {_PAPER_COMPARISON}"
    )
    return ReportTable(headers, rows, note)


def _cost_cells(result: Result, cell: CellResult) -> list[TableCell]:
    costs = training_costs(cell)
    values = [None] * 4 if costs is None else [costs.parameters, costs.seconds, costs.epochs, costs.rate]
    names = ("parameters", "seconds", "epochs", "epochs-per-second")
    cells = []
    for name, value, show in zip(names, values, (count, rate, count, rate)):
        figure = find_paper_figure(f"{result.name}/{name}", cell.row, cell.column)
        cells.append(number_cell(value, show, "" if figure is None else f"paper {show(figure.value)}"))
    return cells


# ---- significance tests ----------------------------------------------------------------------------------------


def _significance_table(result: Result) -> ReportTable:
    """Build the table of Holm-corrected p-values of every row against the reference row."""
    base = reference_row(result)
    p_values = {column: reference_p_values(result, column) for column in result.columns}
    rows = [row for row in result.rows if any(row in by_row for by_row in p_values.values())]
    body = [
        [text_cell(row), *(_p_cell(result, base, row, column, p_values[column].get(row)) for column in p_values)]
        for row in rows
        if base is not None
    ]
    note = (
        f"p-values of {PAIRED_TEST} of each row against {base} over the same splits, Holm-corrected per "
        f"column. ▲ {base} is significantly better, ▼ significantly worse, = no significant difference (p ≥ .05)."
    )
    return ReportTable(["", *result.columns], body, note, f"Paired significance tests against {base}")


def _p_cell(result: Result, base: str, row: str, column: str, p: float | None) -> TableCell:
    cell = result.cell(row, column)
    mine, yours = cell_summary(result.cell(base, column)), cell_summary(cell)
    if p is None or cell is None or mine is None or yours is None:
        return TableCell()
    if p >= SIGNIFICANCE_LEVEL:
        return TableCell(f"{p_value(p)} =", p)
    better = (mine.mean > yours.mean) == HIGHER_IS_BETTER.get(cell.metric, True)
    return TableCell(f"{p_value(p)} {'▲' if better else '▼'}", p, tone="good" if better else "bad")
