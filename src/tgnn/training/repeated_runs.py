"""Repeated runs: train one configuration with several seeds and splits in parallel, and summarize the test metric."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from tgnn.training.config import Config
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.parallel_runs import run_parallel
from tgnn.training.run_folder import RUNS, RunError, RunFolder
from tgnn.training.run_group import RunGroup
from tgnn.training.train import check_unused
from tgnn.training.worker_process import WorkerKilledError


def train_repeated(
    config: Config,
    runs: int,
    folder: Path,
    jobs: int | None = None,
    resume: bool = False,
    on_run: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> dict[str, Any]:
    """Train several runs whose seeds follow the configuration's seed, and return their summary.

    Args:
        config: Configuration of the first run.
        runs: Number of runs.
        folder: Folder of all runs. Each run is in ``seed-<n>``.
        jobs: Number of runs that are trained in parallel, each with an equal number of threads. ``None``: the number of
            cores.
        resume: Whether to continue earlier runs in the folder.
        on_run: Called with the metrics of every finished run.
    """
    if not resume:
        check_unused(folder)
    group = RunGroup(folder)
    if resume and RunFolder(folder).has_started:
        raise RunError(f"{folder} holds a single run. Choose another folder for several runs.")
    if resume and group.has_started and group.config.hash != config.hash:
        raise RunError(f"{folder} holds runs with another configuration. Choose another folder.")
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    group.write_start(config, runs)
    configs = {}
    for seed in range(config.train.seed, config.train.seed + runs):
        configs[seed] = config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})})
    results: dict[int, dict[str, Any]] = {}

    def collect(seed: int, metrics: dict[str, Any]) -> None:
        results[seed] = metrics
        on_run(metrics)

    plans = {seed: (own, group.run(seed).path) for seed, own in configs.items()}
    try:
        run_parallel(plans, min(jobs or os.cpu_count() or 1, runs), resume, collect)
    except (ValueError, OSError, ImportError):
        if not resume and not any(path.exists() for _, path in plans.values()):
            _remove_empty(folder, new_folders)
        raise
    except WorkerKilledError:
        raise RunError(
            f"A process that trains in {folder} was killed. Continue with: tgnn train --resume {folder}"
        ) from None
    summary = summarize([results[seed] for seed in configs])
    group.write_summary(summary)
    return summary


def _remove_empty(folder: Path, new_folders: Sequence[Path]) -> None:
    """Remove what was created, because no run could be started."""
    (folder / RUNS).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for path in new_folders:
            path.rmdir()


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
    half = float(scipy.stats.t.ppf(0.975, len(values) - 1)) * std / math.sqrt(len(values)) if len(values) > 1 else 0.0
    highest = 1.0 if HIGHER_IS_BETTER[first["metric"]] else math.inf
    return {
        **{key: first[key] for key in ("data", "model", "metric", "split")},
        "runs": len(values),
        "mean": mean,
        "std": std,
        "interval": [max(mean - half, 0.0), min(mean + half, highest)],
        "each": list(metrics),
    }
