"""Save estimators as one safetensors file, with parameters and history as JSON metadata. Nothing is unpickled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from tgnn import __version__
from tgnn.models import DataShape
from tgnn.training.checkpoint import CheckpointError, load_weights, read_tensors
from tgnn.training.config import make_config
from tgnn.training.metrics import Task
from tgnn.training.predict import num_features
from tgnn.training.prepare import make_model
from tgnn.utils.io import write_tensors

T = TypeVar("T")

_JSON_TYPES = (bool, int, float, str, type(None))


def write_estimator(estimator: Any, path: Path) -> None:
    """Write a fitted estimator atomically. A graph, and a random state that is not an integer, are not saved."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} does not exist")
    parameters = estimator.get_params(deep=False)
    parameters.pop("graph", None)
    if not isinstance(parameters["random_state"], (*_JSON_TYPES, np.integer)):
        parameters["random_state"] = None
    metadata = {
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
    }
    if hasattr(estimator, "classes_"):
        classes = estimator.classes_
        metadata["classes"] = {"dtype": classes.dtype.str, "values": _to_json(classes, "classes_")}
    write_tensors(path, estimator.model_.state_dict(), metadata)


def read_estimator(cls: type[T], path: Path) -> T:
    """Read an estimator. Raises a ``CheckpointError`` if the file is damaged or holds another estimator."""
    if not path.is_file():
        raise FileNotFoundError(f"file {path} does not exist")
    weights, metadata = read_tensors(path)
    if not isinstance(metadata, dict) or "estimator" not in metadata:
        raise CheckpointError(f"{path} does not contain an estimator: use `tgnn predict` for the model of a run")
    if metadata["estimator"] != cls.__name__:
        name = metadata["estimator"]
        raise CheckpointError(f"{path} contains a {name}, not a {cls.__name__}: load it with {name}.load")
    try:
        estimator: Any = cls(**metadata["parameters"])
        estimator.config_, estimator.task_ = make_config(metadata["config"]), Task(**metadata["task"])
        estimator.shape_ = DataShape.from_dict(metadata["shape"])
        estimator.n_features_in_ = num_features(estimator.shape_.features)
        estimator.history_, estimator.n_iter_ = list(metadata["history"]), int(metadata["n_iter"])
        estimator.best_epoch_ = int(metadata["best_epoch"])
        if metadata["classes"] is not None:
            estimator.classes_ = np.array(metadata["classes"]["values"], dtype=np.dtype(metadata["classes"]["dtype"]))
            if estimator.classes_.shape != (estimator.shape_.outputs,):
                raise ValueError("the number of classes differs from the number of outputs")
        with torch.random.fork_rng([]):
            model = make_model(estimator.config_, estimator.shape_)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged or was written by another version of tgnn: {error}") from error
    load_weights(model, weights, path)
    estimator.model_ = model.eval()
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
