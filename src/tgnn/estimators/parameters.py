"""The training configuration that the parameters of an estimator describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tgnn.models import get_model
from tgnn.training.config import Config, ConfigError
from tgnn.training.recipes import resolve

CONFIG_KEYS = {
    "model": "model.name",
    "hidden": "model.hidden_channels",
    "layers": "model.num_layers",
    "rank": "model.rank",
    "dropout": "model.dropout",
    "lr": "optimizer.lr",
    "weight_decay": "optimizer.weight_decay",
    "epochs": "train.epochs",
    "patience": "train.patience",
    "batch_size": "train.batch_size",
    "metric": "train.metric",
    "device": "train.device",
    "random_state": "train.seed",
}
"""Configuration key of each parameter."""

_FILE_KEYS = ("data.name", "data.root", "data.offline", "data.split", "train.save_every")
"""Keys of data files and run folders, which an estimator does not use."""


def config_from_parameters(parameters: Mapping[str, Any], level: str) -> Config:
    """Return the default recipe of a model, updated with all parameters that are not ``None``."""
    options = dict(parameters.get("options") or {})
    parameter_names = {key: name for name, key in CONFIG_KEYS.items()}
    for key in options:
        if key in parameter_names:
            raise ConfigError(f"options contains {key!r}, which is a parameter: use {parameter_names[key]}=...")
        if key in _FILE_KEYS:
            raise ConfigError(f"options contains {key!r}, which has no effect on an estimator: remove it")
    values = {key: parameters.get(name) for name, key in CONFIG_KEYS.items()}
    changes: dict[str, Any] = {key: value for key, value in values.items() if value is not None} | options
    class_weight = parameters.get("class_weight")
    if isinstance(class_weight, str):
        changes["train.class_weight"] = class_weight
    elif class_weight is not None and not isinstance(class_weight, Mapping):
        raise ConfigError(f"class_weight is {class_weight!r}, but must be 'balanced', a dictionary or None")
    changes["train.seed"] = _seed(parameters.get("random_state"))
    # A parameter grid may contain NumPy numbers.
    changes = {key: value.item() if isinstance(value, np.generic) else value for key, value in changes.items()}
    name = changes.pop("model.name", "tgnn")
    get_model(name)
    return resolve("", name, level, changes=changes)


def _seed(random_state: Any) -> int:
    """Return an integer seed as it is, or draw one from a random state as scikit-learn does."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
