"""Stored results that ``tgnn reproduce`` recognizes as those of the current recipes."""

from __future__ import annotations

from pathlib import Path

from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Selection
from tgnn.experiments.results import read_result

RESULTS = sorted((Path(__file__).parents[2] / "results").glob("*.json"))


def recognized_cells() -> dict[str, list[str]]:
    """Return the stored cells of each experiment that match the current recipes."""
    found: dict[str, list[str]] = {}
    for path in RESULTS:
        experiment = EXPERIMENTS[path.stem]
        hashes = {run.config_hash for cell in read_result(path).cells for run in cell.runs}
        if experiment.measure is None:
            found[path.stem] = [
                f"{c.row} on {c.column}" for c in experiment.cells(Selection()) if c.config.hash in hashes
            ]
    return found
