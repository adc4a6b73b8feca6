"""Measuring the points of an experiment that trains no recipes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.results import CellResult, Result, ResultError, read_result
from tgnn.experiments.run_progress import CELLS, Progress, Tell

logger = logging.getLogger("tgnn")


def measure_points(
    experiment: Experiment,
    points: Sequence[tuple[str, str]],
    ask: Selection,
    folder: Path,
    about: dict[str, Any],
    tell: Tell,
) -> Result:
    """Point after point; the result is written after each, and one that fails does not stop the rest."""
    assert experiment.measure is not None
    path = folder / f"{experiment.name}.json"
    (folder / CELLS).mkdir(exist_ok=True)
    _tell_what_goes(path, points)
    progress = Progress(len(points))
    result = Result(experiment.name, experiment.title, (), notes=experiment.notes, kind=experiment.kind, **about)
    for row, column in points:
        progress.running = {(row, column, 0)}
        tell(progress)
        start = time.monotonic()
        try:
            cell = experiment.measure(row, column, ask.runs or experiment.runs, folder / CELLS)
            progress.done += 1
        except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
            cell = CellResult(row, column, "", failed=str(error) or type(error).__name__)
            progress.failed += 1
        progress.seconds.append(time.monotonic() - start)
        result = replace(result, cells=(*result.cells, cell))
        result.write(path)
    progress.running = set()
    tell(progress)
    return result


def _tell_what_goes(path: Path, points: Sequence[tuple[str, str]]) -> None:
    """Nothing is merged here, for a point does not tell its settings; but what was measured is found again."""
    try:
        earlier = read_result(path)
    except ResultError:
        return
    gone = [f"{cell.row} on {cell.column}" for cell in earlier.cells if (cell.row, cell.column) not in points]
    if gone:
        names = ", ".join(gone[:5]) + (", ..." if len(gone) > 5 else "")
        logger.warning("%s had more, which it has no more: %s; ask for all to have them again", path, names)
