"""A run, from its config to its folder."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml
from filelock import FileLock, Timeout

from tgnn import __version__
from tgnn.data.catalog import CATALOG
from tgnn.models import build_model
from tgnn.models.data_shape import DataShape
from tgnn.ops import cpp_build
from tgnn.training.checkpoint import CHECKPOINT, MODEL, Progress, read_tensors, restore, write_tensors
from tgnn.training.config import Config, ConfigError, ModelConfig, make_config
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.loaders import check_loader, make_loader
from tgnn.training.loggers import make_loggers
from tgnn.training.loop import Epoch, Precision, fit, infer_outputs
from tgnn.training.metrics import Task
from tgnn.training.prepare import Prepared, prepare
from tgnn.utils.io import write_json, write_text

CONFIG, ENVIRONMENT, DATA, METRICS = "config.yaml", "environment.json", "data.json", "metrics.json"
PLAN = "runs.json"
"""Of a folder with several runs."""
_LOCK = ".lock"

logger = logging.getLogger("tgnn")


class RunError(ValueError):
    """A run folder that cannot be used; the text says why."""


def train(
    config: Config,
    folder: Path,
    resume: bool = False,
    tell: Callable[[Epoch], None] = lambda epoch: None,
    world: World = SINGLE_PROCESS,
) -> dict[str, Any]:
    """Trains as configured, and gives what ``metrics.json`` then holds.

    Args:
        config: What to do.
        folder: Made if it is not there. A finished run in it is given back as it is when resumed.
        resume: Whether to go on where a run in the folder was stopped.
        tell: Called after every epoch.
        world: The processes that do this together; only the first looks into the folder.
    """
    resume = world.same(lambda: resume or _was_restarted(folder, config, world))
    if resume and world.same((folder / METRICS).exists):
        return world.same(lambda: _finished(folder))
    if world.first and not resume and ((folder / CONFIG).exists() or (folder / PLAN).exists()):
        raise RunError(f"{folder} holds a run already; go on with it (--resume {folder}), or choose another folder")
    set_threads(config, world)
    prepared = prepare(config)
    check_loader(prepared.data, config.train, world)
    device = find_device(config.train.device, world)
    model = make_model(config, prepared.shape).to(device)
    world.agree({"settings": config.hash, "data": prepared.data_hash, "split": prepared.split.hash})
    if not world.first:
        return _follow(model, prepared, config, folder, resume, world)
    trackers = make_loggers(config.train.track, config, folder)  # the last that may be a mistake of the user's
    if device.type == "cpu":
        cpp_build.load()  # it is built once on a machine, which is no part of the time of a run
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder), catch_interrupts() as stop:
        if resume and (folder / CONFIG).exists():
            _check_beginning(folder, config, prepared)
        elif (folder / CONFIG).exists():  # another process was faster
            raise RunError(f"{folder} holds a run already")
        else:
            _write_beginning(folder, config, prepared, world)
        metrics: dict[str, Any] = {}

        def tell_all(epoch: Epoch) -> None:
            for tracker in trackers:
                tracker.log(epoch.number, epoch.line)
            tell(epoch)

        try:
            best, progress = fit(model, prepared, config, folder, resume, tell_all, world)
            restore(model, best, folder)
            about = {"tgnn": __version__, "config_hash": config.hash}
            write_tensors(folder / MODEL, model.state_dict(), about)  # before the test: nothing must be lost by it
            metrics = _metrics(model, prepared, config, device, progress)
        finally:
            for tracker in trackers:
                tracker.finish(metrics)
        write_json(folder / METRICS, metrics)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        world.same(lambda: metrics)
        if world.any(stop.is_set()):  # while it was tested
            raise Interrupted
    return metrics


def _follow(
    model: torch.nn.Module, prepared: Prepared, config: Config, folder: Path, resume: bool, world: World
) -> dict[str, Any]:
    """The part of a process that is not the first: it learns, and hears what came of it."""
    with catch_interrupts() as stop:
        fit(model, prepared, config, folder, resume, world=world)
        metrics = world.same(dict[str, Any])
        if world.any(stop.is_set()):
            raise Interrupted
    return metrics


def _metrics(
    model: torch.nn.Module, prepared: Prepared, config: Config, device: torch.device, progress: Progress
) -> dict[str, Any]:
    """What ``metrics.json`` holds."""
    return {
        **_test(model, prepared, config, device),
        "val": progress.best_score,
        "best_epoch": progress.best_epoch + 1,  # counted as on the screen, and as "epochs" counts
        "epochs": progress.epoch,
        "seconds": round(progress.seconds, 3),
        "parameters": sum(p.numel() for p in model.parameters()),
        "config_hash": config.hash,
    }


def _test(model: torch.nn.Module, prepared: Prepared, config: Config, device: torch.device) -> dict[str, Any]:
    """The only place where test labels are read."""
    batches = make_loader(prepared.data, prepared.split.test, config.train, device, shuffle=False)
    outputs = infer_outputs(model, batches, Precision(config.train.precision, device))
    truth = prepared.sealed.open().to(outputs.device)
    return {
        "data": prepared.data.info.name,
        "model": config.model.name,
        "metric": prepared.task.metric,
        "test": prepared.task.score(outputs, truth),
        "split": prepared.split.name,
        "split_hash": prepared.split.hash,
        "data_hash": prepared.data_hash,
        "source": prepared.data.info.source,
        "differs": prepared.data.info.differs,
        "seed": config.train.seed,
    }


def make_model(config: Config, shape: DataShape) -> torch.nn.Module:
    """The model of a run, its weights drawn by the run's seed."""
    torch.manual_seed(config.train.seed)
    settings: ModelConfig = config.model
    return build_model(
        settings.name, shape, settings.hidden_channels, settings.num_layers, settings.dropout, settings.arguments
    )


def find_device(name: str, world: World = SINGLE_PROCESS) -> torch.device:
    """The device of that name; ``auto`` is the fastest that is there. Each process of a machine has a GPU of its own.

    Args:
        name: As configured.
        world: The processes.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and world.size > 1:
        name = f"cuda:{world.local_rank}"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"train.device is {name!r}: it must be auto, cpu, cuda, cuda:1 or mps") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise ConfigError(f"train.device is {name!r}, but there is none here; use cpu (`tgnn doctor` tells more)")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        each = ", one for each process" if world.size > 1 else ""
        raise ConfigError(f"train.device is {name!r}{each}, but there are only {torch.cuda.device_count()} of them")
    return device


def set_threads(config: Config, world: World = SINGLE_PROCESS) -> None:
    """As configured; the processes of one machine share its cores."""
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    elif world.size > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // world.local_size))


# ---- the folder ------------------------------------------------------------------------------------------------


def _finished(folder: Path) -> dict[str, Any]:
    _check_whole(folder)
    return read_metrics(folder)


def _was_restarted(folder: Path, config: Config, world: World) -> bool:
    """Whether torchrun has begun this run before, and started its processes again; of other settings it is another."""
    if world.restarts == 0 and world.job is None:
        return False
    if not (folder / CONFIG).exists() or not (folder / ENVIRONMENT).exists():
        return False
    began = json.loads((folder / ENVIRONMENT).read_text(encoding="utf-8")).get("job")
    if (world.restarts == 0 and began != world.job) or read_config(folder).hash != config.hash:
        return False
    logger.warning("the processes were started again; going on from the last checkpoint")
    return True


def _write_beginning(folder: Path, config: Config, prepared: Prepared, world: World) -> None:
    """The settings last: with them in place, a run has begun."""
    write_json(folder / ENVIRONMENT, environment() | {"processes": world.size, "job": world.job})
    data, split = prepared.data, prepared.split
    write_json(
        folder / DATA,
        {
            "info": data.info.to_dict(),
            "data_hash": prepared.data_hash,
            "split": {"name": split.name, "seed": split.seed, "hash": split.hash},
            "shape": prepared.shape.to_dict(),
            "task": asdict(prepared.task),
            "encoding": getattr(data, "encoding", None),
        },
    )
    write_text(folder / CONFIG, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))


def _check_beginning(folder: Path, config: Config, prepared: Prepared) -> None:
    """Refuses to go on with other settings, other data or another split: what was tested must not have been learned."""
    _, _, facts = read_data_facts(folder)
    for what, now, then in (
        ("the settings", config.hash, read_config(folder).hash),
        ("the data", prepared.data_hash, facts["data_hash"]),
        ("the split", prepared.split.hash, facts["split"]["hash"]),
    ):
        if now != then:
            raise RunError(f"{folder} cannot be resumed: {what} changed since (hash {then} then, {now} now)")


def environment() -> dict[str, Any]:
    """What a result may depend on."""
    import numpy
    import torch_geometric

    return {
        "tgnn": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "command": sys.argv[1:],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def read_config(folder: Path) -> Config:
    """The config of a run."""
    path = folder / CONFIG
    if not path.exists():
        if (folder / PLAN).exists():
            each = sorted(part for part in folder.glob("seed-*") if (part / CONFIG).exists())
            which = f"{len(each)} runs; use one of them, such as {each[0]}" if each else "runs that have not begun"
            raise RunError(f"{folder} holds {which}")
        raise RunError(f"{folder} is not a run folder: it has no {CONFIG}")
    try:
        return make_config(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except yaml.YAMLError as error:
        raise RunError(f"{path} cannot be read: {error}") from error


def with_data_path(config: Config, folder: Path, path: str | None = None) -> Config:
    """The config of a run whose data may have been moved.

    Args:
        config: As it was.
        folder: Of the run, for an error.
        path: Where the data lies now; ``None``: where it was.
    """
    name = config.data.name
    if path is not None:
        return config.model_copy(update={"data": config.data.model_copy(update={"name": path})})
    if name not in CATALOG and not Path(name).expanduser().exists():
        raise RunError(
            f"{folder} was trained on {name}, which is not there now: put it back, or give it with --data PATH"
        )
    return config


def read_metrics(folder: Path) -> dict[str, Any]:
    """What a finished run has measured."""
    path = folder / METRICS
    if not path.exists():
        raise RunError(f"{folder} is not finished: it has no {METRICS}; go on with `tgnn train --resume {folder}`")
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise RunError(f"{path} is damaged: it holds no names and values")
    return found


def read_data_facts(folder: Path) -> tuple[DataShape, Task, dict[str, Any]]:
    """DataShape and task of a run's data, and all that is known of it."""
    _check_whole(folder, DATA)
    path = folder / DATA
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return DataShape.from_dict(facts["shape"]), Task(**facts["task"]), facts
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def _check_whole(folder: Path, *names: str) -> None:
    """Raises where a file of a run is not there, with the way out."""
    for name in names or (DATA, MODEL):
        if (folder / name).exists():
            continue
        if (folder / METRICS).exists() or name != MODEL:
            again = f"train it again with `tgnn train --recipe {folder / CONFIG} --out {folder}-again`"
            raise RunError(f"{folder / name} is missing: part of the folder was deleted; {again}")
        raise RunError(
            f"{folder / name} is missing: the run is not finished; go on with `tgnn train --resume {folder}`"
        )


def load_model(folder: Path) -> torch.nn.Module:
    """The trained model of a run, in evaluation mode."""
    config = read_config(folder)
    shape, _, _ = read_data_facts(folder)
    model = make_model(config, shape)
    _check_whole(folder, MODEL)
    weights, _ = read_tensors(folder / MODEL)
    restore(model, weights, folder / MODEL)
    return model.eval()


def _alone(folder: Path) -> contextlib.AbstractContextManager[object]:
    """One process in a folder at a time."""
    try:
        return FileLock(str(folder / _LOCK)).acquire(timeout=1)  # others may look whether it is held
    except Timeout:
        raise RunError(f"another process is training in {folder}") from None


def is_running(folder: Path) -> bool:
    """Whether a process is training there now."""
    if not (folder / _LOCK).exists():
        return False
    try:
        with FileLock(str(folder / _LOCK), timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # it is not ours to lock, so that nobody can tell
        return False
