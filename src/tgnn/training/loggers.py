"""Experiment trackers: TensorBoard, MLflow, Weights & Biases. Each is an optional dependency."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tgnn.training.config import Config, ConfigError


class Logger:
    """An experiment tracker, which receives the numbers of every epoch and the final metrics."""

    def __init__(self, config: Config, folder: Path) -> None: ...

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Log the record of an epoch."""

    def finish(self, metrics: Mapping[str, Any]) -> None:
        """Log the final metrics (``metrics.json``) and close. ``metrics`` is empty if the run was interrupted."""


class TensorBoard(Logger):
    """Write event files to ``<run>/tensorboard``. View them with ``tensorboard --logdir runs``."""

    def __init__(self, config: Config, folder: Path) -> None:
        self._writer = _import_extra("torch.utils.tensorboard", "tensorboard").SummaryWriter(
            str(folder / "tensorboard")
        )

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)

    def finish(self, metrics: Mapping[str, Any]) -> None:
        if "test" in metrics:
            self._writer.add_scalar("test", metrics["test"], metrics["epochs"])
        self._writer.close()


class MLflow(Logger):
    """Log to a run of the current MLflow experiment (``MLFLOW_TRACKING_URI``)."""

    def __init__(self, config: Config, folder: Path) -> None:
        self._mlflow = _import_extra("mlflow", "mlflow")
        self._mlflow.start_run(run_name=folder.name)
        self._mlflow.log_params(_flatten(config))

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(values), step=epoch)

    def finish(self, metrics: Mapping[str, Any]) -> None:
        if "test" in metrics:
            self._mlflow.log_metric("test", metrics["test"])
        self._mlflow.end_run("FINISHED" if metrics else "KILLED")


class WeightsAndBiases(Logger):
    """Log to a run of the project ``tgnn`` (``WANDB_PROJECT``, ``WANDB_MODE=offline``)."""

    def __init__(self, config: Config, folder: Path) -> None:
        self._run = _import_extra("wandb", "wandb").init(
            project=os.environ.get("WANDB_PROJECT", "tgnn"), name=folder.name, dir=str(folder), config=_flatten(config)
        )

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=epoch)

    def finish(self, metrics: Mapping[str, Any]) -> None:
        self._run.summary.update({key: value for key, value in metrics.items() if isinstance(value, (int, float))})
        self._run.finish(exit_code=0 if metrics else 1)


LOGGERS: dict[str, type[Logger]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WeightsAndBiases}
"""The experiment trackers of ``train.track``."""


def _import_extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"train.track is {extra!r}, which is not installed. Install it with pip install '.[{extra}]'."
        ) from None


def _flatten(config: Config) -> dict[str, Any]:
    """Return all options of a configuration as ``section.key``."""
    plain = config.model_dump(mode="json")
    return {f"{section}.{key}": value for section, fields in plain.items() for key, value in fields.items()}
