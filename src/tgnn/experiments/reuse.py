"""Reuse of finished runs and stored results in an experiment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tgnn.data.catalog import CATALOG
from tgnn.data.dataset_info import LoadedData, content_hash
from tgnn.data.load import load
from tgnn.data.splits import choose_split
from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.results import CellResult, Result, ResultFileError, read_result
from tgnn.training.config import Config, DataConfig, make_config
from tgnn.training.prepare import transform_features
from tgnn.training.run_folder import RunError, RunFolder

logger = logging.getLogger("tgnn")

RunKey = tuple[str, str, int]
"""Row, column and seed of a run."""


def read_earlier(path: Path, keep: Callable[[CellResult], bool], dropped_cells: str) -> Result | None:
    """Read the cells of an earlier result that are kept, if the file is valid, and warn of those that are not."""
    if not path.exists():
        return None
    try:
        earlier = read_result(path)
    except ResultFileError as error:
        logger.warning("%s The file is replaced.", error)
        return None
    kept = [cell for cell in earlier.cells if keep(cell)]
    dropped = [
        f"{cell.row} on {cell.column}" for cell in earlier.cells if cell not in kept and (cell.runs or cell.note)
    ]
    if dropped:
        names = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
        logger.warning("%s no longer contains %s: %s", path, dropped_cells, names)
    return replace(earlier, cells=tuple(kept))


def has_current_config(cell: CellResult, experiment: Experiment, selection: Selection) -> bool:
    """Check whether the current options would give a cell the configuration that it has."""
    if not cell.config:
        return False
    try:
        stored = make_config(cell.config)
        current = experiment.cells(replace(selection, models=[cell.row], datasets=[cell.column], largest=None))
    except ValueError:  # the row, the data set or an option no longer exists
        return False
    return any(
        one.config is not None and (one.row, one.column, one.config.hash) == (cell.row, cell.column, stored.hash)
        for one in current
    )


def finished_runs(
    plans: Mapping[RunKey, tuple[Config, Path]], earlier: Result | None
) -> dict[RunKey, dict[str, Any] | Exception]:
    """Return the metrics of finished runs, or the reason why a run folder cannot be reused.

    Args:
        plans: Configuration and folder of each run.
        earlier: Earlier result. Its runs are reused if their folder no longer exists, such as those of a result file
            from another machine.
    """
    runs: dict[RunKey, dict[str, Any] | Exception] = {}
    load_once = lru_cache(maxsize=1)(_load_data)  # keeps one data set in memory, because it may be large
    for key, (config, folder) in sorted(plans.items(), key=lambda plan: plan[1][0].data.model_dump_json()):
        stored = _stored_metrics(earlier, key, config)
        try:
            if RunFolder(folder).is_finished:
                runs[key] = _reuse_run(config, folder, *load_once(config.data))
            elif stored is not None and _hashes(config, *load_once(config.data)) == _hashes_of(stored):
                runs[key] = stored
        except (ValueError, OSError) as error:
            runs[key] = error
    return runs


def _stored_metrics(earlier: Result | None, key: RunKey, config: Config) -> dict[str, Any] | None:
    """Return the metrics of a run in an earlier result with the same configuration, or ``None``."""
    row, column, seed = key
    cell = None if earlier is None else earlier.cell(row, column)
    run = next((run for run in cell.runs if run.seed == seed), None) if cell is not None and not cell.series else None
    if cell is None or run is None or run.config_hash != config.hash:
        return None
    return {**asdict(run), "metric": cell.metric, "differs": cell.note}


def _load_data(options: DataConfig) -> tuple[LoadedData, str]:
    """Load the data of a run, and compute its hash as a run does."""
    data = load(options.name, options.root, options.offline, split=options.split, options=options.read_options)
    return data, content_hash(transform_features(data, options))


def _reuse_run(config: Config, folder: Path, data: LoadedData, data_hash: str) -> dict[str, Any]:
    try:
        metrics = RunFolder(folder).metrics
    except RunError as error:
        raise RunError(f"{error}; remove the folder") from error
    if _hashes_of(metrics) != _hashes(config, data, data_hash):
        raise RunError(
            f"{folder} is a run on other data than {config.data.name} is now (the hashes differ); "
            f"remove the folder, or choose another one with --out"
        )
    return metrics


def _hashes(config: Config, data: LoadedData, data_hash: str) -> tuple[str, str]:
    """Return the hashes of the data and of the split that a run would have now."""
    default = CATALOG[config.data.name].default_split if config.data.name in CATALOG else data.split.name
    protocol = config.data.split or default  # the split of the data may be one fold of it
    return data_hash, choose_split(data, protocol, config.train.seed).hash


def _hashes_of(metrics: Mapping[str, Any]) -> tuple[str, str]:
    return metrics["data_hash"], metrics["split_hash"]
