"""Train a model: from the options of a user to a finished run folder."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tgnn.data.catalog import CATALOG
from tgnn.data.load import task_level
from tgnn.data.splits import PARTS
from tgnn.models.registration import validate_hyperparameters
from tgnn.ops import cpp_build
from tgnn.training.calibration import calibrate, check_calibration
from tgnn.training.checkpoint import Progress, check_finite
from tgnn.training.config import Config, ConfigError, with_columns
from tgnn.training.decoder_runs import is_code, resolve_decoder_config, train_decoder_run
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.loggers import LOGGERS
from tgnn.training.loop import Epoch, OnEpoch, Trainer, check_score, infer_test_set
from tgnn.training.prepare import (
    Prepared,
    find_device,
    make_model,
    prepare,
    set_num_threads,
    zero_unseen_embeddings,
)
from tgnn.training.recipes import read_user_recipe, resolve
from tgnn.training.result_details import describe_test_set
from tgnn.training.resume import check_same_data, check_unused, is_extended, read_finished, was_restarted
from tgnn.training.run_folder import DECODER, RUNS, RunError, RunFolder, check_data_exists
from tgnn.training.stored_data_frames import store_frames
from tgnn.utils.memory import check_memory

if TYPE_CHECKING:
    from tgnn.training.repeated_runs import RunGroup

logger = logging.getLogger("tgnn")


def train(
    data: Any = None,
    model: str | None = None,
    *,
    target: str | Sequence[str] | None = None,
    id: str | None = None,
    task: str | None = None,
    out: str | os.PathLike[str] | None = None,
    recipe: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    runs: int = 1,
    jobs: int | None = None,
    resume: bool = False,
    on_epoch: OnEpoch = lambda epoch: None,
    on_run: Callable[[dict[str, Any]], None] = lambda metrics: None,
    world: World = SINGLE_PROCESS,
) -> RunFolder | RunGroup:
    """Train a model and write a run folder.

    The configuration is the built-in recipe of the data set and the model, overridden by ``recipe`` and then by
    ``options``. The best epoch is selected on the validation set. The test labels are read once, after training.

    Args:
        data: Name of a data set (:func:`tgnn.data.list_datasets`), path of your own data, a pandas or polars data frame
            of molecules, data frames ``(nodes, edges)`` or ``{"graphs": ..., "nodes": ..., "edges": ...}``, or a
            configuration of :func:`resolve_config`. ``None``: the recipe names the data. Data frames are stored in the
            folder of the run.
        model: Name of a model (``tgnn models``). ``None``: the model of the recipe, else ``"tgnn"``. ``"auto"``: the
            best of several models on the validation set (:func:`tgnn.training.candidates.train_auto`).
        target: Column of your own data to predict, or several columns. ``None``: recognized by name.
        id: Column of ids of your own data. ``None``: recognized by name.
        task: ``"classification"``, ``"multi-label"`` or ``"regression"``. ``None``: inferred from the labels.
        out: Folder of the run. ``None``: ``runs/<data>-<model>-<time>``. An existing run is never overwritten.
        recipe: YAML file with hyperparameters and options.
        options: Single hyperparameters and options as ``{"section.key": value}``, as ``tgnn train --set``.
        runs: Number of runs. Their seeds follow ``train.seed``, and each has its own split.
        jobs: Number of runs that are trained in parallel. ``None``: the number of cores.
        resume: Whether to continue the run in ``out``; see :meth:`RunFolder.resume`.
        on_epoch: Called with an :class:`~tgnn.training.loop.Epoch` after every epoch of a single run.
        on_run: Called with the metrics of each of several runs.
        world: The processes that train together under torchrun.

    Returns:
        The :class:`~tgnn.training.run_folder.RunFolder`, or the :class:`~tgnn.training.repeated_runs.RunGroup` of
        several runs. Their ``metrics`` hold the results.

    Example:
        >>> import tempfile, tgnn
        >>> run = tgnn.train("karate", out=f"{tempfile.mkdtemp()}/run", options={"train.epochs": 3, "model.rank": 4})
        >>> run.metrics["metric"], run.metrics["epochs"], 0 <= run.metrics["test"] <= 1
        ('accuracy', 3, True)
    """
    options = with_columns(options, target, id, task)
    if not isinstance(data, str | os.PathLike | Config | None):
        folder = Path(out) if out is not None else _name_folder("frames", model, world)
        with store_frames(data, folder, resume, world) as path:
            return train(
                path,
                model,
                out=folder,
                recipe=recipe,
                options=options,
                runs=runs,
                jobs=jobs,
                on_epoch=on_epoch,
                on_run=on_run,
                world=world,
            )
    if model == "auto" and not isinstance(data, Config):
        from tgnn.training.candidates import train_auto

        folder = (
            Path(out) if out is not None else default_folder(resolve_config(data, "tgnn", recipe, options), auto=True)
        )
        return train_auto(data, folder, recipe, options, runs, jobs, on_run=on_run)
    if isinstance(data, Config):
        if model is not None or recipe is not None or options:
            raise ConfigError("A resolved configuration cannot be combined with model, recipe or options.")
        config = data
    else:
        config = resolve_config(data, model, recipe, options)
    folder = Path(out) if out is not None else default_folder(config, world)
    if runs > 1:
        from tgnn.training.repeated_runs import RunGroup, train_repeated

        train_repeated(config, runs, folder, jobs, resume, on_run)
        return RunGroup(folder)
    run = RunFolder(folder)
    train_run(config, run, resume, on_epoch, world, keep_checkpoint=True)
    return run


# ---- configuration ---------------------------------------------------------------------------------------------


def resolve_config(
    data: str | os.PathLike[str] | None = None,
    model: str | None = None,
    recipe: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Config:
    """Resolve the configuration of a run without loading data; arguments as for :func:`train`.

    Example:
        >>> resolve_config("karate", options={"optimizer.lr": 0.1}).optimizer.lr
        0.1
    """
    if is_code(data):
        if model is not None or recipe is not None:
            raise ConfigError(
                "An error-correcting code is trained as a decoder, which has no model or recipe. Remove both."
            )
        return resolve_decoder_config(data or "", options)
    sections, options = read_user_recipe(Path(recipe)) if recipe is not None else {}, dict(options or {})
    data = _given_once("data", _as_name(data), options.pop("data.name", None))
    model = _given_once("model", model, options.pop("model.name", None))
    recipe_data, recipe_model = (sections.get(section, {}).get("name") for section in ("data", "model"))
    name = _absolute(str(data or recipe_data or ""))
    if not name:
        raise ConfigError("No data set is given. Give its name, the path of your own data, or a recipe with data.name.")
    if recipe_data and name != _absolute(str(recipe_data)):
        logger.warning("The recipe is for %s; training on %s as requested.", recipe_data, data)
    if model and recipe_model and model != recipe_model:
        logger.warning("The recipe is for the model %s; training %s as requested.", recipe_model, model)
    level = task_level(name)
    config = resolve(name, model or str(recipe_model or "tgnn"), level, sections, options)
    validate_hyperparameters(config.model.name, level, config.model.arguments)
    return config


def _given_once(name: str, argument: str | None, option: Any) -> str | None:
    if option is None:
        return argument
    if argument is not None:
        raise ConfigError(f"Give {name} or the option {name}.name, not both.")
    return str(option)


def _as_name(data: str | os.PathLike[str] | None) -> str | None:
    """Return a name or path as a string. A path object is never the name of a data set."""
    return str(Path(data).expanduser().resolve()) if isinstance(data, os.PathLike) else data


def _absolute(name: str) -> str:
    """Make the path of existing data absolute, so that a run finds its data from every working directory."""
    path = Path(name).expanduser()
    return str(path.resolve()) if name and name not in CATALOG and path.exists() else name


def default_folder(config: Config, world: World = SINGLE_PROCESS, auto: bool = False) -> Path:
    """Return ``runs/<data>-<model>-<time>``. torchrun's job id replaces the time, because it survives restarts."""
    return _name_folder(Path(config.data.name).name, "auto" if auto else config.model.name, world)


def _name_folder(data: str, model: str | None, world: World) -> Path:
    label = world.job_id or time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / "-".join(filter(None, (data, model, label)))


# ---- the steps of a run ----------------------------------------------------------------------------------------


def train_run(
    config: Config,
    folder: RunFolder | Path,
    resume: bool = False,
    on_epoch: OnEpoch = lambda epoch: None,
    world: World = SINGLE_PROCESS,
    keep_checkpoint: bool = False,
) -> dict[str, Any]:
    """Train one run and return its metrics; arguments as for :func:`train`. Only rank 0 uses the folder.

    Nothing is written before the model is built. A finished run that is resumed is returned as it is, unless the
    configuration has another number of epochs or patience: then it is extended from its checkpoint, which
    ``keep_checkpoint`` keeps after training. The data of a run that is resumed may have been moved.
    """
    run = folder if isinstance(folder, RunFolder) else RunFolder(folder)
    if config.model.name == DECODER:
        if resume:
            raise RunError(f"{run.path} holds a decoder, which cannot be resumed. Remove the folder and train again.")
        return train_decoder_run(config, run.path)
    resume = world.broadcast(lambda: resume or was_restarted(run, config, world))
    extends = resume and world.broadcast(lambda: is_extended(run, config))
    if resume and not extends and world.broadcast(lambda: run.is_finished):
        return world.broadcast(lambda: read_finished(run, config))
    if world.is_rank_zero and not resume:
        check_unused(run.path)
    if world.is_rank_zero and (run.path / RUNS).exists():
        raise RunError(f"{run.path} holds several runs. Continue them with tgnn train --resume {run.path}.")
    if world.is_rank_zero and resume and run.has_started:
        check_data_exists(config, run.path)

    set_num_threads(config, world)
    prepared = prepare(config)
    if config.train.calibrate:
        check_calibration(prepared)
    device = find_device(config.train.device, world)
    model = make_model(config, prepared.shape).to(device)
    zero_unseen_embeddings(model, prepared)
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    check_memory(4 * size, f"Training {config.model.name} (weights, gradients and the state of Adam)")
    hashes = {"configuration": config.hash, "data": prepared.data_hash, "split": prepared.split.hash}
    world.check_equal(hashes)
    trainer = Trainer(model, prepared, config, world)
    if not world.is_rank_zero:
        return _train_on_other_rank(trainer, run, resume)

    loggers = [LOGGERS[name](config, run.path) for name in config.train.track]

    def log_epoch(epoch: Epoch) -> None:
        for tracker in loggers:
            tracker.log(epoch.number, epoch.record)
        on_epoch(epoch)

    if device.type == "cpu":
        cpp_build.load()  # compiling the kernel, once per machine, is not part of the training time
    run.path.mkdir(parents=True, exist_ok=True)
    with run.lock(), catch_interrupts() as stop:
        if resume and run.has_started:
            if extends:
                check_same_data(run, config, prepared.data_hash)
                run.check_unchanged({name: hashes[name] for name in ("data", "split")})
                run.reopen(config)
            run.check_unchanged(hashes)
            if run.is_finished:
                raise RunError(f"Another process has just finished the run in {run.path}.")
        elif run.has_started:
            raise RunError(f"{run.path} already holds a run, which another process has started.")
        else:
            run.write_start(config, prepared, world.size, world.job_id)
        metrics: dict[str, Any] = {}
        try:
            best_weights, progress = trainer.fit(run, resume, log_epoch, save_last=keep_checkpoint)
            if extends and progress.epoch < config.train.epochs:
                logger.warning(
                    "Training stopped at epoch %d of %d, because the last %d epochs brought no improvement. Continue "
                    "with a larger --patience.",
                    *(progress.epoch, config.train.epochs, config.train.patience),
                )
            model.load_state_dict(best_weights)
            check_finite(best_weights, "The best epoch")
            check_score("validation", prepared.task.metric, progress.best_score)
            if config.train.calibrate:
                prepared.task = calibrate(model, prepared, config, device)
                run.write_task(prepared.task)  # before the model, which stores the SHA-256 of this file
            digest = run.write_model(model, config.hash)  # before the test, so that a failure in it loses nothing
            outputs, labels = infer_test_set(model, prepared, config, device)
            test = prepared.task.score(outputs, labels)
            check_score("test", prepared.task.metric, test)
            details = describe_test_set(prepared, prepared.task, outputs, labels)
            metrics = _metrics(test, model, prepared, config, progress) | {"model_sha256": digest}
            metrics["details"] = details.model_dump(mode="json", exclude_none=True)
            if config.data.name not in CATALOG if config.train.baselines is None else config.train.baselines:
                from tgnn.training.baselines import score_baselines

                metrics["baselines"] = score_baselines(prepared, labels, config.train.seed)
        finally:
            for tracker in loggers:
                tracker.finish(metrics)
        run.write_metrics(metrics, keep_checkpoint)
        world.broadcast(lambda: metrics)
        if world.any(stop.is_set()):  # interrupted during the test
            raise Interrupted
    return metrics


def _train_on_other_rank(trainer: Trainer, run: RunFolder, resume: bool) -> dict[str, Any]:
    """Train on a rank other than 0, and receive the metrics of rank 0."""
    with catch_interrupts() as stop:
        trainer.fit(run, resume)
        metrics = trainer.world.broadcast(dict[str, Any])
        if trainer.world.any(stop.is_set()):
            raise Interrupted
    return metrics


def _metrics(
    test: float, model: torch.nn.Module, prepared: Prepared, config: Config, progress: Progress
) -> dict[str, Any]:
    """Return the content of ``metrics.json``."""
    return {
        "data": prepared.data.info.name,
        "model": config.model.name,
        "metric": prepared.task.metric,
        "test": test,
        "split": prepared.split.name,
        "split_hash": prepared.split.hash,
        "data_hash": prepared.data_hash,
        "source": prepared.data.info.source,
        "differs": prepared.data.info.differs,
        "examples": {part: len(getattr(prepared.split, part)) for part in PARTS},
        "seed": config.train.seed,
        "val": progress.best_score,
        "best_epoch": progress.best_epoch + 1,  # from 1, as it is printed
        "epochs": progress.epoch,
        "seconds": round(progress.seconds, 3),
        "parameters": sum(p.numel() for p in model.parameters()),
        "config_hash": config.hash,
    }
