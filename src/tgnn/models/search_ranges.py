"""Search spaces of ``tgnn tune``: the ranges of the paper, common to all models, and those of each model.

Beyond the paper, the search over node models includes the number of hidden channels (32 in the paper), the number of
layers, normalization between layers and jumping knowledge. The search over graph models includes jumping knowledge and
normalization of the graph embedding, where the model supports them.

A comparison is fair if all models are searched with the same number of trials over the same common ranges and splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tgnn.models.registration import get_model, model_options

Range = tuple[Any, ...]

COMMON: Mapping[str, Range] = {
    "optimizer.lr": (0.0001, 0.0005, 0.001, 0.003, 0.005, 0.01, 0.05),
    "optimizer.weight_decay": (0.0, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3),
    "model.dropout": (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9),
}
"""The paper's search ranges (appendix "Hyperparameter")."""

CP: Mapping[str, Range] = {
    "model.rank": (8, 25, 32, 50, 64, 75, 100, 128, 200, 256, 512),
    "optimizer.cp_lr": (0.0005, 0.001, 0.005, 0.01, 0.05),
}
"""Ranges of models with a CP layer. The ranks are those of the paper, and 8 from its efficiency table."""

_INPUT_DROPOUT: Range = (0.0, 0.3, 0.5, 0.7)
_HIDDEN_CHANNELS: Range = (32, 64, 128)
_NORM: Range = (None, "batch_norm")
_NODE_JK: Mapping[str, Range] = {"model.jk": (None, "cat"), "model.num_layers": (2, 3)}
_GRAPH_EMBEDDING: Mapping[str, Range] = {"model.jk": (None, "cat"), "model.readout_norm": (False, True)}
_READOUT: Range = ("sum", "mean")


def search_space(name: str, level: str) -> dict[str, Range]:
    """Return the values that a search tries, by configuration key.

    The order of the keys is part of the result: a seeded search samples them in this order.

    Example:
        >>> search_space("gcn", "node")["model.dropout"]
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
    """
    model = get_model(name)
    build = model.builder(level)
    if build is None:
        return {}
    known = {f"model.{option}" for option in model_options(build)} | {"model.num_layers"}
    space = {k: values for k, values in model.search_space.items() if k in known or k.startswith("optimizer.")}
    if level == "node":
        space["model.hidden_channels"] = _HIDDEN_CHANNELS  # graph models are compared at equal numbers of parameters
        if "model.norm" in known:
            space["model.norm"] = _NORM
        if "model.jk" in known:
            space = {**_NODE_JK, **space}
    else:
        space |= {key: values for key, values in _GRAPH_EMBEDDING.items() if key in known}
    if "model.input_dropout" in known:
        space["model.input_dropout"] = _INPUT_DROPOUT
    if "model.readout" in known:
        space["model.readout"] = space.pop("model.readout", _READOUT)
    return {**COMMON, **space}
