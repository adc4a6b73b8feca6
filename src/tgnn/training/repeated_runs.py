"""Repeated runs: train one configuration with several seeds and splits in parallel, and summarize the test metric."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.stats

from tgnn.training.config import Config
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.parallel_runs import WorkerKilledError, run_parallel
from tgnn.training.resume import check_moved_data, check_unused, with_data_path
from tgnn.training.run_files import RunsFile, SummaryFile
from tgnn.training.run_folder import RUNS, Folder, RunError, RunFolder, no_run_error
from tgnn.utils.io import write_json

if TYPE_CHECKING:
    from tgnn.data.tables.schema import ReadOptions
    from tgnn.training.predictions import Predictions

SUMMARY = "summary.json"


class RunGroup(Folder):
    """Several runs of one configuration with different seeds: ``runs.json``, ``seed-<n>`` and ``summary.json``.

    Args:
        path: Path of the folder.
    """

    @property
    def has_started(self) -> bool:
        """Whether the folder holds several runs."""
        return (self.path / RUNS).exists()

    @property
    def config(self) -> Config:
        """Configuration of the first run. The seeds of the others follow."""
        return self._read(RUNS, RunsFile).config

    @property
    def size(self) -> int:
        """Number of runs, including those that have not started."""
        return self._read(RUNS, RunsFile).runs

    @property
    def runs(self) -> list[RunFolder]:
        """Folders of all runs, by seed."""
        first = self.config.train.seed
        return [RunFolder(self.path / f"seed-{first + number}") for number in range(self.size)]

    @property
    def finished_runs(self) -> list[RunFolder]:
        """Folders of all runs, which must be finished."""
        runs = self.runs
        if unfinished := [run for run in runs if not run.is_finished]:
            raise RunError(
                f"{len(unfinished)} of {len(runs)} runs in {self.path} are not finished. "
                f"Continue with `tgnn train --resume {self.path}`."
            )
        return runs

    @property
    def metrics(self) -> dict[str, Any]:
        """Mean, standard deviation and 95 % confidence interval of the test metric, and the metrics of each run."""
        if not (self.path / SUMMARY).exists():
            raise RunError(f"{self.path} is not finished. Continue with `tgnn train --resume {self.path}`.")
        return self._read(SUMMARY, SummaryFile).to_json()

    def predict(self, data: str | os.PathLike[str] | None = None, device: str = "auto", **options: Any) -> Predictions:
        """Predict with the mean of all runs, with the standard deviation over them; see :func:`tgnn.predict`."""
        from tgnn.training.predict import predict

        return predict(self, data, device=device, **options)

    def evaluate(
        self,
        data: str | os.PathLike[str] | None = None,
        metric: str | None = None,
        device: str = "auto",
        options: ReadOptions | None = None,
    ) -> dict[str, Any]:
        """Compute the metric of the mean prediction of all runs on labeled new data."""
        from tgnn.training.predict import evaluate_together

        return evaluate_together(self, data, metric, device, options)

    def resume(self, data: str | os.PathLike[str] | None = None, **options: Any) -> RunGroup:
        """Continue the runs that are not finished.

        Args:
            data: Path of the runs' own data if it was moved.
            options: ``jobs`` and ``on_run``, as in :func:`tgnn.train`.
        """
        train_repeated(with_data_path(self.config, data), self.size, self.path, resume=True, **options)
        return self


def load_run(path: str | os.PathLike[str]) -> RunFolder | RunGroup:
    """Open the folder of a run, or of several runs.

    Args:
        path: Folder that :func:`tgnn.train` or ``tgnn train`` has written.

    Returns:
        The :class:`~tgnn.training.run_folder.RunFolder`, or the :class:`RunGroup` of a folder with several runs.

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
        raise no_run_error(run.path)
    return run


def train_repeated(
    config: Config,
    runs: int,
    folder: Path,
    jobs: int | None = None,
    resume: bool = False,
    on_run: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> dict[str, Any]:
    """Train several runs whose seeds follow the configuration's seed, and return their summary.

    Each run is in the folder ``seed-<n>``. Parallel runs have equal numbers of threads. See :func:`tgnn.train`.
    """
    if not resume:
        check_unused(folder)
    group = RunGroup(folder)
    if resume and RunFolder(folder).has_started:
        raise RunError(f"{folder} holds a single run. Choose another folder for several runs.")
    if resume and group.has_started and group.config.hash != config.hash:
        if group.config.replace("data", name=config.data.name).hash != config.hash:
            raise RunError(f"{folder} holds runs with another configuration. Choose another folder.")
        if started := [run for run in group.runs if run.has_started]:
            check_moved_data(started[0], config)
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RUNS, {"runs": runs, "config": config.model_dump(mode="json")})
    plans: dict[int, tuple[Config, Path]] = {}
    for run in group.runs:
        seed = config.train.seed + len(plans)
        plans[seed] = config.replace("train", seed=seed), run.path
    results: dict[int, dict[str, Any]] = {}

    def collect(seed: int, metrics: dict[str, Any]) -> None:
        results[seed] = metrics
        on_run(metrics)

    try:
        run_parallel(plans, min(jobs or os.cpu_count() or 1, runs), resume, collect)
    except (ValueError, OSError, ImportError):
        if not resume and not any(path.exists() for _, path in plans.values()):  # no run could be started
            (folder / RUNS).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                for path in new_folders:
                    path.rmdir()
        raise
    except WorkerKilledError:
        raise RunError(
            f"A process that trains in {folder} was killed. Continue with: tgnn train --resume {folder}"
        ) from None
    summary = summarize([results[seed] for seed in plans])
    write_json(folder / SUMMARY, summary)
    return summary


def summarize(metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Compute the mean, the standard deviation and the 95 % confidence interval of the test metric over runs.

    The interval is Student's t interval, clipped to the range of the metric. ``tgnn train --runs`` prints it. Results
    of ``tgnn reproduce`` have bootstrap intervals instead (:func:`tgnn.experiments.statistics.bootstrap_interval`).

    Example:
        >>> rows = [{"test": t, "data": "d", "model": "m", "metric": "accuracy", "split": "s"} for t in (0.8, 0.9)]
        >>> summary = summarize(rows)
        >>> round(summary["mean"], 3), round(summary["std"], 4), [round(end, 2) for end in summary["interval"]]
        (0.85, 0.0707, [0.21, 1.0])
    """
    values = np.array([row["test"] for row in metrics])
    first = metrics[0]
    mean = float(values.mean())
    std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {
        **{key: first[key] for key in ("data", "model", "metric", "split")},
        "runs": len(values),
        "mean": mean,
        "std": std,
        **_mean_baselines(metrics),
        "interval": list(student_interval(values, first["metric"])),
        "each": [{key: value for key, value in row.items() if key != "details"} for row in metrics],
    }


def student_interval(values: Sequence[float] | np.ndarray, metric: str) -> tuple[float, float]:
    """Compute Student's 95 % confidence interval of the mean, clipped to the range of the metric."""
    mean, count = float(np.mean(values)), len(values)
    std = float(np.std(values, ddof=1)) if count > 1 else 0.0
    half = float(scipy.stats.t.ppf(0.975, count - 1)) * std / math.sqrt(count) if count > 1 else 0.0
    lowest = -math.inf if metric == "r2" else 0.0
    highest = 1.0 if HIGHER_IS_BETTER[metric] else math.inf
    return max(mean - half, lowest), min(mean + half, highest)


def _mean_baselines(metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Average each baseline, and each metric of the runs themselves, over the runs."""
    if not all("baselines" in row for row in metrics):
        return {}

    def average(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
        return {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if all(key in row for row in rows)}

    groups: dict[str, list[dict[str, Any]]] = {}
    for row in metrics:
        for baseline in row["baselines"]:
            groups.setdefault(baseline["name"], []).append(baseline)
    baselines = [
        {
            "name": name,
            "test": float(np.mean([row["test"] for row in rows])),
            "scores": average([row["scores"] for row in rows]),
        }
        for name, rows in groups.items()
        if len(rows) == len(metrics)
    ]
    return {"scores": average([row["details"]["scores"] for row in metrics]), "baselines": baselines}
