"""Runs of decoders: train a network on an error-correcting code, compare it with belief propagation, and save it.

The folder of such a run has the files of :class:`~tgnn.training.run_folder.RunFolder`. An epoch has 100 steps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

from tgnn.data.codes import CODES, ParityCheckCode, load_code
from tgnn.nn import BeliefPropagation, FactorGraphNet
from tgnn.training.config import Config, ConfigError, make_config, with_options
from tgnn.training.decoding import DecoderTraining, count_errors, train_decoder, validation_loss
from tgnn.training.run_files import current_environment, history_line
from tgnn.training.run_folder import (
    DATA,
    DECODER,
    ENVIRONMENT,
    RunError,
    RunFolder,
)
from tgnn.utils.io import hash_tensor, write_json, write_text

STEPS_PER_EPOCH = 100
_TEST_FRAMES = {"min_frames": 5000, "max_frames": 20_000}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "model": {
        "name": DECODER,
        "hidden_channels": 16,
        "num_layers": 5,  # rounds
        "dropout": 0.0,
        "aggr": "cp",
        "ebn0_db": (1.0, 6.0),
    },
    "optimizer": {"name": "adamw", "lr": 0.005, "weight_decay": 0.01, "schedule": "cosine", "grad_clip": 0.1},
    "train": {"epochs": 10, "batch_size": 64},
}
_AGGREGATIONS = ("cp", "sum", "mean", "max", "min", "median", "softmax", "std")
_OPTIONS = (
    *("data.root", "data.offline", "model.hidden_channels", "model.num_layers", "model.rank", "model.aggr"),
    *("model.ebn0_db", "optimizer.lr", "train.epochs", "train.batch_size", "train.seed", "train.threads"),
)
"""Options of a run that a decoder has. Others, such as the dropout, would have no effect."""


def is_code(name_or_path: str | os.PathLike[str] | None) -> bool:
    """Return whether a name or path is an error-correcting code.

    Example:
        >>> is_code("bch-63-45"), is_code("my_code.alist"), is_code("cora")
        (True, True, False)
    """
    return name_or_path is not None and (os.fspath(name_or_path) in CODES or Path(name_or_path).suffix == ".alist")


def resolve_decoder_config(data: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Config:
    """Resolve the configuration of a decoder.

    Args:
        data: Name of a code, or path of an alist file.
        options: Single options as ``{"section.key": value}``: ``model.hidden_channels``, ``model.num_layers`` (rounds),
            ``model.rank``, ``model.aggr``, ``model.ebn0_db`` (lowest and highest signal-to-noise ratio in decibels),
            ``optimizer.lr``, ``train.epochs`` (of 100 steps), ``train.batch_size`` (frames) and ``train.seed``.
    """
    for key in options or {}:
        if key not in _OPTIONS:
            raise ConfigError(f"{key} cannot be set for a decoder; it has {', '.join(_OPTIONS)}")
    name = os.fspath(data)
    sections = {**_DEFAULTS, "data": {"name": name if name in CODES else str(Path(name).expanduser().resolve())}}
    config = make_config(with_options(sections, options or {}))
    aggr = config.model.arguments["aggr"]
    if aggr not in _AGGREGATIONS:
        raise ConfigError(f"model.aggr is {aggr!r}, but must be one of {', '.join(_AGGREGATIONS)}")
    low, high = _ebn0_range(config)
    if not low < high:
        raise ConfigError(f"model.ebn0_db is {low:g} to {high:g}, but the first value must be smaller")
    return config


def _ebn0_range(config: Config) -> tuple[float, float]:
    value = config.model.arguments["ebn0_db"]
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        raise ConfigError(f"model.ebn0_db is {value!r}, but must be two numbers, such as [1, 6]") from None
    return low, high


def make_decoder(config: Config) -> FactorGraphNet:
    """Build the network of a configuration, with weights that depend on its seed."""
    model, arguments = config.model, config.model.arguments
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(config.train.seed)
        return FactorGraphNet(
            1, model.hidden_channels, model.num_layers, rank=arguments.get("rank"), aggr=arguments["aggr"]
        )


def train_decoder_run(
    config: Config, folder: Path, on_epoch: Callable[[int, float], None] = lambda epoch, loss: None
) -> dict[str, Any]:
    """Train a decoder, count its errors and those of belief propagation, and write the run.

    Args:
        config: From :func:`resolve_decoder_config`.
        folder: Folder of the run, which must not hold one.
        on_epoch: Called with the number of finished epochs and the training loss after every epoch.

    Returns:
        The metrics. ``points`` holds the error rates of all decoders.
    """
    run = RunFolder(folder)
    if run.has_started:
        raise RunError(f"{run.path} already holds a run. Choose another folder.")
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    code, net = load_code(config.data.name, config.data.root, config.data.offline), make_decoder(config)
    run.path.mkdir(parents=True, exist_ok=True)
    losses: list[float] = []
    start = time.monotonic()

    with run.lock():
        write_json(run.path / ENVIRONMENT, current_environment())
        write_json(run.path / DATA, {"info": {"name": code.name}, "data_hash": hash_tensor(code.parity_check)})
        write_text(run.config_path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
        with run.open_history() as history:

            def on_step(step: int, loss: float) -> None:
                losses.append(loss)
                if step % STEPS_PER_EPOCH == 0:
                    mean = sum(losses[-STEPS_PER_EPOCH:]) / STEPS_PER_EPOCH
                    seconds = round(time.monotonic() - start, 3)
                    record = {"epoch": step // STEPS_PER_EPOCH, "train_loss": mean, "seconds": seconds}
                    history.write(history_line(record))
                    on_epoch(step // STEPS_PER_EPOCH, mean)

            steps, ebn0_db = config.train.epochs * STEPS_PER_EPOCH, _ebn0_range(config)
            batch_size = config.train.batch_size or 64
            training = DecoderTraining(steps, batch_size, config.optimizer.lr, ebn0_db, config.train.seed)
            seconds = train_decoder(net, code, training, on_step=on_step)
        model_sha256 = run.write_model(net, config.hash)
        points = compare_decoders(net, code, config)
        metrics = {
            "data": code.name,
            "model": DECODER,
            "metric": "bit error rate",
            "test": points[3]["bit_error_rate"],
            "val": validation_loss(net, code, ebn0_db, 5000),
            "seed": config.train.seed,
            "epochs": config.train.epochs,
            "best_epoch": config.train.epochs,
            "seconds": round(seconds, 3),
            "parameters": sum(parameter.numel() for parameter in net.parameters()),
            "split_hash": hash_tensor(code.parity_check),
            "data_hash": hash_tensor(code.parity_check),
            "config_hash": config.hash,
            "model_sha256": model_sha256,
            "points": points,
        }
        run.write_metrics(metrics)
    return metrics


def compare_decoders(net: FactorGraphNet, code: ParityCheckCode, config: Config) -> list[dict[str, Any]]:
    """Count the errors of the network and of belief propagation at three signal-to-noise ratios of the training."""
    low, high = _ebn0_range(config)
    rounds = config.model.num_layers
    decoders: dict[str, torch.nn.Module] = {
        DECODER: net,
        f"belief propagation, {rounds} iterations": BeliefPropagation(rounds),
        "belief propagation, 20 iterations": BeliefPropagation(20),
    }
    points = []
    for ebn0_db in (low + (high - low) * part for part in (0.25, 0.5, 0.75)):
        for name, decoder in decoders.items():
            found = count_errors(decoder, code, ebn0_db, seed=config.train.seed, **_TEST_FRAMES)
            rates = {"bit_error_rate": found.bit_error_rate, "frame_error_rate": found.frame_error_rate}
            counts = {"frames": found.frames, "frame_errors": found.frame_errors}
            points.append({"ebn0_db": ebn0_db, "decoder": name, **rates, **counts})
    return points


def load_decoder(run: RunFolder | str | os.PathLike[str]) -> FactorGraphNet:
    """Load the trained network of a run.

    Args:
        run: The run, or the path of its folder.
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    return run.load_weights(make_decoder(run.config))


def evaluate_decoder(run: RunFolder, data: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Compute the bit error rate of a run again, as :func:`tgnn.training.predict.evaluate`."""
    if not run.is_finished:
        raise RunError(f"{run.path} holds a decoder whose training was interrupted. Remove the folder and train again.")
    config, recorded = run.config, run.metrics
    code = load_code(config.data.name if data is None else data, config.data.root, config.data.offline)
    if hash_tensor(code.parity_check) != recorded["data_hash"]:
        raise RunError(
            f"{run.path} was trained on another code than {code.name}. Give the path of its file with --data."
        )
    points = compare_decoders(load_decoder(run), code, config)
    score = {"metric": recorded["metric"], "test": points[3]["bit_error_rate"], "recorded": recorded["test"]}
    return score | {"split": "random frames", "split_hash": recorded["split_hash"], "points": points}
