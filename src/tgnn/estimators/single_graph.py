"""Convert one graph in any supported form to a new PyG ``Data``. The input is never changed."""

from __future__ import annotations

from typing import Any

import scipy.sparse
import torch
from torch_geometric.data import Data

from tgnn.estimators.arrays import (
    from_adjacency,
    to_edge_features,
    to_edge_index,
    to_edge_weight,
    to_features,
    to_positions,
)
from tgnn.estimators.from_networkx import NetworkXAttributes, from_networkx, is_networkx


def is_graph(value: Any) -> bool:
    """Return whether an object is a single graph, not an array or a list of graphs.

    Example:
        >>> is_graph(Data()), is_graph(([[1.0]], [[0], [0]])), is_graph([0, 1])
        (True, True, False)
    """
    return isinstance(value, Data) or is_networkx(value) or (isinstance(value, tuple) and len(value) == 2)


def to_data(graph: Any, names: NetworkXAttributes) -> tuple[Data, Any]:
    """Return a graph as ``Data``, and its targets as given by the user (``None`` if it has none).

    Args:
        graph: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` with a SciPy sparse matrix, or a NetworkX graph.
        names: Names of NetworkX attributes, and whether the model needs node features.

    Example:
        >>> to_data((torch.ones(3, 2), [[0, 1], [1, 2]]), NetworkXAttributes())
        (Data(x=[3, 2], edge_index=[2, 2]), None)
    """
    if isinstance(graph, Data):
        return _from_data(graph, names)
    if is_networkx(graph):
        return from_networkx(graph, names)
    if isinstance(graph, tuple) and len(graph) == 2:
        x, edges = to_features(graph[0]), graph[1]
        if scipy.sparse.issparse(edges):
            edge_index, weight = from_adjacency(edges, x.size(0))
            return _make_data(x, edge_index, edge_weight=weight), None
        return _make_data(x, to_edge_index(edges, x.size(0))), None
    raise TypeError(
        f"a graph must be a torch_geometric Data, a tuple (X, edge_index) or (X, adjacency), or a NetworkX graph, "
        f"got {type(graph).__name__}"
    )


def drop_unit_weights(data: Data) -> Data:
    """Remove the edge weights of a graph, in place, if all of them are 1.

    Example:
        >>> drop_unit_weights(Data(edge_index=torch.tensor([[0], [1]]), edge_weight=torch.ones(1)))
        Data(edge_index=[2, 1])
    """
    if data.edge_weight is not None and bool((data.edge_weight == 1).all()):
        del data.edge_weight
    return data


def _make_data(x: torch.Tensor | None, edge_index: torch.Tensor, **attributes: torch.Tensor | None) -> Data:
    return Data(x=x, edge_index=edge_index, **{name: value for name, value in attributes.items() if value is not None})


def _from_data(data: Data, names: NetworkXAttributes) -> tuple[Data, Any]:
    if data.x is None and names.needs_x:
        raise ValueError(
            "the graph has no node features x: use node degrees or ones as features, or, for nodes of one graph, "
            'model="node2vec", which needs none'
        )
    if data.edge_index is None:
        raise ValueError("the graph has no edge_index: use an empty one of shape [2, 0] for a graph without edges")
    x = None if data.x is None else to_features(data.x)
    num_nodes = int(data.num_nodes) if x is None else x.size(0)
    edge_index = to_edge_index(data.edge_index, num_nodes)
    weight, features = data.get("edge_weight"), data.get("edge_attr")
    if weight is not None:
        weight = to_edge_weight(weight, edge_index.size(1))
    if features is not None:
        features = to_edge_features(features, edge_index.size(1))
    pos = data.get("pos") if names.level == "graph" else None  # no node-level model uses positions
    if pos is not None:
        pos = to_positions(pos, num_nodes)
    copy = _make_data(x, edge_index, edge_weight=weight, edge_attr=features, pos=pos)
    if x is None:
        copy.num_nodes = num_nodes
    return copy, data.get("y")
