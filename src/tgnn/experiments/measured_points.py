"""Measurement of experiments that train no recipes: the theorems and the planted interactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.experiment_progress import CELLS_FOLDER, ExperimentProgress, OnProgress
from tgnn.experiments.results import CellResult, Result, ResultFileError, read_result

logger = logging.getLogger("tgnn")


def measure_points(
    experiment: Experiment,
    points: Sequence[tuple[str, str]],
    selection: Selection,
    folder: Path,
    metadata: dict[str, Any],
    on_progress: OnProgress,
) -> Result:
    """Measure one point after the other and write the result after each. A failed point does not stop the others.

    Args:
        experiment: Experiment with a ``measure`` function.
        points: Rows and columns to measure.
        selection: Gives the number of runs.
        folder: Folder of the result file.
        metadata: Command and environment of the result.
        on_progress: Called whenever a point starts or ends.
    """
    assert experiment.measure is not None
    path = folder / f"{experiment.name}.json"
    (folder / CELLS_FOLDER).mkdir(exist_ok=True)
    _warn_of_dropped_points(path, points)
    progress = ExperimentProgress(len(points))
    result = Result(experiment.name, (), **metadata)
    for row, column in points:
        progress.running = {(row, column, 0)}
        on_progress(progress)
        start = time.monotonic()
        try:
            cell = experiment.measure(row, column, selection.runs or experiment.runs, folder / CELLS_FOLDER)
            progress.done += 1
        except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
            cell = CellResult(row, column, "", failed=str(error) or type(error).__name__)
            progress.failed += 1
        progress.seconds.append(time.monotonic() - start)
        result = replace(result, cells=(*result.cells, cell))
        result.write(path)
    progress.running = set()
    on_progress(progress)
    return result


def _warn_of_dropped_points(path: Path, points: Sequence[tuple[str, str]]) -> None:
    """Warn of the points in an earlier result that the new one will not have.

    A point stores no configuration, so it is not merged. Its measurements are kept in the folder of cells.
    """
    try:
        earlier = read_result(path)
    except ResultFileError:
        return
    dropped = [f"{cell.row} on {cell.column}" for cell in earlier.cells if (cell.row, cell.column) not in points]
    if dropped:
        names = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
        logger.warning(
            "%s no longer contains points that are not selected: %s; run without a selection to include them",
            path,
            names,
        )
