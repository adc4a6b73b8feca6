"""Making a part of a table again leaves the rest of it as it was, where its settings are the same."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.results import CellResult, Outcome, Result, ResultError, read_result
from tgnn.training.config import make_config

logger = logging.getLogger("tgnn")


def read_earlier(path: Path, experiment: Experiment, ask: Selection) -> Result | None:
    """What an earlier result has with the settings of this one; what else it has is told, for it will be gone.

    Args:
        path: Of the result.
        experiment: Of which it is.
        ask: The part of it that is being made.
    """
    if not path.exists():
        return None
    try:
        found = read_result(path)
    except ResultError as error:
        logger.warning("%s; it is replaced", error)
        return None
    same = [cell for cell in found.cells if _is_same(cell, experiment, ask)]
    other = [f"{cell.row} on {cell.column}" for cell in found.cells if cell.runs and cell not in same]
    if other:
        names = ", ".join(other[:5]) + (", ..." if len(other) > 5 else "")
        logger.warning("%s had cells with other settings, which it has no more: %s", path, names)
    return replace(found, cells=tuple(same))


def _is_same(cell: CellResult, experiment: Experiment, ask: Selection) -> bool:
    """Whether the line that was typed now would give that cell these settings."""
    if not cell.config:
        return False
    try:
        then = make_config(cell.config)
        places = experiment.cells(replace(ask, models=[cell.row], datasets=[cell.column], largest=None))
    except ValueError:  # a row, a data set or a setting that is no more
        return False
    return any((p.row, p.column, p.config.hash) == (cell.row, cell.column, then.hash) for p in places)


def merge(earlier: Result | None, now: Result, experiment: Experiment) -> Result:
    """The result of now, and beside it what the earlier one has more: cells, and runs of seeds not made now.

    Args:
        earlier: From :func:`read_earlier`.
        now: What was asked for.
        experiment: Gives the order of rows and columns.
    """
    if earlier is None:
        return now
    mine = [_with_more(cell, earlier.cell(cell.row, cell.column)) for cell in now.cells]
    more = [cell for cell in earlier.cells if now.cell(cell.row, cell.column) is None and _fits(cell, mine)]
    if [len(cell.runs) for cell in mine] == [len(cell.runs) for cell in now.cells] and not more:
        return now
    rows = [row for row, _, _ in experiment.rows]
    columns = list(dict.fromkeys([*experiment.columns, *now.columns, *(cell.column for cell in more)]))
    cells = sorted([*mine, *more], key=lambda cell: (rows.index(cell.row), columns.index(cell.column)))
    commands = dict.fromkeys([*earlier.command.split("; "), now.command])
    return replace(now, cells=tuple(cells), command="; ".join(line for line in commands if line))


def _with_more(cell: CellResult, then: CellResult | None) -> CellResult:
    """Runs stay whose seed was not made now: not asked for, not yet, or it failed, with the reason beside them."""
    if then is None:
        return cell
    made = {run.seed for run in cell.runs}
    more = [run for run in then.runs if run.seed not in made]
    if not more or not _same_data([*cell.runs, *more]):
        return cell
    runs = sorted([*cell.runs, *more], key=lambda run: run.seed)
    missing = {name: getattr(cell, name) or getattr(then, name) for name in ("metric", "note", "series")}
    return replace(cell, runs=runs, **missing)


def _same_data(runs: Sequence[Outcome]) -> bool:
    return len({run.data_hash for run in runs}) == 1


def _fits(cell: CellResult, others: Sequence[CellResult]) -> bool:
    """Whether its splits are those of the other rows of its column: of other data they would not be."""
    known = {run.seed: run.split_hash for other in others if other.column == cell.column for run in other.runs}
    fits = all(known.get(run.seed, run.split_hash) == run.split_hash for run in cell.runs)
    if not fits:
        logger.warning("%s on %s is left out: its runs were of other splits or data", cell.row, cell.column)
    return fits
