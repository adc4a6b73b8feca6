"""Any graph that an estimator takes, as one PyG ``Data`` of our own; the user's is never changed."""

from __future__ import annotations

from typing import Any

import scipy.sparse
import torch
from torch_geometric.data import Data

from tgnn.estimators.arrays import (
    as_edge_features,
    as_edge_index,
    as_edge_weight,
    as_features,
    as_positions,
    from_adjacency,
)
from tgnn.estimators.from_networkx import Attributes, from_networkx, is_networkx


def is_graph(thing: Any) -> bool:
    """Whether it is one graph, and not an array or a list.

    Example:
        >>> is_graph(Data()), is_graph(([[1.0]], [[0], [0]])), is_graph([0, 1])
        (True, True, False)
    """
    return isinstance(thing, Data) or is_networkx(thing) or (isinstance(thing, tuple) and len(thing) == 2)


def as_graph(thing: Any, names: Attributes) -> tuple[Data, Any]:
    """The graph, and its targets as the user has them (``None``: it has none).

    Args:
        thing: ``Data``, ``(X, edge_index)``, ``(X, A)`` with A sparse, or a NetworkX graph.
        names: Of attributes, for NetworkX; and whether there must be features.

    Example:
        >>> as_graph((torch.ones(3, 2), [[0, 1], [1, 2]]), Attributes())
        (Data(x=[3, 2], edge_index=[2, 2]), None)
    """
    if isinstance(thing, Data):
        return _from_data(thing, names)
    if is_networkx(thing):
        return from_networkx(thing, names)
    if isinstance(thing, tuple) and len(thing) == 2:
        x, edges = as_features(thing[0]), thing[1]
        if scipy.sparse.issparse(edges):
            edge_index, weight = from_adjacency(edges, x.size(0))
            return _graph(x, edge_index, edge_weight=weight), None
        return _graph(x, as_edge_index(edges, x.size(0))), None
    raise TypeError(
        f"a graph must be a torch_geometric Data, a tuple (X, edge_index) or (X, adjacency), or a NetworkX graph, "
        f"got {type(thing).__name__}"
    )


def unweighted_if_whole(data: Data) -> Data:
    """The graph, of our own, without weights where all are 1: they say nothing.

    Example:
        >>> unweighted_if_whole(Data(edge_index=torch.tensor([[0], [1]]), edge_weight=torch.ones(1)))
        Data(edge_index=[2, 1])
    """
    if data.edge_weight is not None and bool((data.edge_weight == 1).all()):
        del data.edge_weight
    return data


def _graph(x: torch.Tensor | None, edge_index: torch.Tensor, **more: torch.Tensor | None) -> Data:
    return Data(x=x, edge_index=edge_index, **{name: value for name, value in more.items() if value is not None})


def _from_data(data: Data, names: Attributes) -> tuple[Data, Any]:
    if data.x is None and names.needs_x:
        raise ValueError(
            "the graph has no node features x; degrees or ones may stand in, or, to tell of the nodes of one graph, "
            'model="node2vec" does without'
        )
    if data.edge_index is None:
        raise ValueError("the graph has no edge_index; a graph without edges has one of shape [2, 0]")
    x = None if data.x is None else as_features(data.x)
    nodes = int(data.num_nodes) if x is None else x.size(0)
    edge_index = as_edge_index(data.edge_index, nodes)
    weight, features = data.get("edge_weight"), data.get("edge_attr")
    if weight is not None:
        weight = as_edge_weight(weight, edge_index.size(1))
    if features is not None:
        features = as_edge_features(features, edge_index.size(1))
    pos = data.get("pos") if names.level == "graph" else None  # no model of nodes reads it
    if pos is not None:
        pos = as_positions(pos, nodes)
    found = _graph(x, edge_index, edge_weight=weight, edge_attr=features, pos=pos)
    if x is None:
        found.num_nodes = nodes
    return found, data.get("y")
