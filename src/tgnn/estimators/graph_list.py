"""Convert a list of graphs in any supported form to a new ``GraphDataset``. The input is never changed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset, pack
from tgnn.estimators.arrays import check_finite
from tgnn.estimators.from_networkx import NetworkXAttributes
from tgnn.estimators.single_graph import drop_unit_weights, is_graph, to_data


def to_graph_dataset(graphs: Any, names: NetworkXAttributes) -> tuple[GraphDataset, list[Any] | Tensor | None]:
    """Return graphs as a ``GraphDataset``, and their targets as given by the user (``None`` if they have none).

    Args:
        graphs: ``GraphDataset``, or a sequence of graphs as :func:`~tgnn.estimators.single_graph.to_data` takes them.
        names: Names of NetworkX attributes.

    Example:
        >>> pair = (np.ones((3, 2)), [[0, 1], [1, 2]])
        >>> to_graph_dataset([pair, pair], NetworkXAttributes())
        (GraphDataset(2 graphs, 6 nodes), None)
    """
    if isinstance(graphs, GraphDataset):
        return _shallow_copy(graphs), graphs.y
    if is_graph(graphs) and not (isinstance(graphs, tuple) and is_graph(graphs[0])):
        raise TypeError("X is one graph, but must be a list of graphs: use [graph]")
    if isinstance(graphs, (str, bytes)) or not hasattr(graphs, "__len__") or not hasattr(graphs, "__getitem__"):
        raise TypeError(f"X must be a sequence of graphs, got {type(graphs).__name__}")
    if len(graphs) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X has no graphs")
    by_position = getattr(graphs, "iloc", graphs)  # [i] of a pandas Series selects by label
    packed: list[dict[str, Tensor]] = []
    targets: list[Any] = []
    for index in range(len(graphs)):
        try:
            data, y = to_data(by_position[index], names)
            packed.append(_to_tensors(drop_unit_weights(data), packed[0] if packed else None))
            targets.append(_to_scalar(y))
        except (TypeError, ValueError) as error:
            error_type = TypeError if isinstance(error, TypeError) else ValueError
            raise error_type(f"graph {index} of X: {error}") from error
    return pack(packed), None if all(y is None for y in targets) else targets


def _shallow_copy(graphs: GraphDataset) -> GraphDataset:
    """Return a copy that shares its tensors, but can be given other targets."""
    if graphs.x is None:
        raise ValueError("the graphs have no node features x: add degrees with tgnn.data.transforms.with_degrees")
    if graphs.edge_index is None:
        raise ValueError("the graphs have no edges")
    if not len(graphs):
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X has no graphs")
    check_finite(graphs.x, "X")
    if graphs.edge_attr is not None:
        check_finite(graphs.edge_attr, "edge_attr")
    return copy.copy(graphs)


def _to_tensors(data: Data, first: dict[str, Tensor] | None) -> dict[str, Tensor]:
    """Return the tensors of a graph, after checking that it has the same features as the first graph."""
    if data.get("edge_weight") is not None:
        raise ValueError(
            "it has edge weights, which graph-level estimators do not support: use edge_attr of shape [E, 1] instead"
        )
    graph = {"edge_index": data.edge_index, "y": torch.zeros(1)}
    graph["x"] = data.x.to_dense() if data.x.layout == torch.sparse_csr else data.x
    graph |= {name: data[name] for name in ("edge_attr", "pos") if data.get(name) is not None}
    if first is None:
        return graph
    for name in ("edge_attr", "pos"):
        if (name in first) != (name in graph):
            difference = f"no {name}" if name in first else name
            raise ValueError(f"it has {difference}, unlike graph 0: all graphs must have the same attributes")
    for name, noun in (("x", "features"), ("edge_attr", "edge features"), ("pos", "position coordinates")):
        if name in graph:
            one, other = first[name], graph[name]
            if one.size(1) != other.size(1):
                raise ValueError(f"it has {other.size(1)} {noun}, but graph 0 has {one.size(1)}")
            if one.is_floating_point() != other.is_floating_point():
                raise ValueError(f"its {noun} are {other.dtype}, but those of graph 0 are {one.dtype}")
    return graph


def _to_scalar(y: Any) -> Any:
    """Return the target of one graph, which may be an array or tensor of one element."""
    if y is None or isinstance(y, str):
        return y
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.size != 1:
        raise ValueError(f"its y has {values.size} values, but must have one")
    return values.reshape(-1).tolist()[0]
