"""Save estimators as one safetensors file, with parameters and history as JSON metadata. Nothing is unpickled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import Field, NonNegativeInt

from tgnn import __version__
from tgnn.estimators.ensemble import make_estimator_model
from tgnn.models import DataShape
from tgnn.training.checkpoint import CheckpointError, load_weights, read_tensors
from tgnn.training.config import Config
from tgnn.training.metrics import Task
from tgnn.training.new_data import num_features
from tgnn.training.run_files import check_task
from tgnn.utils.io import write_tensors
from tgnn.utils.read import StoredModel, validate

T = TypeVar("T")

_JSON_TYPES = (bool, int, float, str, type(None))


class ClassesRecord(StoredModel):
    """Class labels of a classifier, and the type of their array."""

    dtype: str = Field(pattern=r"^([<>|=]?[biufU]\d+)$")
    values: list[bool | int | float | str]


class EstimatorFile(StoredModel):
    """Metadata of the file of an estimator."""

    estimator: str
    tgnn: str
    parameters: dict[str, Any]
    config: Config
    shape: DataShape
    task: Task
    classes: ClassesRecord | None
    history: list[dict[str, Any]]
    n_iter: NonNegativeInt
    best_epoch: NonNegativeInt
    encoding: dict[str, Any] = Field(default_factory=dict)

    def check(self, estimator: Any) -> None:
        """Raise a ``ValueError`` if the content contradicts the class of the estimator or itself."""
        check_task(self.task, self.shape)
        if (self.shape.level, self.task.target) != (estimator._level, estimator._target_type):
            raise ValueError(f"its task is {self.shape.level} {self.task.target}")
        num_classes = self.shape.outputs if self.task.target == "classification" else None
        if num_classes != (None if self.classes is None else len(self.classes.values)):
            raise ValueError("the number of classes differs from the number of outputs")
        if missing := set(estimator.get_params(deep=False)) - {*self.parameters, "graph"}:
            raise ValueError(f"parameters.{min(missing)} is missing")


def write_estimator(estimator: Any, path: Path) -> None:
    """Write a fitted estimator atomically. A graph, and a random state that is not an integer, are not saved."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} does not exist")
    parameters = estimator.get_params(deep=False)
    parameters.pop("graph", None)
    if not isinstance(parameters["random_state"], (*_JSON_TYPES, np.integer)):
        parameters["random_state"] = None
    metadata: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "tgnn": __version__,
        "parameters": {name: _to_json(value, name) for name, value in parameters.items()},
        "config": estimator.config_.model_dump(mode="json"),
        "shape": estimator.shape_.to_dict(),
        "task": asdict(estimator.task_),
        "classes": None,
        "history": estimator.history_,
        "n_iter": estimator.n_iter_,
        "best_epoch": estimator.best_epoch_,
        "encoding": estimator.encoding_,
    }
    if hasattr(estimator, "classes_"):
        classes = estimator.classes_
        metadata["classes"] = {"dtype": classes.dtype.str, "values": _to_json(classes, "classes_")}
    write_tensors(path, estimator.model_.state_dict(), metadata)


def read_estimator(cls: type[T], path: Path) -> T:
    """Read an estimator. Raises a ``CheckpointError`` if the file is damaged or holds another estimator."""
    if not path.is_file():
        raise FileNotFoundError(f"file {path} does not exist")
    stored = read_tensors(path)
    name = stored.metadata.get("estimator") if isinstance(stored.metadata, dict) else None
    if not isinstance(name, str):
        raise CheckpointError(f"{path} does not contain an estimator: use `tgnn predict` for the model of a run")
    if name != cls.__name__:
        raise CheckpointError(f"{path} contains a {name}, not a {cls.__name__}: load it with {name}.load")
    try:
        content = validate(EstimatorFile, stored.metadata, path)
        estimator: Any = cls(**content.parameters)
        content.check(estimator)
        with torch.random.fork_rng([]):
            size = int(content.parameters["n_estimators"])
            model = make_estimator_model(content.config, content.shape, content.task.target, size)
        if content.classes is not None:
            estimator.classes_ = np.array(content.classes.values, dtype=np.dtype(content.classes.dtype))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or was written by another version of tgnn: {error}") from error
    load_weights(model, stored.tensors, path)
    estimator.model_, estimator.config_ = model.eval(), content.config
    estimator.task_, estimator.shape_, estimator.encoding_ = content.task, content.shape, content.encoding
    estimator.n_features_in_ = num_features(content.shape.features)
    estimator.history_, estimator.n_iter_, estimator.best_epoch_ = content.history, content.n_iter, content.best_epoch
    loaded: T = estimator
    return loaded


def _to_json(value: Any, name: str) -> Any:
    """Convert a value to JSON types, or raise a ``ValueError`` that names the parameter."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _to_json(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item, name) for item in value]
    if not isinstance(value, _JSON_TYPES):
        raise ValueError(f"{name} contains {type(value).__name__}, which cannot be saved")
    return value
