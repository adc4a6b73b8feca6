"""Variants ``gcn+cp``, ``gat+cp``, ``graphsage+cp``, ``gin+cp`` and ``pna+cp``: models with CP pooling added by
:func:`tgnn.with_cp`.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, get_type_hints

import torch
from torch_geometric.data import Batch, Data

from tgnn.models.registration import Builder, DataShape, ModelSize, PositiveInt, get_model, register_model
from tgnn.models.search_ranges import CP
from tgnn.nn import with_cp

_RANK = PositiveInt


def add_cp(build: Builder) -> Builder:
    """Return a builder of the same model with :func:`tgnn.with_cp` applied. It has the hyperparameter ``rank``.

    Args:
        build: Builder of the model without CP pooling.
    """
    signature = inspect.signature(build)
    takes_rank = "rank" in signature.parameters

    @functools.wraps(build)
    def build_with_cp(size: ModelSize, *, rank: int = 8, **kwargs: Any) -> torch.nn.Module:
        kwargs |= {"rank": rank} if takes_rank else {}
        model = with_cp(build(size, **kwargs), rank, verbose=False)
        _initialize_lazy_parameters(model, size.shape)
        return model

    rank = inspect.Parameter("rank", inspect.Parameter.KEYWORD_ONLY, default=8, annotation=_RANK)
    others = [parameter for parameter in signature.parameters.values() if parameter.name != "rank"]
    build_with_cp.__signature__ = signature.replace(parameters=[*others, rank])  # type: ignore[attr-defined]
    build_with_cp.__annotations__ = {**get_type_hints(build, include_extras=True), "rank": _RANK}
    return build_with_cp


@torch.no_grad()
def _initialize_lazy_parameters(model: torch.nn.Module, shape: DataShape) -> None:
    """Run the model once on a graph of two nodes, so that layers with lazy input sizes create their parameters."""

    def zeros(width: int | tuple[int, ...] | None, count: int) -> torch.Tensor | None:
        if width is None:
            return None
        if isinstance(width, int):
            return torch.zeros(count, width)
        return torch.zeros(count, len(width), dtype=torch.float if 0 in width else torch.long)

    edge_index = torch.tensor([[0, 1], [1, 0]])
    data = Data(zeros(shape.features, 2), edge_index, zeros(shape.edge_features, 2), num_nodes=2)
    training = model.training
    model.eval()
    model(data if shape.level == "node" else Batch.from_data_list([data]))
    model.train(training)


def _register_variant(name: str) -> None:
    model = get_model(name)
    properties: dict[str, Any] = {
        "summary": f"{name} with CP pooling added to its layers by with_cp",
        "paper": "Hua et al. 2022, arXiv:2205.11691",
        "search_space": {**model.search_space, **CP},
    }
    for level in ("node", "graph"):
        build = model.builder(level)
        if build is not None:
            register_model(f"{name}+cp", level, uses=model.uses(level), **properties)(add_cp(build))
            properties = {}


for _name in ("gcn", "gat", "graphsage", "gin", "pna"):
    _register_variant(_name)
