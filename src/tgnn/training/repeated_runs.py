"""The same recipe with several seeds and splits, spread over the cores, and what comes out of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from tgnn.training.config import Config, make_config
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.parallel_runs import run_parallel
from tgnn.training.train import CONFIG, PLAN, RunError
from tgnn.training.worker_process import WorkerKilledError
from tgnn.utils.io import write_json

__all__ = ["PLAN", "SUMMARY", "read_plan", "summarize", "train_repeated"]

SUMMARY = "summary.json"


def train_repeated(
    config: Config,
    runs: int,
    folder: Path,
    jobs: int | None = None,
    resume: bool = False,
    tell: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> dict[str, Any]:
    """Trains with the seeds that follow the config's own, each in ``folder/seed-<n>``, and sums up.

    Args:
        config: Of the first run.
        runs: How many.
        folder: For all of them.
        jobs: Processes at once; by default as many as there are cores. Each has its share of the threads.
        resume: Whether to go on where earlier runs in the folder were stopped.
        tell: Called with the metrics of every run that ends.
    """
    if not resume and (folder / PLAN).exists():
        raise RunError(f"{folder} holds runs already; go on with them (--resume {folder}), or choose another folder")
    if not resume and (folder / CONFIG).exists():
        raise RunError(f"{folder} holds a run already; choose another folder")
    new = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / PLAN, {"runs": runs, "config": config.model_dump(mode="json")})
    seeds = [config.train.seed + number for number in range(runs)]
    plans = {
        seed: config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})}) for seed in seeds
    }
    jobs = min(jobs or os.cpu_count() or 1, runs)
    found: dict[int, dict[str, Any]] = {}

    def done(seed: int, metrics: dict[str, Any]) -> None:
        found[seed] = metrics
        tell(metrics)

    try:
        run_parallel({seed: (plan, folder / f"seed-{seed}") for seed, plan in plans.items()}, jobs, resume, done)
    except (ValueError, OSError, ImportError):
        if not resume and not any((folder / f"seed-{seed}").exists() for seed in seeds):
            _take_back(folder, new)
        raise
    except WorkerKilledError:
        raise RunError(f"a process of {folder} was killed; go on with: tgnn train --resume {folder}") from None
    summary = summarize([found[seed] for seed in seeds])
    write_json(folder / SUMMARY, summary)
    return summary


def _take_back(folder: Path, new: Sequence[Path]) -> None:
    """Nothing has begun: what was asked cannot be done. Then nothing is left behind."""
    (folder / PLAN).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for part in new:
            part.rmdir()


def read_plan(folder: Path) -> tuple[Config, int] | None:
    """Config and number of the runs that a folder holds, if it holds several."""
    path = folder / PLAN
    if not path.exists():
        return None
    plan = json.loads(path.read_text(encoding="utf-8"))
    return make_config(plan["config"]), int(plan["runs"])


def summarize(metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Compute the mean, the standard deviation and the 95 % confidence interval of the test metric over runs.

    The interval is Student's t interval, clipped to the range of the metric. ``tgnn train --runs`` prints it. Results
    of ``tgnn reproduce`` have bootstrap intervals instead (:func:`tgnn.experiments.statistics.bootstrap_interval`).

    Example:
        >>> rows = [{"test": t, "data": "d", "model": "m", "metric": "accuracy", "split": "s"} for t in (0.8, 0.9)]
        >>> found = summarize(rows)
        >>> round(found["mean"], 3), round(found["std"], 4), [round(end, 2) for end in found["interval"]]
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
