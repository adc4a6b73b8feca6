"""The folder of a run: the names and formats of its files, and functions to read and write them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import torch
import yaml
from filelock import FileLock, Timeout

from tgnn import __version__
from tgnn.data.catalog import CATALOG
from tgnn.models import DataShape
from tgnn.training.checkpoint import load_weights, read_tensors
from tgnn.training.config import Config, read_config
from tgnn.training.metrics import Task, find_best_epoch
from tgnn.training.prepare import Prepared, make_model
from tgnn.training.run_files import (
    DataFile,
    EnvironmentFile,
    Metrics,
    WeightsInfo,
    current_environment,
    history_line,
)
from tgnn.utils.io import sha256_of, write_json, write_tensors, write_text
from tgnn.utils.read import StoredModel, parse_json, validate
from tgnn.utils.suggest import closest_match

if TYPE_CHECKING:
    from tgnn.data.tables.schema import ReadOptions
    from tgnn.training.predictions import Predictions

Stored = TypeVar("Stored", bound=StoredModel)
Model = TypeVar("Model", bound=torch.nn.Module)

CONFIG, ENVIRONMENT, DATA, HISTORY = "config.yaml", "environment.json", "data.json", "history.jsonl"
METRICS, MODEL, CHECKPOINT = "metrics.json", "model.safetensors", "checkpoint.safetensors"
RUNS = "runs.json"
"""File of a folder that holds several runs (:class:`tgnn.training.repeated_runs.RunGroup`)."""
DECODER = "factor-graph-net"
"""Model of a run on an error-correcting code (:mod:`tgnn.training.decoder_runs`)."""
CANDIDATES = "candidates"
"""Folder of the runs among which ``--model auto`` selects one (:mod:`tgnn.training.candidates`)."""
_LOCK = ".lock"


class RunError(ValueError):
    """A run folder cannot be used. The message says why."""


class Folder:
    """Base of :class:`RunFolder` and :class:`~tgnn.training.repeated_runs.RunGroup`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def _read(self, name: str, schema: type[Stored]) -> Stored:
        """Read a file of the folder. A damaged file raises :class:`RunError`."""
        try:
            return schema.read(self.path / name)
        except ValueError as error:
            raise RunError(str(error)) from error


class RunFolder(Folder):
    """A training run on disk: its configuration, history, metrics and trained model.

    :func:`tgnn.train` creates it, and :func:`tgnn.load_run` opens an existing one.

    Args:
        path: Path of the folder.

    Example:
        >>> import tempfile, tgnn
        >>> run = tgnn.train("karate", out=f"{tempfile.mkdtemp()}/run", options={"train.epochs": 3})
        >>> run = tgnn.load_run(run.path)
        >>> run.config.data.name, run.metrics["epochs"], len(run.history())
        ('karate', 3, 3)
        >>> len(run.predict())
        34
    """

    # ---- state ---------------------------------------------------------------------------------------------------

    @property
    def config_path(self) -> Path:
        """``config.yaml``, the resolved configuration."""
        return self.path / CONFIG

    @property
    def checkpoint_path(self) -> Path:
        """``checkpoint.safetensors``: weights, optimizer state and progress.

        A finished single run keeps it, so that it can be extended.
        """
        return self.path / CHECKPOINT

    @property
    def has_started(self) -> bool:
        """Whether the folder holds a run. Its configuration is the last file written before the first epoch."""
        return self.config_path.exists()

    @property
    def is_finished(self) -> bool:
        """Whether the run has been tested."""
        return (self.path / METRICS).exists()

    @property
    def is_decoder(self) -> bool:
        """Whether the run trained a decoder of an error-correcting code."""
        return self.config.model.name == DECODER

    @property
    def is_running(self) -> bool:
        """Whether a process is training in the folder now."""
        if not (self.path / _LOCK).exists():
            return False
        try:
            with FileLock(str(self.path / _LOCK), timeout=0):
                return False
        except Timeout:
            return True
        except OSError:  # no permission to lock, so it is unknown
            return False

    def lock(self) -> contextlib.AbstractContextManager[object]:
        """Lock the folder, so that one process trains in it at a time."""
        try:
            return FileLock(str(self.path / _LOCK)).acquire(timeout=1)  # a report may hold the lock for a moment
        except Timeout:
            raise RunError(f"Another process is training in {self.path}.") from None

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        """Resolved configuration of the run."""
        if not self.has_started:
            if (self.path / RUNS).exists():
                from tgnn.training.repeated_runs import RunGroup

                runs = [run for run in RunGroup(self.path).runs if run.has_started]
                example = f"{len(runs)} runs. Use one of them, such as {runs[0].path}" if runs else "no started run"
                raise RunError(f"{self.path} holds {example}.")
            raise no_run_error(self.path)
        try:
            return read_config(self.config_path)
        except ValueError as error:
            raise RunError(str(error)) from error

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, machine and command of the run."""
        return self._read(ENVIRONMENT, EnvironmentFile).to_json()

    @property
    def _data_file(self) -> DataFile:
        self.check_files(DATA)
        return self._read(DATA, DataFile)

    @property
    def data_info(self) -> dict[str, Any]:
        """Description of the training data: task, shape, hashes, split and encoding."""
        return self._data_file.to_json()

    @property
    def shape(self) -> DataShape:
        """Shape of the training data, for which the model is built."""
        return self._data_file.shape

    @property
    def task(self) -> Task:
        """Loss, metric and predictions of the run."""
        return self._data_file.task

    @property
    def metrics(self) -> dict[str, Any]:
        """Results of a finished run: test and validation metric, best epoch, time, hashes."""
        if not self.is_finished:
            raise RunError(
                f"{self.path} is not finished: it has no {METRICS}. Continue with `tgnn train --resume {self.path}`."
            )
        return self._read(METRICS, Metrics).to_json()

    def history(self) -> list[dict[str, Any]]:
        """Return the records of all finished epochs."""
        return self.read_history()[0]

    def read_history(self) -> tuple[list[dict[str, Any]], str | None]:
        """Return the records of all finished epochs, and an error message if the file is damaged.

        An incomplete last line is ignored. It is still being written, or the process was killed while writing it.
        """
        try:
            lines = (self.path / HISTORY).read_bytes().decode(errors="replace").split("\n")
        except FileNotFoundError:
            return [], None
        except OSError as error:
            return [], f"{HISTORY} cannot be read: {error}"
        records: list[dict[str, Any]] = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = parse_json(line)
            except ValueError:
                record = None
            if isinstance(record, dict):
                records.append(record)
            elif number < len(lines):
                return records, f"line {number} of {HISTORY} is damaged"
        return records, None

    @property
    def best_epoch(self) -> int | None:
        """Number of the best epoch on the validation set, from 1, also of an unfinished run. ``None``: no epoch."""
        return find_best_epoch(self.history(), self.task.metric, self.config.train.select_by)

    def config_with_data(self, data: str | os.PathLike[str] | None = None) -> Config:
        """Return the configuration with another path of the data. ``None``: the stored path, which must exist."""
        config = self.config
        if data is not None:
            return config.replace("data", name=os.fspath(data))
        check_data_exists(config, self.path)
        return config

    def load_model(self) -> torch.nn.Module:
        """Build the model and load the weights of the best epoch. The model is in evaluation mode."""
        if self.is_decoder:
            from tgnn.training.decoder_runs import load_decoder

            return load_decoder(self)
        return self.load_weights(make_model(self.config, self.shape))

    def load_weights(self, model: Model) -> Model:
        """Load the weights of the best epoch into a model and switch it to evaluation mode.

        Weights other than those that the run wrote are refused.
        """
        path = self.path / MODEL
        self.check_files(MODEL)
        stored = read_tensors(path)
        info = validate(WeightsInfo, stored.metadata, path)
        if self.is_finished and self.metrics.get("model_sha256") != stored.digest:
            raise RunError(f"{path} does not hold the weights of this run: {METRICS} has another model_sha256.")
        if info.config_hash != self.config.hash:
            raise RunError(f"{path} belongs to another configuration than {self.config_path}.")
        if info.data_sha256 is not None and sha256_of(self.path / DATA) != info.data_sha256:
            raise RunError(f"{self.path / DATA} has changed since training. Restore it, or train again.")
        load_weights(model, stored.tensors, path)
        return model.eval()

    def check_files(self, *names: str) -> None:
        """Raise :class:`RunError` if a file of the run is missing; by default one of a finished run."""
        for name in names or (DATA, MODEL):
            if (self.path / name).exists():
                continue
            if self.is_finished or name != MODEL:
                raise RunError(
                    f"{self.path / name} is missing: part of the folder was deleted. Train it again with "
                    f"`tgnn train --recipe {self.config_path} --out {self.path}-again`."
                )
            raise RunError(
                f"{self.path / name} is missing: the run is not finished. "
                f"Continue with `tgnn train --resume {self.path}`."
            )

    def check_unchanged(self, hashes: Mapping[str, str]) -> None:
        """Refuse another configuration, data or split than those of the run: test examples must stay unseen."""
        info = self._data_file
        before = {"configuration": self.config.hash, "data": info.data_hash, "split": info.split.hash}
        for name, now in hashes.items():
            if now != before[name]:
                raise RunError(
                    f"{self.path} cannot be resumed or evaluated, because the {name} changed: its hash was "
                    f"{before[name]} and is now {now}. Restore the {name}, or train again."
                )

    # ---- writing -------------------------------------------------------------------------------------------------

    def write_start(self, config: Config, prepared: Prepared, processes: int = 1, job_id: str | None = None) -> None:
        """Write everything that is known before the first epoch. The configuration is last: it marks a started run."""
        data, split = prepared.data, prepared.split
        write_json(self.path / ENVIRONMENT, current_environment() | {"processes": processes, "job": job_id})
        write_json(
            self.path / DATA,
            {
                "info": data.info.to_dict(),
                "data_hash": prepared.data_hash,
                "split": {"name": split.name, "seed": split.seed, "hash": split.hash},
                "shape": prepared.shape.to_dict(),
                "task": asdict(prepared.task),
                "encoding": getattr(data, "encoding", None),
            },
        )
        write_text(self.config_path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))

    def write_task(self, task: Task) -> None:
        """Replace the task in ``data.json``, after the predictions have been calibrated."""
        write_json(self.path / DATA, self.data_info | {"task": asdict(task)})

    def open_history(self, keep: int = 0) -> IO[str]:
        """Open ``history.jsonl`` to append a :func:`history_line` per epoch, after the first ``keep`` records."""
        path = self.path / HISTORY
        write_text(path, "".join(history_line(record) for record in (self.history()[:keep] if keep else [])))
        return path.open("a", encoding="utf-8", buffering=1)  # line-buffered: a line is written when complete

    def write_model(self, model: torch.nn.Module, config_hash: str) -> str:
        """Write the weights of a model, and return their digest, ``model_sha256`` of ``metrics.json``."""
        data_sha256 = sha256_of(self.path / DATA) if (self.path / DATA).exists() else None
        info = WeightsInfo(tgnn=__version__, config_hash=config_hash, data_sha256=data_sha256)
        return write_tensors(self.path / MODEL, model.state_dict(), info.model_dump())

    def reopen(self, config: Config) -> None:
        """Write a configuration with more epochs, and delete the results, so that the run can be continued."""
        write_text(self.config_path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
        (self.path / METRICS).unlink(missing_ok=True)

    def write_metrics(self, metrics: dict[str, Any], keep_checkpoint: bool = False) -> None:
        """Write the results, which finishes the run. The checkpoint is deleted, unless the run may be extended."""
        path = self.path / METRICS
        write_json(path, validate(Metrics, metrics, path).to_json())  # so that it can be read back
        if not keep_checkpoint:
            self.checkpoint_path.unlink(missing_ok=True)

    # ---- actions -------------------------------------------------------------------------------------------------

    def predict(self, data: Any = None, device: str = "auto", **options: Any) -> Predictions:
        """Predict with the trained model: a path, data frames or a graph; see :func:`tgnn.predict`."""
        from tgnn.training.predict import predict

        return predict(self, data, device=device, **options)

    def evaluate(
        self,
        data: str | os.PathLike[str] | None = None,
        metric: str | None = None,
        device: str = "auto",
        options: ReadOptions | None = None,
    ) -> dict[str, Any]:
        """Compute the metric on the test set or on new data; see :func:`tgnn.training.predict.evaluate`."""
        from tgnn.training.predict import evaluate

        return evaluate(self, data, metric=metric, device=device, options=options)

    def resume(self, data: str | os.PathLike[str] | None = None, **options: Any) -> RunFolder:
        """Continue an unfinished run with its own configuration.

        Args:
            data: Path of the run's own data if it was moved.
            options: ``on_epoch``, as in :func:`tgnn.train`.
        """
        from tgnn.training.resume import with_data_path
        from tgnn.training.train import train_run

        train_run(with_data_path(self.config, data), self, resume=True, **options)
        return self


def check_data_exists(config: Config, path: Path) -> None:
    """Raise :class:`RunError` if the data of the run in ``path`` does not exist."""
    name = config.data.name
    if name not in CATALOG and not Path(name).expanduser().exists():
        raise RunError(f"{path} was trained on {name}, which does not exist. Restore it, or give its path with --data.")


def no_run_error(path: Path) -> RunError:
    """Return the error of a folder that does not exist, with a similar run beside it, or that holds no run."""
    if (path / CANDIDATES).exists():
        return RunError(
            f"No model is selected in {path} yet. Run the same `tgnn train --model auto` again to continue."
        )
    if path.exists():
        below = sorted(file.parent for depth in ("*", "*/*") for file in path.glob(f"{depth}/{CONFIG}"))
        hint = f" Use a run folder below it: {', '.join(map(str, below[:3]))}." if below else ""
        return RunError(f"{path} is not a run folder: it has no {CONFIG}.{hint}")
    runs = [file.parent.name for name in (CONFIG, RUNS) for file in path.parent.glob(f"*/{name}")]
    similar = closest_match(path.name, runs)
    return RunError(f"The run {path} does not exist." + (f" Did you mean {path.parent / similar}?" if similar else ""))
