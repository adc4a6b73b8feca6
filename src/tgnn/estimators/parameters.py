"""Parameters of the estimators: their documentation, and the training configuration that they describe."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from tgnn.models import get_model
from tgnn.training.config import Config, ConfigError
from tgnn.training.recipes import resolve

T = TypeVar("T", bound=type[BaseEstimator])

_PARAMETERS = {
    "graph": "Graph that node indices refer to: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or a NetworkX graph. "
    "Clones share it, and it is never changed. ``None`` if whole graphs are passed to :meth:`fit`.",
    "model": "Name of the model, see ``tgnn models``.",
    "hidden": "Number of hidden channels. ``None`` uses the default recipe of the model, here and for the parameters "
    "below.",
    "layers": "Number of layers.",
    "rank": "CP rank of the product branch. 0 removes the branch.",
    "dropout": "Dropout probability of hidden channels.",
    "lr": 'Learning rate of the optimizer. That of the product branch is ``options={"optimizer.cp_lr": ...}``.',
    "weight_decay": "Weight decay of the optimizer.",
    "epochs": "Maximum number of epochs.",
    "patience": "Stop after this many epochs without improvement on the validation set.",
    "batch_size": "Number of <level>s in a mini-batch. Mini-batches of nodes need "
    '``options={"train.num_neighbors": ...}``. By default, a node model is trained on the whole graph.',
    "validation_fraction": "Fraction of the labeled <level>s to hold out for validation. 0 holds out none and selects "
    "the epoch on the training set.",
    "device": '``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.',
    "random_state": "Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.",
    "verbose": "0 prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.",
    "options": 'Any other option of ``tgnn train --set``, as ``{"section.key": value}``.',
    "x_attribute": "Node attribute (or list of attributes) of NetworkX graphs with the features.",
    "y_attribute": "Attribute of each <level> of NetworkX graphs with the target.",
    "weight_attribute": "Edge attribute of NetworkX graphs with the edge weight. ``None`` ignores weights.",
}
_ATTRIBUTES = {
    "classes_": "Class labels, sorted.",
    "n_features_in_": "Number of node features seen in :meth:`fit`.",
    "model_": "Trained ``torch.nn.Module``, with the weights of the best epoch.",
    "history_": "Losses and metrics of each epoch, as a list of dictionaries.",
    "n_iter_": "Number of epochs that were run.",
    "best_epoch_": "Epoch with the best validation score, from 0.",
    "config_": "Resolved training configuration.",
    "shape_": "Number and type of the features and outputs.",
    "task_": "Target type, metric and prior correction.",
}


def document_parameters(cls: T) -> T:
    """Replace ``{parameters}`` in the docstring of an estimator by the sections "Args" and "Attributes"."""
    unused = () if issubclass(cls, ClassifierMixin) else ("classes_",)
    arguments = {name: text for name, text in _PARAMETERS.items() if name in cls._get_param_names()}
    attributes = {name: text for name, text in _ATTRIBUTES.items() if name not in unused}
    lines = ["Args:", *_entries(arguments), "", "    Attributes:", *_entries(attributes)]
    cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", "\n".join(lines).replace("<level>", cls._level))
    return cls


def _entries(texts: Mapping[str, str]) -> list[str]:
    wrapper = textwrap.TextWrapper(width=120, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return [wrapper.fill(f"{name}: {text}") for name, text in texts.items()]


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
    "device": "train.device",
    "random_state": "train.seed",
}
"""Configuration key of each parameter."""

_FILE_KEYS = ("data.name", "data.root", "data.offline", "data.split", "train.save_every")
"""Keys of data files and run folders, which an estimator does not use."""


def config_from_parameters(parameters: Mapping[str, Any], level: str) -> Config:
    """Return the default recipe of a model, updated with all parameters that are not ``None``.

    Args:
        parameters: Parameters, as ``get_params()`` returns them.
        level: ``"node"`` or ``"graph"``.

    Example:
        >>> config = config_from_parameters({"model": "tgnn", "rank": 4, "options": {"model.mix": "scalar"}}, "node")
        >>> config.model.arguments["rank"], config.model.arguments["mix"]
        (4, 'scalar')
    """
    options = dict(parameters.get("options") or {})
    parameter_names = {key: name for name, key in CONFIG_KEYS.items()}
    for key in options:
        if key in parameter_names:
            raise ConfigError(f"options contains {key!r}, which is a parameter: use {parameter_names[key]}=...")
        if key in _FILE_KEYS:
            raise ConfigError(f"options contains {key!r}, which has no effect on an estimator: remove it")
    values = {key: parameters.get(name) for name, key in CONFIG_KEYS.items()}
    changes: dict[str, Any] = {key: value for key, value in values.items() if value is not None} | options
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
