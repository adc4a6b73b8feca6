"""How far an experiment is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

CELLS = "cells"
"""Folder of what was run or measured, beside the result."""

Key = tuple[str, str, int]
"""Row, column and seed of a run."""


@dataclass
class Progress:
    """How far an experiment is.

    Args:
        total: Runs in all.
        done: That are done, those found again included.
        found: That were found again.
        running: Under way.
        failed: That cannot be run.
        seconds: That each of those run here took.
        jobs: Runs at once.
    """

    total: int
    done: int = 0
    found: int = 0
    running: set[Key] = field(default_factory=set)
    failed: int = 0
    seconds: list[float] = field(default_factory=list)
    jobs: int = 1

    @property
    def to_go(self) -> float | None:
        """Seconds, as those run so far took; ``None`` before the first is done."""
        if not self.seconds or not self.left:
            return None
        return sum(self.seconds) / len(self.seconds) * self.left / min(self.jobs, self.left)

    @property
    def left(self) -> int:
        """Neither done nor failed."""
        return self.total - self.done - self.failed


Tell = Callable[[Progress], None]
"""Called whenever something begins or ends."""
