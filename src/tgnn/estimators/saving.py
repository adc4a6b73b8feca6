"""An estimator in one file: its weights as safetensors, all else as JSON beside them. Nothing is ever unpickled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from tgnn import __version__
from tgnn.estimators.examples import columns
from tgnn.models.data_shape import DataShape
from tgnn.training.checkpoint import CheckpointError, read_tensors, restore, write_tensors
from tgnn.training.config import make_config
from tgnn.training.metrics import Task
from tgnn.training.train import make_model

T = TypeVar("T")

_PLAIN = (bool, int, float, str, type(None))


def write_estimator(estimator: Any, path: Path) -> None:
    """Writes a fitted estimator, whole or not at all. A graph, and a random state that is no number, are left out.

    Args:
        estimator: Of any class.
        path: Of the file.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    parameters = estimator.get_params(deep=False)
    parameters.pop("graph", None)
    if not isinstance(parameters["random_state"], (*_PLAIN, np.integer)):
        parameters["random_state"] = None
    about = {
        "estimator": type(estimator).__name__,
        "tgnn": __version__,
        "parameters": {name: _plain(value, name) for name, value in parameters.items()},
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
        about["classes"] = {"dtype": classes.dtype.str, "values": _plain(classes, "classes_")}
    write_tensors(path, estimator.model_.state_dict(), about)


def read_estimator(kind: type[T], path: Path) -> T:
    """Reads what :func:`write_estimator` has written; an error says what is wrong with the file.

    Args:
        kind: Class of the estimator.
        path: Of the file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    weights, about = read_tensors(path)
    if not isinstance(about, dict) or "estimator" not in about:
        raise CheckpointError(f"{path} is not of an estimator; the model of a run is read by `tgnn predict`")
    if about["estimator"] != kind.__name__:
        found = about["estimator"]
        raise CheckpointError(f"{path} is of a {found}, not of a {kind.__name__}: read it with {found}.load")
    try:
        estimator: Any = kind(**about["parameters"])
        estimator.config_, estimator.task_ = make_config(about["config"]), Task(**about["task"])
        estimator.shape_ = DataShape.from_dict(about["shape"])
        estimator.n_features_in_ = columns(estimator.shape_.features)
        estimator.history_, estimator.n_iter_ = list(about["history"]), int(about["n_iter"])
        estimator.best_epoch_ = int(about["best_epoch"])
        if about["classes"] is not None:
            estimator.classes_ = np.array(about["classes"]["values"], dtype=np.dtype(about["classes"]["dtype"]))
            if estimator.classes_.shape != (estimator.shape_.outputs,):
                raise ValueError("it has another number of classes than of outputs")
        with torch.random.fork_rng([]):
            model = make_model(estimator.config_, estimator.shape_)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged, or of another version of tgnn: {error}") from error
    restore(model, weights, path)
    estimator.model_ = model.eval()
    whole: T = estimator
    return whole


def _plain(value: Any, name: str) -> Any:
    """As JSON has it."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(own, name) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(own, name) for own in value]
    if not isinstance(value, _PLAIN):
        raise ValueError(f"{name} holds {type(value).__name__}, which cannot be written to a file")
    return value
