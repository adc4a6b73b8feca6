"""Run the cells of an experiment. Finished runs with the same configuration, data and split are reused."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tgnn.experiments.captions import shorten_reason
from tgnn.experiments.experiment import Experiment, ExperimentCell, Measure, Selection
from tgnn.experiments.results import CellResult, Result, RunResult, join_runs, merge
from tgnn.experiments.reuse import RunKey, finished_runs, has_current_config, read_earlier
from tgnn.training.config import Config
from tgnn.training.parallel_runs import call_parallel, run_parallel
from tgnn.training.run_files import current_environment
from tgnn.training.run_folder import RunError, RunFolder

logger = logging.getLogger("tgnn")

CELLS_FOLDER = "cells"
"""Folder of the runs and measurements, next to the result file."""


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
    def left(self) -> int:
        """Number of runs that are neither done nor failed."""
        return self.total - self.done - self.failed

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining time in seconds, or ``None`` before the first run has finished."""
        if not self.seconds or not self.left:
            return None
        return sum(self.seconds) / len(self.seconds) * self.left / min(self.jobs, self.left)


OnProgress = Callable[[ExperimentProgress], None]
"""Callback for every run that starts or ends."""


def run_experiment(
    experiment: Experiment,
    selection: Selection,
    folder: Path,
    command: str = "",
    on_progress: OnProgress = lambda progress: None,
) -> Result:
    """Run the selected cells and write ``folder/<name>.json`` after every run.

    Args:
        experiment: Experiment of :data:`~tgnn.experiments.definitions.EXPERIMENTS`.
        selection: Part of the experiment to run.
        folder: Folder of the result file. Run folders are in ``folder/cells``.
        command: Command line that reproduces the result, stored in the result file.
        on_progress: Called whenever a run starts or ends.
    """
    cells = experiment.cells(selection)
    (folder / CELLS_FOLDER).mkdir(parents=True, exist_ok=True)  # fails here if the folder cannot be created
    versions = {name: value for name, value in current_environment().items() if name != "command"}  # has private paths
    empty = Result(experiment.name, (), command, versions)
    run = _train_cells if experiment.measure is None else _measure_cells
    try:
        with FileLock(folder / f".{experiment.name}.lock").acquire(timeout=1):
            return run(experiment, cells, selection, folder, empty, on_progress)
    except Timeout:  # two processes would overwrite each other's runs
        raise RunError(
            f"another process is running {experiment.name} in {folder}; wait until it ends, or choose another folder "
            f"with --out"
        ) from None


# ---- experiments that train no recipes: theorems, planted interactions and decoders -----------------------------


def _measure_cells(
    experiment: Experiment,
    cells: Sequence[ExperimentCell],
    selection: Selection,
    folder: Path,
    result: Result,
    on_progress: OnProgress,
) -> Result:
    """Measure every run of the cells and write the result after each. A failed run does not stop the others.

    Earlier runs are kept if their cell stores the configuration that it has now. The files of all cells are kept in
    the folder of cells.
    """
    assert experiment.measure is not None
    path, positions = folder / f"{experiment.name}.json", [(cell.row, cell.column) for cell in cells]
    earlier = read_earlier(
        path,
        lambda cell: (cell.row, cell.column) in positions or _is_current(cell, experiment),
        "cells that are not selected",
    )
    measured = {
        (cell.row, cell.column): replace(cell, failed="")
        for cell in (earlier.cells if earlier is not None else ())
        if _is_current(cell, experiment)
    }
    if earlier is not None and measured:
        commands = dict.fromkeys([*earlier.command.split("; "), result.command])
        result = replace(result, command="; ".join(filter(None, commands)))
    rows, columns = [row for row, _, _ in experiment.rows], list(experiment.columns)
    seeds = {
        position: {run.seed for run in measured[position].runs} if position in measured else set()
        for position in positions
    }
    keys = [
        (row, column, seed)
        for seed in range(selection.runs or experiment.runs)
        for row, column in _interleave(experiment, positions)
    ]
    left = [key for key in keys if key[2] not in seeds[key[:2]]]
    jobs = 1 if experiment.describe is None else selection.jobs
    progress = ExperimentProgress(len(keys), done=len(keys) - len(left), reused=len(keys) - len(left), jobs=jobs)
    started: dict[RunKey, float] = {}

    def write_result() -> None:
        nonlocal result
        order = sorted(measured, key=lambda position: (rows.index(position[0]), columns.index(position[1])))
        result = replace(result, cells=tuple(measured[position] for position in order))
        result.write(path)

    def add(key: RunKey, cell: CellResult) -> None:
        position = key[:2]
        progress.running.discard(key)
        progress.seconds.append(time.monotonic() - started[key])
        measured[position] = join_runs(measured[position], cell) if position in measured else cell
        write_result()

    def on_done(key: RunKey, cell: CellResult) -> None:
        progress.done += 1
        add(key, cell)

    def on_failure(key: RunKey, error: Exception) -> None:
        progress.failed += 1
        add(key, CellResult(key[0], key[1], "", failed=str(error) or type(error).__name__))

    def on_start(key: RunKey) -> None:
        started[key] = time.monotonic()
        progress.running.add(key)
        on_progress(progress)

    threads = None if jobs == 1 else max(1, (os.cpu_count() or 1) // jobs)
    store, options = folder / CELLS_FOLDER, dict(selection.changes)
    tasks = {key: partial(_measure_run, experiment.measure, threads, *key, store, options) for key in left}
    if not tasks:
        write_result()
    call_parallel(tasks, max(1, min(jobs, len(tasks))), on_done, on_failure, on_start)
    on_progress(progress)
    return result


def _measure_run(measure: Measure, threads: int | None, *arguments: Any) -> CellResult:
    """Measure one run of a cell, in a worker process with a number of threads."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    return measure(*arguments)


def _interleave(experiment: Experiment, positions: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Order cells so that those of the same row and data set, which share a trained network, are far apart."""
    if experiment.describe is None:
        return list(positions)
    groups = [(row, experiment.columns[column][0]) for row, column in positions]
    turns = [groups[:index].count(group) for index, group in enumerate(groups)]
    return [position for _, position in sorted(zip(turns, positions), key=lambda pair: pair[0])]


def _is_current(cell: CellResult, experiment: Experiment) -> bool:
    """Check whether a measured cell stores the configuration that it would have now."""
    if experiment.describe is None or cell.row not in [row for row, _, _ in experiment.rows]:
        return False
    return cell.column in experiment.columns and experiment.describe(cell.row, cell.column) == cell.config


# ---- experiments that train recipes ----------------------------------------------------------------------------


def _train_cells(
    experiment: Experiment,
    cells: Sequence[ExperimentCell],
    selection: Selection,
    folder: Path,
    empty: Result,
    on_progress: OnProgress,
) -> Result:
    path, runs = folder / f"{experiment.name}.json", selection.runs or experiment.runs
    plans = {
        (cell.row, cell.column, seed): _plan(cell, seed, folder / CELLS_FOLDER)
        for seed in range(runs)  # one run of every cell first, so that the whole table is filled early
        for cell in cells
    }
    keys_by_folder: dict[Path, list[RunKey]] = {}  # cells with the same configuration share a run
    for key, (_, run_folder) in plans.items():
        keys_by_folder.setdefault(run_folder, []).append(key)
    unique = {keys[0]: plans[keys[0]] for keys in keys_by_folder.values()}
    earlier = read_earlier(
        path, lambda cell: has_current_config(cell, experiment, selection), "cells with other configurations"
    )
    finished: dict[RunKey, dict[str, Any]] = {}
    failures: dict[RunKey, str] = {}
    progress = ExperimentProgress(len(plans), jobs=selection.jobs)

    def write_result() -> Result:
        results = [_cell_result(experiment, cell, runs, finished, failures, plans) for cell in cells]
        result = replace(empty, cells=results)
        if earlier is not None:
            result = merge(earlier, result, [row for row, _, _ in experiment.rows], list(experiment.columns))
        result.write(path)
        return result

    def add_finished(key: RunKey, metrics: dict[str, Any]) -> None:
        keys = keys_by_folder[plans[key][1]]
        finished.update(dict.fromkeys(keys, metrics))
        progress.done += len(keys)

    def on_done(key: RunKey, metrics: dict[str, Any]) -> None:
        add_finished(key, metrics)
        progress.running.discard(key)
        progress.seconds.append(float(metrics["seconds"]))
        write_result()
        on_progress(progress)

    def on_failure(key: RunKey, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        message = shorten_reason(reason) if reason in failures.values() else reason
        keys = keys_by_folder[plans[key][1]]
        failures.update(dict.fromkeys(keys, reason))
        progress.running.discard(key)
        progress.failed += len(keys)
        logger.warning("%s on %s, seed %d, failed: %s", *key, message)
        write_result()
        on_progress(progress)

    def on_start(key: RunKey) -> None:
        progress.running.add(key)
        on_progress(progress)

    for key, metrics in finished_runs(unique, earlier).items():
        if isinstance(metrics, Exception):
            on_failure(key, metrics)
        else:
            add_finished(key, metrics)
    progress.reused = progress.done
    left = {key: plan for key, plan in unique.items() if key not in finished and key not in failures}
    on_progress(progress)
    if left:
        run_parallel(left, min(selection.jobs, len(left)), True, on_done, on_failure, on_start)
    return write_result()


def _plan(cell: ExperimentCell, seed: int, store: Path) -> tuple[Config, Path]:
    """Return the configuration and the folder of a run."""
    assert cell.config is not None
    config = cell.config.replace("train", seed=seed)
    return config, store / f"{Path(config.data.name).name}-{config.model.name}-{config.hash}"


def _cell_result(
    experiment: Experiment,
    cell: ExperimentCell,
    runs: int,
    finished: Mapping[RunKey, dict[str, Any]],
    failures: Mapping[RunKey, str],
    plans: Mapping[RunKey, tuple[Config, Path]],
) -> CellResult:
    assert cell.config is not None
    keys = [(cell.row, cell.column, seed) for seed in range(runs)]
    ended = [key for key in keys if key in finished]
    first = finished[ended[0]] if ended else {}
    paper = experiment.paper_figure(cell.row, cell.column)
    config = cell.config.model_dump(mode="json")
    for local_option in ("root", "offline"):
        config["data"].pop(local_option)
    return CellResult(
        cell.row,
        cell.column,
        str(first.get("metric", "")),
        config=config,
        runs=tuple(
            RunResult(**{name: finished[key][name] for name in RunResult.__dataclass_fields__}) for key in ended
        ),
        paper=None if paper is None else paper.value,
        paper_spread=None if paper is None else paper.spread,
        failed="; ".join(dict.fromkeys(failures[key] for key in keys if key in failures)),
        note=str(first.get("differs") or ""),
        paper_runs=None if paper is None else experiment.runs,
        series=_read_series(plans[ended[0]][1], tuple(experiment.series)) if ended and experiment.series else {},
    )


def _read_series(folder: Path, prefixes: tuple[str, ...]) -> dict[str, list[float]]:
    """Read the curves of a run whose names start with one of the prefixes."""
    series: dict[str, list[float]] = {}
    for record in RunFolder(folder).history():
        for name, value in record.items():
            if name.startswith(prefixes):
                series.setdefault(name, []).append(round(float(value), 4))
    return series
