"""Many graphs, in any form that an estimator takes, as packed graphs of our own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset, pack
from tgnn.estimators.arrays import check_finite
from tgnn.estimators.from_networkx import Attributes
from tgnn.estimators.inputs import as_graph, is_graph, unweighted_if_whole


def as_graphs(things: Any, names: Attributes) -> tuple[GraphDataset, list[Any] | Tensor | None]:
    """The graphs, and their targets as the user has them (``None``: they have none).

    Args:
        things: ``GraphDataset``, or a sequence of anything that :func:`~tgnn.estimators.inputs.as_graph` takes.
        names: Of attributes, for NetworkX.

    Example:
        >>> pair = (np.ones((3, 2)), [[0, 1], [1, 2]])
        >>> as_graphs([pair, pair], Attributes())
        (GraphDataset(2 graphs, 6 nodes), None)
    """
    if isinstance(things, GraphDataset):
        return _own(things), things.y
    if is_graph(things) and not (isinstance(things, tuple) and is_graph(things[0])):
        raise TypeError("X is one graph, but must be a list of graphs: put it into a list")
    if isinstance(things, (str, bytes)) or not hasattr(things, "__len__") or not hasattr(things, "__getitem__"):
        raise TypeError(f"X must be a sequence of graphs, got {type(things).__name__}")
    if len(things) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X has no graphs")
    by_place = getattr(things, "iloc", things)  # of pandas: numbers may be labels there
    graphs: list[dict[str, Tensor]] = []
    targets: list[Any] = []
    for number in range(len(things)):
        try:
            data, y = as_graph(by_place[number], names)
            graphs.append(_as_first(unweighted_if_whole(data), graphs[0] if graphs else None))
            targets.append(_target(y))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"graph {number} of X: {error}") from error
    return pack(graphs), None if all(y is None for y in targets) else targets


def _own(graphs: GraphDataset) -> GraphDataset:
    """A copy that may be given other targets; its arrays are shared."""
    if graphs.x is None:
        raise ValueError("the graphs have no node features x; tgnn.data.transforms.with_degrees gives them degrees")
    if graphs.edge_index is None:
        raise ValueError("the graphs have no edges")
    if not len(graphs):
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X has no graphs")
    check_finite(graphs.x, "X")
    if graphs.edge_attr is not None:
        check_finite(graphs.edge_attr, "edge_attr")
    return copy.copy(graphs)


def _as_first(data: Data, first: dict[str, Tensor] | None) -> dict[str, Tensor]:
    """One graph to be packed, if it is of the same kind as the first."""
    if data.get("edge_weight") is not None:
        raise ValueError(
            "it has weights of edges, which estimators of graphs do not take: put them into edge_attr, [E, 1]"
        )
    graph = {"edge_index": data.edge_index, "y": torch.zeros(1)}
    graph["x"] = data.x.to_dense() if data.x.layout == torch.sparse_csr else data.x
    graph |= {name: data[name] for name in ("edge_attr", "pos") if data.get(name) is not None}
    if first is None:
        return graph
    for name in ("edge_attr", "pos"):
        if (name in first) != (name in graph):
            raise ValueError(f"it has {'no ' if name in first else ''}{name}, unlike graph 0: all must, or none")
    for name, what in (("x", "features"), ("edge_attr", "edge features"), ("pos", "numbers in pos")):
        if name in graph:
            one, other = first[name], graph[name]
            if one.size(1) != other.size(1):
                raise ValueError(f"it has {other.size(1)} {what}, but graph 0 has {one.size(1)}")
            if one.is_floating_point() != other.is_floating_point():
                raise ValueError(f"its {what} are {other.dtype}, but those of graph 0 are {one.dtype}")
    return graph


def _target(y: Any) -> Any:
    """Of one graph: a value, perhaps wrapped in an array."""
    if y is None or isinstance(y, str):
        return y
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.size != 1:
        raise ValueError(f"its y has {values.size} values, but one is needed")
    return values.reshape(-1).tolist()[0]
