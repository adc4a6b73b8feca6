"""Content of the files of a run that are read back, each as a strict pydantic model.

To add a key to a file, add a field with a default value: files without it stay readable.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from tgnn import __version__
from tgnn.data.dataset_info import DatasetInfo
from tgnn.models import DataShape
from tgnn.training.config import Config
from tgnn.training.metrics import Task
from tgnn.training.result_details import ResultDetails
from tgnn.utils.io import without_nan
from tgnn.utils.read import StoredModel

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


class SplitRecord(StoredModel):
    """Name, seed and hash of the split of a run."""

    name: str
    seed: int | None
    hash: str


class DataFile(StoredModel):
    """``data.json``: the training data, the task and the sizes for which the model was built."""

    info: DatasetInfo
    data_hash: str
    split: SplitRecord
    shape: DataShape
    task: Task
    encoding: dict[str, Any] | None

    @model_validator(mode="after")
    def _check_outputs(self) -> Self:
        if (self.info.level, self.info.outputs) != (self.shape.level, self.shape.outputs):
            raise ValueError("info and shape must have the same level and outputs")
        check_task(self.task, self.shape)
        return self


class BaselineScores(StoredModel):
    """Test metric and all scores of a baseline."""

    name: str
    test: float
    scores: dict[str, float]


class CandidateScores(StoredModel):
    """Validation metric and training time of a candidate of ``--model auto``."""

    name: str
    val: float
    seconds: NonNegativeFloat


class Metrics(StoredModel):
    """``metrics.json``: the results of a finished run."""

    data: str
    model: str
    metric: str
    test: float
    val: float
    split: str | None = None
    split_hash: str
    data_hash: str
    config_hash: str
    model_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    source: str = ""
    differs: str = ""
    seed: NonNegativeInt
    best_epoch: NonNegativeInt
    epochs: NonNegativeInt
    seconds: NonNegativeFloat
    parameters: NonNegativeInt
    points: list[dict[str, Any]] | None = None
    details: ResultDetails | None = None
    baselines: list[BaselineScores] | None = None
    examples: dict[str, NonNegativeInt] | None = None
    selected: str | None = None
    candidates: list[CandidateScores] | None = None


class EnvironmentFile(StoredModel):
    """``environment.json``: versions, machine and command of a run."""

    tgnn: str
    python: str
    torch: str
    torch_geometric: str
    numpy: str
    system: str
    threads: PositiveInt
    cores: PositiveInt | None
    command: list[str]
    started: str
    processes: PositiveInt = 1
    job: str | None = None


class RunsFile(StoredModel):
    """``runs.json``: the number of repeated runs, and the configuration of the first one."""

    runs: int = Field(ge=1, le=100_000)
    config: Config


class SummaryFile(StoredModel):
    """``summary.json``: the test metric of repeated runs."""

    data: str
    model: str
    metric: str
    split: str | None
    runs: PositiveInt
    mean: float
    std: NonNegativeFloat
    interval: tuple[float, float]
    each: list[Metrics]
    scores: dict[str, float] | None = None
    baselines: list[BaselineScores] | None = None


class WeightsInfo(StoredModel):
    """Metadata of ``model.safetensors``."""

    tgnn: str
    config_hash: str
    data_sha256: str | None = None
    """SHA-256 of ``data.json``, whose encoding of the training data decides about predictions."""


def check_task(task: Task, shape: DataShape) -> None:
    """Check that a task has the statistics of each output of a model."""
    lengths = {"center": 1, "log_prior_ratio": 0, "class_weight": 0}
    for name, allowed in ((name, (default, shape.outputs)) for name, default in lengths.items()):
        if (length := len(getattr(task, name))) not in allowed:
            raise ValueError(f"task.{name} has {length} values, but the model has {shape.outputs} outputs")
    if len(task.scale) != len(task.center) or min(task.scale) <= 0:
        raise ValueError("task.scale must have a positive value for each value of task.center")


def history_line(record: Mapping[str, Any]) -> str:
    """Return the line of an epoch in ``history.jsonl``."""
    return json.dumps(without_nan(dict(record))) + "\n"


def current_environment() -> dict[str, Any]:
    """Return the versions and the machine that a result may depend on."""
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
