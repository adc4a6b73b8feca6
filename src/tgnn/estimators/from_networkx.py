"""NetworkX graphs, whose nodes, edges and graph keep what is known of them in attributes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from tgnn.estimators.arrays import as_edge_index, as_edge_weight, as_features


@dataclass(frozen=True)
class Attributes:
    """Under which names a NetworkX graph keeps what.

    Args:
        x: Attribute of the nodes that is their features, or several that are its columns.
        y: Attribute that is the target.
        weight: Attribute of edges; ``None``: all weigh the same.
        level: Whether nodes (``"node"``) or the whole graph (``"graph"``) have the target.
        needs_x: Whether a graph without features is an error.
    """

    x: str | Sequence[str] = "x"
    y: str = "y"
    weight: str | None = None
    level: str = "node"
    needs_x: bool = True


def is_networkx(thing: Any) -> bool:
    """Whether it is a NetworkX graph, without importing it: whoever has such a graph has done so."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(thing, networkx.Graph)


def from_networkx(graph: Any, names: Attributes) -> tuple[Data, Any]:
    """The graph and its targets. Nodes are numbered in the order of ``graph.nodes``; undirected edges go both ways.

    Args:
        graph: Of NetworkX, of any kind.
        names: Of attributes.

    Example:
        >>> import networkx
        >>> path = networkx.path_graph(3)
        >>> networkx.set_node_attributes(path, {0: [1.0], 1: [0.0], 2: [1.0]}, "x")
        >>> from_networkx(path, Attributes())
        (Data(x=[3, 1], edge_index=[2, 4]), None)
    """
    columns = [names.x] if isinstance(names.x, str) else list(names.x)
    has = names.needs_x or any(name in attributes for _, attributes in graph.nodes(data=True) for name in columns)
    edge_index, weight = _edges(graph, names.weight)
    data = Data(x=_features(graph, columns) if has else None, edge_index=as_edge_index(edge_index, len(graph)))
    if not has:
        data.num_nodes = len(graph)
    if weight is not None:
        data.edge_weight = as_edge_weight(weight, len(weight))
    return data, _target(graph, names)


def _features(graph: Any, columns: list[str]) -> Tensor:
    rows = []
    for node, attributes in graph.nodes(data=True):
        if missing := [name for name in columns if name not in attributes]:
            there = ", ".join(map(repr, attributes)) or "none"
            way_out = "set x_attribute" if attributes else f"give it one, such as graph.nodes[{node!r}]['x'] = [degree]"
            raise ValueError(f"node {node!r} has no attribute {missing[0]!r}, it has {there}: {way_out}")
        rows.append(np.concatenate([np.atleast_1d(np.asarray(attributes[name])) for name in columns]))
    if len(shapes := {row.shape for row in rows}) > 1:
        raise ValueError(f"nodes have features of different shapes: {sorted(shapes)}")
    return as_features(np.stack(rows) if rows else np.empty((0, len(columns))))


def _edges(graph: Any, attribute: str | None) -> tuple[np.ndarray, np.ndarray | None]:
    """In the order of a matrix, row by row: the same as those of an adjacency matrix."""
    number = {node: place for place, node in enumerate(graph)}
    found = graph.edges(data=attribute, default=1.0) if attribute else ((*edge, 1.0) for edge in graph.edges())
    ends = [(number[u], number[v], weight) for u, v, weight in found]
    if not graph.is_directed():
        ends += [(v, u, weight) for u, v, weight in ends if u != v]
    ends.sort(key=lambda edge: edge[:2])
    edge_index = np.array([edge[:2] for edge in ends], dtype=np.int64).reshape(-1, 2).T
    return edge_index, np.array([edge[2] for edge in ends], dtype=np.float32) if attribute else None


def _target(graph: Any, names: Attributes) -> Any:
    """A node without one has ``None``."""
    if names.level == "graph":
        return graph.graph.get(names.y)
    found = [attributes.get(names.y) for _, attributes in graph.nodes(data=True)]
    return None if all(value is None for value in found) else found
