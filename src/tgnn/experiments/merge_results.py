"""Merging of a new result with an earlier one, so that running a part of a table keeps the rest of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.results import CellResult, Result, ResultFileError, RunResult, read_result
from tgnn.training.config import make_config

logger = logging.getLogger("tgnn")


def read_earlier(path: Path, experiment: Experiment, selection: Selection) -> Result | None:
    """Read the cells of an earlier result that have the same configuration as now, and warn of the others.

    Args:
        path: Path of the earlier result. A missing or invalid file gives ``None``.
        experiment: Experiment of the result.
        selection: Part of the experiment that is run now, with the options that override the recipes.
    """
    if not path.exists():
        return None
    try:
        earlier = read_result(path)
    except ResultFileError as error:
        logger.warning("%s The file is replaced.", error)
        return None
    same = [cell for cell in earlier.cells if _has_same_config(cell, experiment, selection)]
    dropped = [f"{cell.row} on {cell.column}" for cell in earlier.cells if cell.runs and cell not in same]
    if dropped:
        names = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
        logger.warning("%s no longer contains cells with other configurations: %s", path, names)
    return replace(earlier, cells=tuple(same))


def _has_same_config(cell: CellResult, experiment: Experiment, selection: Selection) -> bool:
    """Check whether the current options would give a cell the configuration that it has."""
    if not cell.config:
        return False
    try:
        stored = make_config(cell.config)
        current = experiment.cells(replace(selection, models=[cell.row], datasets=[cell.column], largest=None))
    except ValueError:  # the row, the data set or an option no longer exists
        return False
    return any((c.row, c.column, c.config.hash) == (cell.row, cell.column, stored.hash) for c in current)


def merge(earlier: Result | None, new: Result, experiment: Experiment) -> Result:
    """Add the cells and the runs with other seeds of an earlier result to a new one.

    Args:
        earlier: Result of :func:`read_earlier`.
        new: Result of the current command.
        experiment: Gives the order of the rows and columns.
    """
    if earlier is None:
        return new
    merged = [_with_earlier_runs(cell, earlier.cell(cell.row, cell.column)) for cell in new.cells]
    more = [
        cell for cell in earlier.cells if new.cell(cell.row, cell.column) is None and _has_same_splits(cell, merged)
    ]
    if [len(cell.runs) for cell in merged] == [len(cell.runs) for cell in new.cells] and not more:
        return new
    rows = [row for row, _, _ in experiment.rows]
    columns = list(dict.fromkeys([*experiment.columns, *new.columns, *(cell.column for cell in more)]))
    cells = sorted([*merged, *more], key=lambda cell: (rows.index(cell.row), columns.index(cell.column)))
    commands = dict.fromkeys([*earlier.command.split("; "), new.command])
    return replace(new, cells=tuple(cells), command="; ".join(command for command in commands if command))


def _with_earlier_runs(cell: CellResult, earlier: CellResult | None) -> CellResult:
    """Add the earlier runs of seeds that were not run now, or that failed now."""
    if earlier is None:
        return cell
    seeds = {run.seed for run in cell.runs}
    more = [run for run in earlier.runs if run.seed not in seeds]
    if not more or not _have_same_data([*cell.runs, *more]):
        return cell
    runs = sorted([*cell.runs, *more], key=lambda run: run.seed)
    missing = {name: getattr(cell, name) or getattr(earlier, name) for name in ("metric", "note", "series")}
    return replace(cell, runs=runs, **missing)


def _have_same_data(runs: Sequence[RunResult]) -> bool:
    return len({run.data_hash for run in runs}) == 1


def _has_same_splits(cell: CellResult, others: Sequence[CellResult]) -> bool:
    """Check that a cell has the splits of the other rows of its column. With other data it would not."""
    splits = {run.seed: run.split_hash for other in others if other.column == cell.column for run in other.runs}
    same = all(splits.get(run.seed, run.split_hash) == run.split_hash for run in cell.runs)
    if not same:
        logger.warning("%s on %s is left out, because its runs have other splits or data", cell.row, cell.column)
    return same
