"""Running the cells of an experiment: what was run before with the same settings, data and split is found again."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tgnn.data.catalog import CATALOG
from tgnn.data.dataset_info import content_hash
from tgnn.data.load import get_entry, load
from tgnn.data.split_protocols import choose_split
from tgnn.experiments.experiment import Cell, Experiment, Selection
from tgnn.experiments.failure_messages import in_short
from tgnn.experiments.measured_points import measure_points
from tgnn.experiments.merge_results import merge, read_earlier
from tgnn.experiments.results import CellResult, Outcome, Result
from tgnn.experiments.run_progress import CELLS, Key, Progress, Tell
from tgnn.training.config import Config
from tgnn.training.history import NAME as HISTORY
from tgnn.training.parallel_runs import run_parallel
from tgnn.training.prepare import transform_features
from tgnn.training.train import METRICS, RunError, environment, read_metrics

logger = logging.getLogger("tgnn")


def run_experiment(
    experiment: Experiment,
    ask: Selection,
    folder: Path,
    command: str = "",
    tell: Tell = lambda progress: None,
) -> Result:
    """Runs what is asked for, and writes ``folder/<name>.json`` after every run.

    Args:
        experiment: Of :data:`~tgnn.experiments.definitions.EXPERIMENTS`.
        ask: Which part of it.
        folder: For the result; runs are in ``folder/cells``.
        command: That a reader can type to have the same.
        tell: Called whenever something begins or ends.
    """
    measured = experiment.measure is not None
    cells, points = ([], experiment.measured(ask)) if measured else (experiment.cells(ask), [])
    folder.mkdir(parents=True, exist_ok=True)  # a place that cannot be is an error before anything runs
    with _alone(experiment, folder):
        about: dict[str, Any] = {"command": command, "environment": _machine()}
        if measured:
            return measure_points(experiment, points, ask, folder, about, tell)
        return _train_cells(experiment, cells, ask, folder, about, tell)


def _alone(experiment: Experiment, folder: Path) -> contextlib.AbstractContextManager[object]:
    """One process at a table: two would each write without the runs of the other."""
    try:
        return FileLock(folder / f".{experiment.name}.lock").acquire(timeout=1)
    except Timeout:
        text = f"another process makes {experiment.name} in {folder}: wait for it, or give another --out"
        raise RunError(text) from None


def _train_cells(
    experiment: Experiment, cells: Sequence[Cell], ask: Selection, folder: Path, about: dict[str, Any], tell: Tell
) -> Result:
    path, store, runs = folder / f"{experiment.name}.json", folder / CELLS, ask.runs or experiment.runs
    plans = {
        (cell.row, cell.column, seed): _plan(cell.config, seed, store)
        for seed in range(runs)  # first one run of every cell: a whole table soon, and then a better one
        for cell in cells
    }
    alike: dict[Path, list[Key]] = {}  # cells of the same settings are of the same run
    for key, (_, place) in plans.items():
        alike.setdefault(place, []).append(key)
    first = {keys[0]: plans[keys[0]] for keys in alike.values()}
    store.mkdir(exist_ok=True)
    earlier = read_earlier(path, experiment, ask)
    outcomes: dict[Key, dict[str, Any]] = {}
    failures: dict[Key, str] = {}
    progress = Progress(len(plans), jobs=ask.jobs)

    def now() -> Result:
        made = [_cell(experiment, cell, runs, outcomes, failures, plans) for cell in cells]
        asked = Result(experiment.name, experiment.title, made, kind=experiment.kind, **about)
        whole = merge(earlier, asked, experiment)
        return replace(whole, notes=(*experiment.notes, _splits(whole.cells)))

    def found(key: Key, metrics: dict[str, Any]) -> None:
        keys = alike[plans[key][1]]
        outcomes.update(dict.fromkeys(keys, metrics))
        progress.done += len(keys)

    def done(key: Key, metrics: dict[str, Any]) -> None:
        found(key, metrics)
        progress.running.discard(key)
        progress.seconds.append(float(metrics["seconds"]))
        now().write(path)
        tell(progress)

    def failed(key: Key, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        said = in_short(reason) if reason in failures.values() else reason
        keys = alike[plans[key][1]]
        failures.update(dict.fromkeys(keys, reason))
        progress.running.discard(key)
        progress.failed += len(keys)
        logger.warning("%s on %s, seed %d, failed: %s", *key, said)
        now().write(path)
        tell(progress)

    def began(key: Key) -> None:
        progress.running.add(key)
        tell(progress)

    for key, ended in _finished(first).items():
        if isinstance(ended, Exception):
            failed(key, ended)
        else:
            found(key, ended)
    progress.found = progress.done
    left = {key: plan for key, plan in first.items() if key not in outcomes and key not in failures}
    tell(progress)
    if left:
        run_parallel(left, min(ask.jobs, len(left)), True, done, failed, began)
    result = now()
    result.write(path)
    return result


def _splits(cells: Sequence[CellResult]) -> str:
    """In words: how the data of each column is split."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        name, split = cell.config["data"]["name"], cell.config["data"]["split"]
        found.setdefault(split or CATALOG[name].split, {})[name] = None
    words = ", ".join(f"{split} ({', '.join(names)})" for split, names in found.items())
    return f"Splits: {words}; runs of a seed have the same in every row."


def _plan(config: Config, seed: int, store: Path) -> tuple[Config, Path]:
    own = config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})})
    return own, store / f"{own.data.name}-{own.model.name}-{own.hash}"


def _finished(plans: dict[Key, tuple[Config, Path]]) -> dict[Key, dict[str, Any] | Exception]:
    """Runs that were made before, of the same data and split; or why one cannot be taken: nothing is mixed up."""
    found: dict[Key, dict[str, Any] | Exception] = {}
    hashes = _Hashes()
    for key, (config, folder) in sorted(plans.items(), key=lambda plan: plan[1][0].data.model_dump_json()):
        if (folder / METRICS).exists():
            try:
                found[key] = _found_again(config, folder, hashes)
            except (ValueError, OSError) as error:
                found[key] = error
    return found


def _found_again(config: Config, folder: Path, hashes: _Hashes) -> dict[str, Any]:
    try:
        metrics = read_metrics(folder)
    except RunError as error:
        raise RunError(f"{error}; remove that folder") from error
    missing = [name for name in (*Outcome.__dataclass_fields__, "metric") if metrics.get(name) is None]
    if missing:
        raise RunError(f"{folder / METRICS} is damaged: it has no {missing[0]}; remove that folder")
    if (metrics["data_hash"], metrics["split_hash"]) != hashes.of(config):
        raise RunError(
            f"{folder} is a run of other data than {config.data.name} is now (its hashes differ); "
            f"remove that folder, or choose another with --out"
        )
    return metrics


class _Hashes:
    """Hashes of data and splits as they are now; a data set is read once if it is asked for in a row."""

    def __init__(self) -> None:
        self._data: dict[str, tuple[Any, str, str]] = {}

    def of(self, config: Config) -> tuple[str, str]:
        key = config.data.model_dump_json()
        if key not in self._data:
            self._data.clear()  # one at a time: they may be large
            settings = config.data
            data = load(settings.name, settings.root, settings.offline, split=settings.split)
            protocol = settings.split or get_entry(settings.name).split  # of which data.split may be one fold
            self._data[key] = (data, content_hash(transform_features(data, settings)), protocol)
        data, whole, protocol = self._data[key]
        return whole, choose_split(data, protocol, config.train.seed).hash


def _cell(
    experiment: Experiment,
    cell: Cell,
    runs: int,
    outcomes: dict[Key, dict[str, Any]],
    failures: dict[Key, str],
    plans: dict[Key, tuple[Config, Path]],
) -> CellResult:
    keys = [(cell.row, cell.column, seed) for seed in range(runs)]
    ended = [outcomes[key] for key in keys if key in outcomes]
    reasons = list(dict.fromkeys(failures[key] for key in keys if key in failures))
    paper = experiment.figure(cell.row, cell.column)
    first = next((plans[key][1] for key in keys if key in outcomes), None)
    config = cell.config.model_dump(mode="json")
    for machine in ("root", "offline"):
        config["data"].pop(machine)
    return CellResult(
        cell.row,
        cell.column,
        str(ended[0]["metric"]) if ended else "",
        config=config,
        runs=tuple(Outcome(**{name: metrics[name] for name in Outcome.__dataclass_fields__}) for metrics in ended),
        paper=None if paper is None else paper.value,
        paper_spread=None if paper is None else paper.spread,
        failed="; ".join(reasons),
        note=str(ended[0].get("differs") or "") if ended else "",
        paper_runs=None if paper is None else experiment.runs,
        series=_series(first, experiment.series) if first is not None and experiment.series else {},
    )


def _series(folder: Path, wanted: Sequence[str]) -> dict[str, list[float]]:
    """Curves out of the history of a run."""
    found: dict[str, list[float]] = {}
    for line in (folder / HISTORY).read_text(encoding="utf-8").splitlines():
        for name, value in json.loads(line).items():
            if name.startswith(tuple(wanted)):
                found.setdefault(name, []).append(round(float(value), 4))
    return found


def _machine() -> dict[str, Any]:
    """What a result may depend on, without what is private to a machine."""
    known = environment()
    return {name: value for name, value in known.items() if name != "command"}
