"""The same recipe with several seeds and splits, spread over the cores, and what comes out of it."""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from tgnn.training.config import Config, make_config
from tgnn.training.loop import Interrupted, asked_to_stop
from tgnn.training.run import WrongRun, train, write_json

SUMMARY, PLAN = "summary.json", "runs.json"


def train_many(
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
    folder.mkdir(parents=True, exist_ok=True)
    if not resume and (folder / PLAN).exists():
        raise WrongRun(f"{folder} holds runs already; resume them, or choose another folder")
    write_json(folder / PLAN, {"runs": runs, "config": config.model_dump(mode="json")})
    seeds = [config.train.seed + number for number in range(runs)]
    plans = {
        seed: config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})}) for seed in seeds
    }
    jobs = min(jobs or os.cpu_count() or 1, runs)
    found: dict[int, dict[str, Any]] = {}
    if jobs == 1:
        for seed, plan in plans.items():
            found[seed] = train(plan, folder / f"seed-{seed}", resume)
            tell(found[seed])
    else:
        _side_by_side(plans, folder, jobs, resume, found, tell)
    summary = summarise([found[seed] for seed in seeds])
    write_json(folder / SUMMARY, summary)
    return summary


def _side_by_side(
    plans: dict[int, Config],
    folder: Path,
    jobs: int,
    resume: bool,
    found: dict[int, dict[str, Any]],
    tell: Callable[[dict[str, Any]], None],
) -> None:
    """Runs in processes of their own. No more are begun than run, so that a stop stops all of them."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    waiting, running = list(plans), dict[Future[dict[str, Any]], int]()
    with asked_to_stop() as stop, ProcessPoolExecutor(jobs, get_context("spawn"), _end_with_parent) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs and not stop.is_set():
                    seed = waiting.pop(0)
                    plan = plans[seed].model_dump(mode="json")
                    place = str(folder / f"seed-{seed}")
                    running[pool.submit(_train_in_process, plan, place, resume, threads)] = seed
                done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for task in done:
                    seed = running.pop(task)
                    found[seed] = task.result()
                    tell(found[seed])
                if stop.is_set():
                    raise Interrupted
        except BrokenProcessPool:
            raise WrongRun(f"a process of {folder} was killed; go on with: tgnn train --resume {folder}") from None
        finally:
            for process in list((pool._processes or {}).values()) if running else []:
                process.terminate()  # asks: it saves where it is


def _end_with_parent() -> None:
    """A worker whose parent is killed is asked to stop (on Linux), and does not go on alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _train_in_process(settings: dict[str, Any], folder: str, resume: bool, threads: int) -> dict[str, Any]:
    config = make_config(settings)
    own = config.train.model_copy(update={"threads": config.train.threads or threads})
    return train(config.model_copy(update={"train": own}), Path(folder), resume)


def read_plan(folder: Path) -> tuple[Config, int] | None:
    """Config and number of the runs that a folder holds, if it holds several."""
    path = folder / PLAN
    if not path.exists():
        return None
    plan = json.loads(path.read_text(encoding="utf-8"))
    return make_config(plan["config"]), int(plan["runs"])


def summarise(metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean, standard deviation and 95 % interval (Student's t) of the test metric over runs.

    Example:
        >>> rows = [{"test": t, "data": "d", "model": "m", "metric": "accuracy", "split": "s"} for t in (0.8, 0.9)]
        >>> found = summarise(rows)
        >>> round(found["mean"], 3), round(found["std"], 4), [round(end, 2) for end in found["interval"]]
        (0.85, 0.0707, [0.21, 1.49])
    """
    values = np.array([row["test"] for row in metrics])
    first = metrics[0]
    mean = float(values.mean())
    std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    half = float(scipy.stats.t.ppf(0.975, len(values) - 1)) * std / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return {
        **{key: first[key] for key in ("data", "model", "metric", "split")},
        "runs": len(values),
        "mean": mean,
        "std": std,
        "interval": [mean - half, mean + half],
        "each": list(metrics),
    }
