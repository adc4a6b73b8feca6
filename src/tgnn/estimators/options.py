"""From an estimator's parameters to the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tgnn.models import get_model
from tgnn.training.config import Config, ConfigError
from tgnn.training.recipes import resolve

SETTINGS = {
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
    "device": "train.device",
    "random_state": "train.seed",
}
"""The setting that each parameter stands for."""

_OF_FILES = ("data.name", "data.root", "data.offline", "data.split", "train.save_every")
"""Settings that say nothing to an estimator, which reads and writes no files in training."""


def make_options(parameters: Mapping[str, Any], level: str) -> Config:
    """The default recipe of a model, with the parameters that are not ``None`` in place of its values.

    Args:
        parameters: As ``get_params()`` gives them.
        level: ``"node"`` or ``"graph"``.

    Example:
        >>> config = make_options({"model": "tgnn", "rank": 4, "options": {"model.mix": "scalar"}}, "node")
        >>> config.model.arguments["rank"], config.model.arguments["mix"]
        (4, 'scalar')
    """
    options = dict(parameters.get("options") or {})
    own = {setting: name for name, setting in SETTINGS.items()}
    for key in options:
        if key in own:
            raise ConfigError(f"options has {key!r}, which has a parameter of its own: set {own[key]}=...")
        if key in _OF_FILES:
            raise ConfigError(f"options has {key!r}, which is for runs from files: an estimator is given its data")
    values = {key: parameters.get(name) for name, key in SETTINGS.items()}
    changes = {key: _plain(value) for key, value in values.items() if value is not None}
    changes |= {key: _plain(value) for key, value in options.items()}
    changes["train.seed"] = seed_of(parameters.get("random_state"))
    name = changes.pop("model.name", "tgnn")
    get_model(name)
    return resolve("", name, level, changes=changes)


def seed_of(random_state: Any) -> int:
    """A whole number as it is; else one drawn as scikit-learn draws: ``None`` means from NumPy's global state.

    Example:
        >>> seed_of(3)
        3
    """
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _plain(value: Any) -> Any:
    """Python's own number for NumPy's, which grids of parameters are made of."""
    return value.item() if isinstance(value, np.generic) else value
