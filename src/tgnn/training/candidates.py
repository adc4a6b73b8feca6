"""Candidate models of ``tgnn compare`` and ``tgnn train --model auto``, and the selection of one of them."""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tgnn.data.load import task_level
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.parallel_runs import run_parallel
from tgnn.training.resume import check_unused
from tgnn.training.run_folder import CANDIDATES, CONFIG, DATA, ENVIRONMENT, HISTORY, MODEL, RunFolder
from tgnn.training.train import resolve_config

if TYPE_CHECKING:
    from tgnn.training.repeated_runs import RunGroup

logger = logging.getLogger("tgnn")

AUTO = "auto"
"""Name of a model that stands for the best candidate on the validation set."""
WITHOUT_PRODUCTS = "tgnn without products"
Candidate = tuple[str, Mapping[str, Any]]
"""Name of a model, and the options that override its recipe."""


def list_candidates(level: str, models: Sequence[str] | None = None) -> dict[str, Candidate]:
    """Return the candidates of a task level by name, the simplest first.

    Args:
        level: ``"node"`` or ``"graph"``.
        models: Names of models, which may include ``"tgnn without products"``. ``None``: the default candidates.

    Example:
        >>> list(list_candidates("graph"))
        ['mlp', 'gcn', 'gin', 'tgnn without products', 'tgnn']
    """
    names = models or ["mlp", "gcn", "graphsage" if level == "node" else "gin", WITHOUT_PRODUCTS, "tgnn"]
    return {name: ("tgnn", {"model.rank": 0}) if name == WITHOUT_PRODUCTS else (name, {}) for name in names}


def train_auto(
    data: str | os.PathLike[str] | None,
    folder: Path,
    recipe: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    runs: int = 1,
    jobs: int | None = None,
    on_candidate: Callable[[str, dict[str, Any]], None] = lambda name, metrics: None,
    on_run: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> RunFolder | RunGroup:
    """Train all candidates, select the one with the best validation metric, and write its run to a folder.

    The runs of the candidates are in ``candidates`` of the folder. If training is interrupted, the same call continues
    it. ``metrics.json`` of the run lists the validation metric of every candidate. The test metric is
    not used for selection.

    Args:
        data: Name or path of the data, as in :func:`tgnn.train`; also ``recipe``, ``options``, ``runs`` and ``jobs``.
        folder: Folder of the run. With several runs, the candidates are compared on the first seed only.
        recipe: YAML file with hyperparameters and options, which apply to all candidates.
        options: Single hyperparameters and options, which apply to all candidates.
        runs: Number of runs of the selected candidate.
        jobs: Number of runs that are trained in parallel.
        on_candidate: Called with the name and the metrics of each candidate.
        on_run: Called with the metrics of each of several runs.
    """
    check_unused(folder)
    options = dict(options or {})
    level = task_level(resolve_config(data, "tgnn", recipe, options).data.name)
    configs = {
        name: resolve_config(data, model, recipe, {**options, **changes})
        for name, (model, changes) in list_candidates(level).items()
    }
    paths = {name: folder / CANDIDATES / name.replace(" ", "-") for name in configs}
    finished: dict[str, dict[str, Any]] = {}
    failed: dict[str, Exception] = {}

    def on_finished(name: str, metrics: dict[str, Any]) -> None:
        finished[name] = metrics
        on_candidate(name, metrics)

    plans = {name: (config, paths[name]) for name, config in configs.items()}
    run_parallel(plans, min(jobs or os.cpu_count() or 1, len(plans)), True, on_finished, failed.__setitem__)
    if not finished:
        raise next(iter(failed.values()))
    for name, error in failed.items():
        logger.warning("The candidate %s failed: %s", name, error)
    names = [name for name in configs if name in finished]  # the simplest of equals is selected
    best = names[_best([finished[name] for name in names])]
    logger.info("selected %s, the best of %d models on the validation set", best, len(names))
    scores = [{"name": name, "val": finished[name]["val"], "seconds": finished[name]["seconds"]} for name in names]
    if runs > 1:
        from tgnn.training.repeated_runs import RunGroup, train_repeated

        train_repeated(configs[best], runs, folder, jobs, False, on_run)
        return RunGroup(folder)
    for file in (ENVIRONMENT, DATA, HISTORY, MODEL):
        shutil.copyfile(paths[best] / file, folder / file)
    run = RunFolder(folder)
    run.write_metrics({**finished[best], "selected": best, "candidates": scores})
    shutil.copyfile(paths[best] / CONFIG, folder / CONFIG)  # the last file: it marks a run
    return run


def _best(metrics: Sequence[Mapping[str, Any]]) -> int:
    """Return the position of the best validation metric. NaN is worse than every number."""
    sign = 1 if HIGHER_IS_BETTER[metrics[0]["metric"]] else -1
    scores = [-math.inf if row["val"] is None or math.isnan(row["val"]) else sign * row["val"] for row in metrics]
    return scores.index(max(scores))
