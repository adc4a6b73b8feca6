"""JSON output of a result for other programs: the result file with captions and statistics added."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tgnn.experiments.captions import data_note, result_layout, result_notes, result_title
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import paper_p_value, reference_p_values, summarize_scores
from tgnn.utils.io import without_nan


def to_json_object(result: Result) -> dict[str, Any]:
    """Convert a result to a JSON object.

    Each cell gets its mean, standard deviation, confidence interval and two p-values: ``p`` against the value of the
    paper and ``p_rows`` against the reference row.
    """
    captions = {"title": result_title(result), "layout": result_layout(result), "notes": result_notes(result)}
    p_values = {column: reference_p_values(result, column) for column in result.columns}
    cells = [
        asdict(cell) | {"note": data_note(cell)} | _statistics(cell) | {"p_rows": p_values[cell.column].get(cell.row)}
        for cell in result.cells
    ]
    json_object: dict[str, Any] = without_nan(asdict(result) | captions | {"cells": cells})
    return json_object


def _statistics(cell: CellResult) -> dict[str, Any]:
    scores = summarize_scores(cell.tests)
    if scores is None:
        return {"mean": None, "std": None, "interval": None, "p": None}
    return {
        "mean": scores.mean,
        "std": scores.std if scores.runs > 1 else None,
        "interval": scores.interval,
        "p": paper_p_value(cell),
    }
