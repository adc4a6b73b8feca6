"""A result as CSV: one line for every cell."""

from __future__ import annotations

import csv
import io

from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import costs, differs_from_paper, summary

HEAD = (
    *("row", "column", "metric", "mean", "std", "low", "high", "runs", "paper", "paper_spread", "difference"),
    *("p", "parameters", "seconds", "epochs", "failed", "note"),
)


def as_csv(result: Result) -> str:
    """What cannot be said, such as the spread of one run, is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(["" if value is None else value for value in _line(cell)] for cell in result.cells)
    return file.getvalue()


def _line(cell: CellResult) -> list[object]:
    found, cost = summary(cell.tests), costs(cell)
    ours: list[object] = [None, None, None, None, len(cell.runs)]
    if found is not None:
        ours = [found.mean, found.std if found.runs > 1 else None, found.low, found.high, found.runs]
    difference = None if found is None or cell.paper is None else found.mean - cell.paper
    sizes = [None] * 3 if cost is None else [cost.parameters, cost.seconds, cost.epochs]
    return [
        *(cell.row, cell.column, cell.metric, *ours, cell.paper, cell.paper_spread, difference),
        *(differs_from_paper(cell), *sizes, cell.failed, cell.note),
    ]
