"""CSV output of a result, one line per cell."""

from __future__ import annotations

import csv
import io

from tgnn.experiments.captions import data_note
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import paper_p_value, summarize_scores, training_costs

HEADER = (
    *("row", "column", "metric", "mean", "std", "low", "high", "runs", "paper", "paper_spread", "difference"),
    *("p", "parameters", "seconds", "epochs", "failed", "note"),
)


def to_csv(result: Result) -> str:
    """Format a result as CSV. Undefined values, such as the standard deviation of one run, are empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(["" if value is None else value for value in _line(cell)] for cell in result.cells)
    return file.getvalue()


def _line(cell: CellResult) -> list[object]:
    scores, costs = summarize_scores(cell.tests), training_costs(cell)
    ours: list[object] = [None, None, None, None, len(cell.runs)]
    if scores is not None:
        ours = [scores.mean, scores.std if scores.runs > 1 else None, scores.low, scores.high, scores.runs]
    difference = None if scores is None or cell.paper is None else scores.mean - cell.paper
    sizes = [None] * 3 if costs is None else [costs.parameters, costs.seconds, costs.epochs]
    return [
        *(cell.row, cell.column, cell.metric, *ours, cell.paper, cell.paper_spread, difference),
        *(paper_p_value(cell), *sizes, cell.failed, data_note(cell)),
    ]
