"""The folder of several runs of one configuration, and how to open a folder of one or several runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tgnn.training.config import Config, make_config
from tgnn.training.run_folder import CONFIG, RUNS, RunError, RunFolder
from tgnn.utils.io import write_json

SUMMARY = "summary.json"


class RunGroup:
    """Several runs of one configuration with different seeds: ``runs.json``, ``seed-<n>`` and ``summary.json``.

    Args:
        path: Path of the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @property
    def has_started(self) -> bool:
        """Whether the folder holds several runs."""
        return (self.path / RUNS).exists()

    @property
    def config(self) -> Config:
        """Configuration of the first run. The seeds of the others follow."""
        return make_config(self._plan()["config"])

    @property
    def size(self) -> int:
        """Number of runs, including those that have not started."""
        return int(self._plan()["runs"])

    @property
    def runs(self) -> list[RunFolder]:
        """Folders of all runs, by seed."""
        first = self.config.train.seed
        return [self.run(first + number) for number in range(self.size)]

    def run(self, seed: int) -> RunFolder:
        """Return the folder of a seed."""
        return RunFolder(self.path / f"seed-{seed}")

    @property
    def metrics(self) -> dict[str, Any]:
        """Mean, standard deviation and 95 % confidence interval of the test metric, and the metrics of each run."""
        path = self.path / SUMMARY
        if not path.exists():
            raise RunError(f"{self.path} is not finished. Continue with `tgnn train --resume {self.path}`.")
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return summary

    def write_start(self, config: Config, runs: int) -> None:
        """Write the configuration and the number of runs."""
        write_json(self.path / RUNS, {"runs": runs, "config": config.model_dump(mode="json")})

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the summary of all runs."""
        write_json(self.path / SUMMARY, summary)

    def resume(self, **options: Any) -> RunGroup:
        """Continue the runs that are not finished.

        Args:
            options: ``jobs`` and ``on_run``, as in :func:`tgnn.train`.
        """
        from tgnn.training.train import train

        group = train(self.config, out=self.path, runs=self.size, resume=True, **options)
        assert isinstance(group, RunGroup)
        return group

    def _plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads((self.path / RUNS).read_text(encoding="utf-8"))
        return plan


def load_run(path: str | os.PathLike[str]) -> RunFolder | RunGroup:
    """Open the folder of a run, or of several runs.

    Args:
        path: Folder that :func:`tgnn.train` or ``tgnn train`` has written.

    Returns:
        The :class:`RunFolder`, or the :class:`RunGroup` of a folder with several runs.

    Example:
        >>> import tempfile, tgnn
        >>> folder = tgnn.train("karate", out=f"{tempfile.mkdtemp()}/run", options={"train.epochs": 2}).path
        >>> tgnn.load_run(folder).metrics["model"]
        'tgnn'
    """
    group, run = RunGroup(path), RunFolder(path)
    if group.has_started:
        return group
    if not run.has_started:
        raise RunError(f"{run.path} is not a run folder: it has no {CONFIG}.")
    return run
