"""Measuring the points of an experiment that trains no recipes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tgnn.reproduce.experiment import Ask, Experiment
from tgnn.reproduce.progress import CELLS, Progress, Tell
from tgnn.reproduce.result import CellResult, Result


def measure_points(experiment: Experiment, ask: Ask, folder: Path, about: dict[str, Any], tell: Tell) -> Result:
    """Point after point; the result is written after each, and one that fails does not stop the rest."""
    assert experiment.measure is not None
    points = experiment.measured(ask)
    progress = Progress(len(points))
    result = Result(experiment.name, experiment.title, (), notes=experiment.notes, kind=experiment.kind, **about)
    for row, column in points:
        progress.running = {(row, column, 0)}
        tell(progress, result)
        start = time.monotonic()
        try:
            cell = experiment.measure(row, column, ask.runs or experiment.runs, folder / CELLS)
            progress.done += 1
        except (ValueError, RuntimeError, OSError, MemoryError) as error:
            cell = CellResult(row, column, "", failed=str(error) or type(error).__name__)
            progress.failed += 1
        progress.seconds.append(time.monotonic() - start)
        result = replace(result, cells=(*result.cells, cell))
        result.write(folder / f"{experiment.name}.json")
    progress.running = set()
    tell(progress, result)
    return result
