"""What a search may try, for every model in one place: the paper's ranges for all, and what each model has of its own.

The width of node networks, which the paper fixes at 32, is searched as well, their depth, whether rows are normalized
between layers, and whether all layers are read (jumping knowledge). Of graph networks, whether all layers are read and
whether the row of a graph is normalized, where a network can.

A comparison is fair when every model has the same number of trials over the same common ranges, on the same splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tgnn.models.registry import get_model, model_options

Range = tuple[Any, ...]

COMMON: Mapping[str, Range] = {
    "optimizer.lr": (0.0001, 0.0005, 0.001, 0.003, 0.005, 0.01, 0.05),
    "optimizer.weight_decay": (0.0, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3),
    "model.dropout": (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9),
}
"""The paper's table of search ranges (appendix "Hyperparameter")."""

RANKS: Range = (8, 25, 32, 50, 64, 75, 100, 128, 200, 256, 512)
"""The paper's ranks, and 8 of its efficiency table."""

_CP_LR: Range = (0.0005, 0.001, 0.005, 0.01, 0.05)
_INPUT_DROPOUT: Range = (0.0, 0.3, 0.5, 0.7)
_HIDDEN: Range = (32, 64, 128)
_NORM: Range = (None, "batch_norm")
_JK: Mapping[str, Range] = {"model.jk": (None, "cat"), "model.num_layers": (2, 3)}
_READOUT: Range = ("sum", "mean")
_CP: Mapping[str, Range] = {"model.rank": RANKS, "optimizer.cp_lr": _CP_LR}

_OTHERS: Mapping[str, Mapping[str, Range]] = {
    "gat": {"model.heads": (1, 4, 8), "model.attention_dropout": (0.0, 0.3, 0.6)},
    "graphsage": {"model.pooling": ("mean", "max")},
    "gprgnn": {"model.alpha": (0.1, 0.2, 0.5, 0.9)},
    "appnp": {"model.alpha": (0.05, 0.1, 0.2, 0.5)},
    "mixhop": {"model.powers": ((0, 1), (0, 1, 2), (0, 1, 2, 3))},
    "deepergcn": {"model.num_layers": (3, 7, 14)},
    "gcn2": {"model.num_layers": (4, 8, 16, 32), "model.alpha": (0.1, 0.2, 0.5), "model.theta": (0.5, 1.0, 1.5)},
    "h2gcn": {"model.num_layers": (1, 2)},
    "node2vec": {"model.p": (0.25, 0.5, 1.0, 2.0, 4.0), "model.q": (0.25, 0.5, 1.0, 2.0, 4.0)},
    "monet": {"model.kernels": (2, 3, 5)},
    "diffpool": {"model.clusters": (4, 8, 16)},
    "soppool": {"model.kind": ("bimap", "attention")},
    "dgn": {"model.aggregators": ("mean+dx", "mean+av", "mean+av+dx", "mean+dx+max+min")},
    "gmt": {"model.seeds": (4, 8, 16)},
    "phm-gnn": {"model.dimension": (2, 4, 5)},
}

OWN: Mapping[str, Mapping[str, Range]] = {
    "tgnn": {
        **_CP,
        "model.factors": ("plain", "weighted", "tempered"),
        "model.low_order": ("sum", "mean", "gcn"),
        "model.root_weight": (False, True),
        "model.mix": ("sum", "scalar"),
    },
    "cp": _CP,
    **_OTHERS,
    **{f"{name}+cp": {**_OTHERS.get(name, {}), **_CP} for name in ("gcn", "gat", "graphsage", "gin", "pna")},
}
"""Beside the common ones; a key that a model has for one kind of task only counts there."""


def search_space(model: str, level: str) -> dict[str, Range]:
    """Settings and the values to try, for a model and a kind of task.

    Args:
        model: Name of the model.
        level: ``"node"`` or ``"graph"``.

    Example:
        >>> search_space("gcn", "node")["model.dropout"]
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
    """
    build = get_model(model).builder(level)
    if build is None:
        return {}
    known = {f"model.{name}" for name in model_options(build)} | {"model.num_layers"}
    own = {key: values for key, values in OWN.get(model, {}).items() if key in known or key.startswith("optimizer.")}
    if level == "node":  # graph networks are compared at equal numbers of parameters
        own["model.hidden_channels"] = _HIDDEN
        if "model.norm" in known:
            own["model.norm"] = _NORM
        if "model.jk" in known:
            own = {**_JK, **own}
    else:
        graph_only = {"model.jk": (None, "cat"), "model.readout_norm": (False, True)}
        own |= {key: values for key, values in graph_only.items() if key in known}
    if "model.input_dropout" in known:
        own["model.input_dropout"] = _INPUT_DROPOUT
    if "model.readout" in known:
        own["model.readout"] = (*_READOUT, "sum+cp") if model == "tgnn" else _READOUT
    return {**COMMON, **own}
