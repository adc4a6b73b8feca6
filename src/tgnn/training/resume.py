"""Checks before an existing run is resumed or extended."""

from __future__ import annotations

import logging
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tgnn.data.catalog import CATALOG
from tgnn.data.load import find_path
from tgnn.training.config import Config
from tgnn.training.distributed.world import World
from tgnn.training.prepare import prepare
from tgnn.training.run_folder import CANDIDATES, ENVIRONMENT, RUNS, RunError, RunFolder, check_data_exists

if TYPE_CHECKING:
    from tgnn.training.repeated_runs import RunGroup

logger = logging.getLogger("tgnn")


def check_unused(folder: Path) -> None:
    """Raise :class:`RunError` if a folder already holds one or several runs."""
    if RunFolder(folder).has_started or (folder / RUNS).exists():
        raise RunError(f"{folder} already holds a run. Continue it with --resume {folder}, or choose another folder.")


def with_data_path(config: Config, data: str | os.PathLike[str] | None) -> Config:
    """Return the configuration with the new path of moved data. ``None``: unchanged."""
    if data is None or data in CATALOG:
        return config if data is None else config.replace("data", name=data)
    return config.replace("data", name=str(find_path(os.fspath(data)).resolve()))


def read_finished(run: RunFolder, config: Config) -> dict[str, Any]:
    """Return the metrics of a finished run, after checking that it has this configuration."""
    run.check_files()
    run.load_model()  # which verifies the weights
    if run.config.hash != config.hash:
        if run.config.replace("data", name=config.data.name).hash != config.hash:
            raise RunError(f"{run.path} holds a finished run with another configuration. Choose another folder.")
        check_moved_data(run, config)
    return run.metrics


def is_extended(run: RunFolder, config: Config) -> bool:
    """Whether a run in the folder continues with another number of epochs, patience, or path of its data."""
    if not run.has_started or run.config.hash == config.hash:
        return False
    moved = run.config.replace("data", name=config.data.name)
    if moved.hash == config.hash:
        return not run.is_finished
    if moved.replace("train", epochs=config.train.epochs, patience=config.train.patience).hash != config.hash:
        return False
    finished = len(run.history())
    if config.train.epochs < finished:
        raise RunError(f"{run.path} has finished {finished} epochs. Give a larger number with --epochs.")
    if run.is_finished and not run.checkpoint_path.exists():
        raise _not_extendable(run, config)
    return True


def was_restarted(run: RunFolder, config: Config, world: World) -> bool:
    """Whether torchrun started this run before, with the same configuration, and has restarted its processes."""
    if world.restarts == 0 and world.job_id is None:
        return False
    if not run.has_started or not (run.path / ENVIRONMENT).exists():
        return False
    if (world.restarts == 0 and run.environment.get("job") != world.job_id) or run.config.hash != config.hash:
        return False
    logger.warning("The processes were restarted; continuing from the last checkpoint.")
    return True


# ---- moved data ------------------------------------------------------------------------------------------------


def check_moved_data(run: RunFolder, config: Config) -> None:
    """Load the data at its new place, and raise :class:`RunError` unless it is the data of the run."""
    check_data_exists(config, run.path)
    check_same_data(run, config, prepare(config).data_hash)


def check_same_data(run: RunFolder, config: Config, data_hash: str) -> None:
    """Raise :class:`RunError` if the data at a new place is not the data of the run."""
    before = run.data_info["data_hash"]
    if config.data.name != run.config.data.name and data_hash != before:
        raise RunError(
            f"{config.data.name} is not the data of {run.path}: its hash is {data_hash}, but that of the run's data is "
            f"{before}. Give the path of the run's own data, or train a new run."
        )


# ---- runs that cannot be extended ------------------------------------------------------------------------------


def _not_extendable(run: RunFolder, config: Config) -> RunError:
    """Return the error of a finished run without a checkpoint, with the command that trains its model for longer."""
    reason = "it has no checkpoint"
    if (run.path / CANDIDATES).exists():
        reason = "--model auto keeps no checkpoint of the model that it selects"
    elif (run.path.parent / RUNS).exists():
        reason = "several runs keep no checkpoints"
    before, words = run.config, [str(run.config_path)]
    if config.data.name != before.data.name:
        words += ["--data", config.data.name]
    for name in ("epochs", "patience"):
        if getattr(config.train, name) != getattr(before.train, name):
            words += [f"--{name}", str(getattr(config.train, name))]
    command = shlex.join(["tgnn", "train", "--recipe", *words, "--out", f"{run.path}-again"])
    return RunError(f"{run.path} cannot be extended, because {reason}. Train its model again with `{command}`.")


def not_extendable_group(group: RunGroup, epochs: int | None, patience: int | None) -> RunError:
    """Return the error of several runs that are to be extended, with the command to run instead."""
    unfinished = [run for run in group.runs if not run.is_finished]
    if unfinished:
        return RunError(
            f"{group.path} holds several runs, which cannot be extended. Continue the unfinished ones "
            f"({len(unfinished)} of {group.size}) without --epochs and --patience: `tgnn train --resume {group.path}`."
        )
    words = ["--recipe", str(group.runs[0].config_path), "--runs", str(group.size)]
    words += ["--epochs", str(epochs)] if epochs else []
    words += ["--patience", str(patience)] if patience else []
    command = shlex.join(["tgnn", "train", *words, "--out", f"{group.path}-again"])
    return RunError(
        f"{group.path} holds several finished runs, which cannot be extended, because they keep no checkpoints. Train "
        f"them again with `{command}`."
    )
