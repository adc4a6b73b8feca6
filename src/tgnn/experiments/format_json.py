"""A result as one JSON object for programs: what its file holds, and what follows from its runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import against, differs_from_paper, summary
from tgnn.utils.io import without_nan


def with_summaries(result: Result) -> dict[str, Any]:
    """Each cell with its mean, spread, interval, and p of a difference from the paper's and from the reference row."""
    tests = {column: against(result, column) for column in result.columns}
    cells = [asdict(cell) | _summary(cell) | {"p_rows": tests[cell.column].get(cell.row)} for cell in result.cells]
    found: dict[str, Any] = without_nan(asdict(result) | {"cells": cells})
    return found


def _summary(cell: CellResult) -> dict[str, Any]:
    found = summary(cell.tests)
    if found is None:
        return {"mean": None, "std": None, "interval": None, "p": None}
    return {
        "mean": found.mean,
        "std": found.std if found.runs > 1 else None,
        "interval": found.interval,
        "p": differs_from_paper(cell),
    }
