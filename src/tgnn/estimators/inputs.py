"""Convert graphs in any supported form to a new PyG ``Data`` or ``GraphDataset``. The input is never changed."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import from_scipy_sparse_matrix

from tgnn.data.graph_dataset import GraphDataset, pack
from tgnn.data.tables.edges import add_reverse_edges
from tgnn.data.tables.frames import is_frame, to_polars
from tgnn.data.tensors import as_positions, csr, torch_csr
from tgnn.data.validation.checks import check_edge_weights
from tgnn.data.validation.report import Reporter, ValidationReport
from tgnn.estimators.preprocessing import Preprocessor


@dataclass(frozen=True)
class NetworkXAttributes:
    """Names of the attributes of a NetworkX graph.

    Args:
        x: Node attribute with the features, or several attributes to concatenate.
        y: Attribute with the target.
        weight: Edge attribute with the edge weight. ``None`` ignores weights.
        level: ``"node"`` if the nodes have the target, ``"graph"`` if the graph has it.
        undirected: Whether to add the reverse of every edge that does not have one.
        needs_x: Whether the model needs node features.
    """

    x: str | Sequence[str] = "x"
    y: str = "y"
    weight: str | None = None
    level: str = "node"
    undirected: bool = True
    needs_x: bool = True


# ---- one graph -------------------------------------------------------------------------------------------------


def is_graph(value: Any) -> bool:
    """Return whether an object is a single graph, not an array or a list of graphs."""
    return isinstance(value, Data) or _is_networkx(value) or (isinstance(value, tuple) and len(value) == 2)


def _is_networkx(value: Any) -> bool:
    """Return whether an object is a NetworkX graph, without importing NetworkX."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(value, networkx.Graph)


def to_data(graph: Any, names: NetworkXAttributes, preprocessor: Preprocessor | None = None) -> tuple[Data, Any]:
    """Return a graph as ``Data``, and its targets as given by the user (``None`` if it has none).

    The graph is a ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` with a SciPy sparse matrix, or a NetworkX graph.
    ``X`` is an array or a data frame. Without a preprocessor, features are not encoded.
    """
    if isinstance(graph, Data):
        return _finish(_from_data(graph, names), names, preprocessor), graph.get("y")
    if _is_networkx(graph):
        return _finish(_from_networkx(graph, names), names, preprocessor), _networkx_target(graph, names)
    if not is_graph(graph):
        raise TypeError(
            f"a graph must be a torch_geometric Data, a tuple (X, edge_index) or (X, adjacency), or a NetworkX graph, "
            f"got {type(graph).__name__}"
        )
    is_encoded = is_frame(graph[0]) and preprocessor is not None
    x = preprocessor.encode_frame(graph[0]) if is_encoded and preprocessor else to_features(graph[0])
    edges = graph[1]
    if scipy.sparse.issparse(edges):
        edge_index, weight = from_adjacency(edges, x.size(0))
        data = Data(x=x, edge_index=edge_index, edge_weight=weight)
    else:
        data = Data(x=x, edge_index=to_edge_index(edges, x.size(0)))
    return _finish(data, names, preprocessor, is_encoded), None


def _finish(data: Data, names: NetworkXAttributes, preprocessor: Preprocessor | None, is_encoded: bool = False) -> Data:
    """Add missing reverse edges, and scale the features of one graph."""
    if names.undirected:
        edge_index, rows = add_reverse_edges(data.edge_index.numpy(), int(data.num_nodes or 0))
        if rows is not None:
            data.edge_index = torch.from_numpy(edge_index)
            for name in ("edge_weight", "edge_attr"):
                if data.get(name) is not None:
                    data[name] = data[name][torch.from_numpy(rows)]
    if preprocessor is not None:
        if data.x is not None and not is_encoded:
            data.x = preprocessor.scale(data.x)
            check_finite(data.x, "X")
        preprocessor.finish(data)
    return data


def drop_unit_weights(data: Data | GraphDataset) -> Data | GraphDataset:
    """Remove the edge weights of a graph, in place, if all of them are 1. A ``GraphDataset`` has none."""
    if isinstance(data, Data) and data.edge_weight is not None and bool((data.edge_weight == 1).all()):
        del data.edge_weight
    return data


def _from_data(data: Data, names: NetworkXAttributes) -> Data:
    if data.edge_index is None:
        raise ValueError("the graph has no edge_index: use an empty one of shape [2, 0] for a graph without edges")
    x = None if data.x is None else to_features(data.x)
    num_nodes = int(data.num_nodes) if x is None else x.size(0)
    edge_index = to_edge_index(data.edge_index, num_nodes)
    result = Data(x=x, edge_index=edge_index, num_nodes=num_nodes if x is None else None)
    if (weight := data.get("edge_weight")) is not None:
        result.edge_weight = to_edge_weight(weight, edge_index.size(1))
    if (features := data.get("edge_attr")) is not None:
        result.edge_attr = to_edge_features(features, edge_index.size(1))
    if names.level == "graph" and (pos := data.get("pos")) is not None:  # no node-level model uses positions
        result.pos = to_positions(pos, num_nodes)
    return result


# ---- a list of graphs ------------------------------------------------------------------------------------------


def to_graph_dataset(
    graphs: Any, names: NetworkXAttributes, preprocessor: Preprocessor
) -> tuple[GraphDataset, list[Any] | Tensor | None]:
    """Return a ``GraphDataset`` or a sequence of graphs as a new ``GraphDataset``, and their targets, if any."""
    dataset, targets = _pack(graphs, names)
    if dataset.x is not None and not dataset.num_categorical:
        dataset.x = preprocessor.scale(dataset.x)
        check_finite(dataset.x, "X")
    preprocessor.finish(dataset)
    return dataset, targets


def _pack(graphs: Any, names: NetworkXAttributes) -> tuple[GraphDataset, list[Any] | Tensor | None]:
    if not isinstance(graphs, GraphDataset):
        if is_graph(graphs) and not (isinstance(graphs, tuple) and is_graph(graphs[0])):
            raise TypeError("X is one graph, but must be a list of graphs: use [graph]")
        if isinstance(graphs, (str, bytes)) or not hasattr(graphs, "__len__") or not hasattr(graphs, "__getitem__"):
            raise TypeError(f"X must be a sequence of graphs, got {type(graphs).__name__}")
    if len(graphs) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X has no graphs")
    if isinstance(graphs, GraphDataset):
        return _shallow_copy(graphs), graphs.y
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
    if graphs.edge_index is None:
        raise ValueError("the graphs have no edges")
    if graphs.x is not None:
        check_finite(graphs.x, "X", allow_nan=True)
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
    if data.x is not None:
        graph["x"] = data.x.to_dense() if data.x.layout == torch.sparse_csr else data.x
    else:
        graph["num_nodes"] = data.num_nodes
    graph |= {name: data[name] for name in ("edge_attr", "pos") if data.get(name) is not None}
    first = graph if first is None else first
    for name, noun in (("x", "features"), ("edge_attr", "edge features"), ("pos", "position coordinates")):
        if (name in first) != (name in graph):
            difference = f"no {name}" if name in first else name
            raise ValueError(f"it has {difference}, unlike graph 0: all graphs must have the same attributes")
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


# ---- NetworkX --------------------------------------------------------------------------------------------------


def _from_networkx(graph: Any, names: NetworkXAttributes) -> Data:
    """Return a NetworkX graph as ``Data``. Nodes are indexed in the order of ``graph.nodes``.

    An undirected edge becomes two directed ones. ``torch_geometric.utils.from_networkx`` gives the same tensors, up to
    the order of edges. It is not used, because it rejects graphs in which only some nodes have a label, its errors do
    not name the node, and it is 8 times as slow (1.0 s instead of 0.12 s for 5,000 nodes and 50,000 edges).
    """
    columns = [names.x] if isinstance(names.x, str) else list(names.x)
    used = {name for _, attributes in graph.nodes(data=True) for name in attributes} - {names.y}
    has_x = bool(used.intersection(columns)) or (names.needs_x and bool(used))  # an error names the missing attribute
    edges = graph.edges(data=names.weight, default=1.0) if names.weight else ((*edge, 1.0) for edge in graph.edges())
    index = {node: position for position, node in enumerate(graph)}
    triples = [(index[u], index[v], weight) for u, v, weight in edges]
    if not graph.is_directed():
        triples += [(v, u, weight) for u, v, weight in triples if u != v]
    triples.sort(key=lambda edge: edge[:2])  # the order of an adjacency matrix
    edge_index = np.array([edge[:2] for edge in triples], dtype=np.int64).reshape(-1, 2).T
    data = Data(
        x=_networkx_features(graph, columns) if has_x else None,
        edge_index=to_edge_index(edge_index, len(graph)),
        num_nodes=None if has_x else len(graph),
    )
    if names.weight:
        weights = np.array([edge[2] for edge in triples], dtype=np.float32)
        data.edge_weight = to_edge_weight(weights, len(weights))
    return data


def _networkx_features(graph: Any, columns: list[str]) -> Tensor:
    rows = []
    for node, attributes in graph.nodes(data=True):
        if missing := [name for name in columns if name not in attributes]:
            existing = ", ".join(map(repr, attributes)) or "none"
            advice = "set x_attribute" if attributes else f"set one, such as graph.nodes[{node!r}]['x'] = [degree]"
            raise ValueError(f"node {node!r} has no attribute {missing[0]!r} (it has {existing}): {advice}")
        rows.append(np.concatenate([np.atleast_1d(np.asarray(attributes[name])) for name in columns]))
    if len(shapes := {row.shape for row in rows}) > 1:
        raise ValueError(f"the features of all nodes must have the same shape, got {sorted(shapes)}")
    return to_features(np.stack(rows) if rows else np.empty((0, len(columns))))


def _networkx_target(graph: Any, names: NetworkXAttributes) -> Any:
    """Return the target of the graph, or those of the nodes with ``None`` for unlabeled nodes."""
    if names.level == "graph":
        return graph.graph.get(names.y)
    targets = [attributes.get(names.y) for _, attributes in graph.nodes(data=True)]
    return None if all(target is None for target in targets) else targets


# ---- features and edges from NumPy, SciPy, torch or lists --------------------------------------------------------


def to_features(x: Any, name: str = "X") -> Tensor:
    """Return node features ``[N, F]`` as float32, dense or CSR. Integer torch tensors are categories: int64."""
    features = _from_torch(x) if isinstance(x, Tensor) else _from_array(x, name)
    if not features.is_floating_point() and features.dim() == 1:
        features = features.unsqueeze(1)
    if features.dim() != 2:
        raise ValueError(f"Expected 2D array with one row per node, got {name} of shape {list(features.shape)}")
    if features.size(1) == 0:
        raise ValueError(f"{name} has 0 feature(s), while a minimum of 1 is required")
    check_finite(features, name, allow_nan=True)
    return features


def check_finite(x: Tensor, name: str, allow_nan: bool = False) -> None:
    """Raise a ``ValueError`` for NaN, infinity or a negative category."""
    values = x.values() if x.layout == torch.sparse_csr else x
    if not values.is_floating_point():
        if values.numel() and int(values.min()) < 0:
            raise ValueError(f"{name} contains category {int(values.min())}, but categories must be 0 or larger")
    elif not allow_nan and bool(values.isnan().any()):
        raise ValueError(f"Input {name} contains NaN.")
    elif bool(values.isinf().any()):
        raise ValueError(f"Input {name} contains infinity or a value too large for float32.")


def to_edge_index(edges: Any, num_nodes: int) -> Tensor:
    """Return edges as int64 ``[2, E]``, after checking that all nodes exist. A data frame has a row per edge."""
    edges = to_polars(edges).to_numpy().T.copy() if is_frame(edges) else edges
    edge_index = _to_tensor(edges if isinstance(edges, Tensor) else as_positions(np.asarray(edges), num_nodes))
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            "edge_index must have shape [2, E] (source and destination nodes), or be a data frame of two columns, "
            f"got {list(edge_index.shape)}"
        )
    if edge_index.numel():
        if edge_index.dtype == torch.bool or not torch.can_cast(edge_index.dtype, torch.int64):
            raise ValueError(f"edge_index must contain integers, got {edge_index.dtype}")
        edge_index = edge_index.long()
        low, high = (int(node) for node in torch.aminmax(edge_index.as_subclass(Tensor)))
        if low < 0 or high >= num_nodes:
            node = low if low < 0 else high
            raise ValueError(
                f"edge_index contains node {node}, but the graph has {num_nodes} nodes (0 to {num_nodes - 1})"
            )
    return edge_index.long()


def from_adjacency(adjacency: Any, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the edges and edge weights of a SciPy sparse adjacency matrix. Entry (i, j) is an edge from i to j."""
    if adjacency.shape != (num_nodes, num_nodes):
        raise ValueError(f"the adjacency matrix has shape {list(adjacency.shape)}, but the graph has {num_nodes} nodes")
    matrix = adjacency.tocsr(copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    edge_index, weight = from_scipy_sparse_matrix(matrix)
    return edge_index, to_edge_weight(weight, matrix.nnz)


def to_edge_weight(weight: Any, num_edges: int) -> Tensor:
    """Return edge weights as float32 ``[E]``. They must be between 0 and 1."""
    edge_weight = _to_tensor(weight).float().reshape(-1)
    if edge_weight.numel() != num_edges:
        raise ValueError(f"edge_weight has {edge_weight.numel()} entries, but the graph has {num_edges} edges")
    check_finite(edge_weight, "edge_weight")
    report = ValidationReport("", "")
    check_edge_weights(edge_weight.numpy(), Reporter(report))
    for finding in report.findings:
        raise ValueError(finding.message)
    return edge_weight


def to_edge_features(values: Any, num_edges: int) -> Tensor:
    """Return edge features ``[E, D]``: float32, or int64 for categories."""
    edge_attr = _to_tensor(values)
    if len(edge_attr) != num_edges:
        raise ValueError(f"edge_attr has {len(edge_attr)} rows, but the graph has {num_edges} edges")
    edge_attr = edge_attr.reshape(num_edges, -1) if num_edges else edge_attr.reshape(0, *edge_attr.shape[1:] or (1,))
    is_numeric = edge_attr.is_floating_point() or edge_attr.dtype == torch.bool
    edge_attr = edge_attr.float() if is_numeric else edge_attr.long()
    check_finite(edge_attr, "edge_attr")
    return edge_attr


def to_positions(values: Any, num_nodes: int) -> Tensor:
    """Return node positions as float32 ``[N, D]``."""
    pos = _to_tensor(values)
    if pos.dim() != 2 or pos.size(0) != num_nodes:
        raise ValueError(f"pos must have shape [{num_nodes}, D], one row per node, got {list(pos.shape)}")
    check_finite(pos.float(), "pos")
    return pos.float()


def _to_tensor(values: Any) -> Tensor:
    return values.detach().cpu() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))


def _from_torch(x: Tensor) -> Tensor:
    x = x.detach().cpu()
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
        values_and_indices = (x.values().numpy(), tuple(x.indices().numpy()))
        return torch_csr(scipy.sparse.coo_matrix(values_and_indices, shape=tuple(x.shape)).tocsr())
    if x.layout == torch.sparse_csr:
        return x if x.dtype == torch.float32 else csr(x.crow_indices(), x.col_indices(), x.values().float(), x.shape)
    if x.is_complex():
        raise ValueError("Complex data not supported")
    return x.float() if x.is_floating_point() or x.dtype == torch.bool else x.long()


def _from_array(x: Any, name: str) -> Tensor:
    if scipy.sparse.issparse(x):
        return torch_csr(x.tocsr())
    array = np.asarray(x)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.dtype.kind in "USmM":
        raise ValueError(f"{name} must contain numbers, got {array.dtype}: encode strings first, for example one-hot")
    try:
        with np.errstate(over="ignore"):  # too large values become infinity, which check_finite reports
            return torch.from_numpy(np.array(array, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must contain numbers: {error}") from error
