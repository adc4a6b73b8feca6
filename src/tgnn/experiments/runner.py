"""Run the cells of an experiment. Finished runs with the same configuration, data and split are reused."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tgnn.data.dataset_info import content_hash
from tgnn.data.load import get_entry, load
from tgnn.data.splits import choose_split
from tgnn.experiments.experiment import Experiment, ExperimentCell, Selection
from tgnn.experiments.experiment_progress import CELLS_FOLDER, ExperimentProgress, OnProgress, RunKey
from tgnn.experiments.failure_messages import shorten_reason
from tgnn.experiments.measured_points import measure_points
from tgnn.experiments.merge_results import merge, read_earlier
from tgnn.experiments.results import CellResult, Result, RunResult
from tgnn.training.config import Config
from tgnn.training.parallel_runs import run_parallel
from tgnn.training.prepare import transform_features
from tgnn.training.run_folder import METRICS, RunError, RunFolder, current_environment

logger = logging.getLogger("tgnn")


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
    measured = experiment.measure is not None
    cells, points = ([], experiment.select_points(selection)) if measured else (experiment.cells(selection), [])
    folder.mkdir(parents=True, exist_ok=True)  # fails before any run starts if the folder cannot be created
    with _locked(experiment, folder):
        metadata: dict[str, Any] = {"command": command, "environment": _public_environment()}
        if measured:
            return measure_points(experiment, points, selection, folder, metadata, on_progress)
        return _train_cells(experiment, cells, selection, folder, metadata, on_progress)


def _locked(experiment: Experiment, folder: Path) -> contextlib.AbstractContextManager[object]:
    """Lock the result file. Two processes would overwrite each other's runs."""
    try:
        return FileLock(folder / f".{experiment.name}.lock").acquire(timeout=1)
    except Timeout:
        raise RunError(
            f"another process is running {experiment.name} in {folder}; wait until it ends, or choose another folder "
            f"with --out"
        ) from None


def _train_cells(
    experiment: Experiment,
    cells: Sequence[ExperimentCell],
    selection: Selection,
    folder: Path,
    metadata: dict[str, Any],
    on_progress: OnProgress,
) -> Result:
    path, store, runs = folder / f"{experiment.name}.json", folder / CELLS_FOLDER, selection.runs or experiment.runs
    plans = {
        (cell.row, cell.column, seed): _plan(cell.config, seed, store)
        for seed in range(runs)  # one run of every cell first, so that the whole table is filled early
        for cell in cells
    }
    keys_by_folder: dict[Path, list[RunKey]] = {}  # cells with the same configuration share a run
    for key, (_, run_folder) in plans.items():
        keys_by_folder.setdefault(run_folder, []).append(key)
    unique = {keys[0]: plans[keys[0]] for keys in keys_by_folder.values()}
    store.mkdir(exist_ok=True)
    earlier = read_earlier(path, experiment, selection)
    finished: dict[RunKey, dict[str, Any]] = {}
    failures: dict[RunKey, str] = {}
    progress = ExperimentProgress(len(plans), jobs=selection.jobs)

    def current_result() -> Result:
        results = [_cell_result(experiment, cell, runs, finished, failures, plans) for cell in cells]
        return merge(earlier, Result(experiment.name, results, **metadata), experiment)

    def add_finished(key: RunKey, metrics: dict[str, Any]) -> None:
        keys = keys_by_folder[plans[key][1]]
        finished.update(dict.fromkeys(keys, metrics))
        progress.done += len(keys)

    def on_done(key: RunKey, metrics: dict[str, Any]) -> None:
        add_finished(key, metrics)
        progress.running.discard(key)
        progress.seconds.append(float(metrics["seconds"]))
        current_result().write(path)
        on_progress(progress)

    def on_failure(key: RunKey, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        message = shorten_reason(reason) if reason in failures.values() else reason
        keys = keys_by_folder[plans[key][1]]
        failures.update(dict.fromkeys(keys, reason))
        progress.running.discard(key)
        progress.failed += len(keys)
        logger.warning("%s on %s, seed %d, failed: %s", *key, message)
        current_result().write(path)
        on_progress(progress)

    def on_start(key: RunKey) -> None:
        progress.running.add(key)
        on_progress(progress)

    for key, earlier_run in _earlier_runs(unique).items():
        if isinstance(earlier_run, Exception):
            on_failure(key, earlier_run)
        else:
            add_finished(key, earlier_run)
    progress.reused = progress.done
    left = {key: plan for key, plan in unique.items() if key not in finished and key not in failures}
    on_progress(progress)
    if left:
        run_parallel(left, min(selection.jobs, len(left)), True, on_done, on_failure, on_start)
    result = current_result()
    result.write(path)
    return result


def _plan(config: Config, seed: int, store: Path) -> tuple[Config, Path]:
    own = config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})})
    return own, store / f"{own.data.name}-{own.model.name}-{own.hash}"


def _earlier_runs(plans: dict[RunKey, tuple[Config, Path]]) -> dict[RunKey, dict[str, Any] | Exception]:
    """Read the metrics of finished runs, or the reason why a run folder cannot be reused."""
    runs: dict[RunKey, dict[str, Any] | Exception] = {}
    hashes = _Hashes()
    for key, (config, folder) in sorted(plans.items(), key=lambda plan: plan[1][0].data.model_dump_json()):
        if RunFolder(folder).is_finished:
            try:
                runs[key] = _reuse_run(config, folder, hashes)
            except (ValueError, OSError) as error:
                runs[key] = error
    return runs


def _reuse_run(config: Config, folder: Path, hashes: _Hashes) -> dict[str, Any]:
    try:
        metrics = RunFolder(folder).metrics
    except RunError as error:
        raise RunError(f"{error}; remove the folder") from error
    missing = [name for name in (*RunResult.__dataclass_fields__, "metric") if metrics.get(name) is None]
    if missing:
        raise RunError(f"{folder / METRICS} is damaged: it has no {missing[0]}; remove the folder")
    if (metrics["data_hash"], metrics["split_hash"]) != hashes.of(config):
        raise RunError(
            f"{folder} is a run on other data than {config.data.name} is now (the hashes differ); "
            f"remove the folder, or choose another one with --out"
        )
    return metrics


class _Hashes:
    """Hashes of the current data and splits. Consecutive requests for the same data set load it once."""

    def __init__(self) -> None:
        self._data: dict[str, tuple[Any, str, str]] = {}

    def of(self, config: Config) -> tuple[str, str]:
        key = config.data.model_dump_json()
        if key not in self._data:
            self._data.clear()  # keep one data set in memory, because it may be large
            options = config.data
            data = load(options.name, options.root, options.offline, split=options.split)
            protocol = options.split or get_entry(options.name).default_split  # data.split may be one fold of it
            self._data[key] = (data, content_hash(transform_features(data, options)), protocol)
        data, data_hash, protocol = self._data[key]
        return data_hash, choose_split(data, protocol, config.train.seed).hash


def _cell_result(
    experiment: Experiment,
    cell: ExperimentCell,
    runs: int,
    finished: dict[RunKey, dict[str, Any]],
    failures: dict[RunKey, str],
    plans: dict[RunKey, tuple[Config, Path]],
) -> CellResult:
    keys = [(cell.row, cell.column, seed) for seed in range(runs)]
    ended = [finished[key] for key in keys if key in finished]
    reasons = list(dict.fromkeys(failures[key] for key in keys if key in failures))
    paper = experiment.paper_figure(cell.row, cell.column)
    first = next((plans[key][1] for key in keys if key in finished), None)
    config = cell.config.model_dump(mode="json")
    for local_option in ("root", "offline"):
        config["data"].pop(local_option)
    return CellResult(
        cell.row,
        cell.column,
        str(ended[0]["metric"]) if ended else "",
        config=config,
        runs=tuple(RunResult(**{name: metrics[name] for name in RunResult.__dataclass_fields__}) for metrics in ended),
        paper=None if paper is None else paper.value,
        paper_spread=None if paper is None else paper.spread,
        failed="; ".join(reasons),
        note=str(ended[0].get("differs") or "") if ended else "",
        paper_runs=None if paper is None else experiment.runs,
        series=_series(first, experiment.series) if first is not None and experiment.series else {},
    )


def _series(folder: Path, prefixes: Sequence[str]) -> dict[str, list[float]]:
    """Read the curves of a run whose names start with one of the prefixes."""
    series: dict[str, list[float]] = {}
    for record in RunFolder(folder).history():
        for name, value in record.items():
            if name.startswith(tuple(prefixes)):
                series.setdefault(name, []).append(round(float(value), 4))
    return series


def _public_environment() -> dict[str, Any]:
    """Return the software versions and the machine without the command, which may contain private paths."""
    return {name: value for name, value in current_environment().items() if name != "command"}
