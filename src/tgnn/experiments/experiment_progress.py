"""Progress of a running experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

CELLS_FOLDER = "cells"
"""Folder of the runs and measurements, next to the result file."""

RunKey = tuple[str, str, int]
"""Row, column and seed of a run."""


@dataclass
class ExperimentProgress:
    """Number of finished, running and failed runs of an experiment.

    Args:
        total: Total number of runs.
        done: Number of finished runs, including reused ones.
        reused: Number of runs reused from an earlier command.
        running: Runs that are training now.
        failed: Number of failed runs.
        seconds: Training time of each run finished by this command.
        jobs: Number of runs that train in parallel.
    """

    total: int
    done: int = 0
    reused: int = 0
    running: set[RunKey] = field(default_factory=set)
    failed: int = 0
    seconds: list[float] = field(default_factory=list)
    jobs: int = 1

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining time in seconds, or ``None`` before the first run has finished."""
        if not self.seconds or not self.left:
            return None
        return sum(self.seconds) / len(self.seconds) * self.left / min(self.jobs, self.left)

    @property
    def left(self) -> int:
        """Number of runs that are neither done nor failed."""
        return self.total - self.done - self.failed


OnProgress = Callable[[ExperimentProgress], None]
"""Callback for every run that starts or ends."""
