"""What is odd in a graph that is already in memory, whatever file it came from."""

from __future__ import annotations

import copy

import numpy as np
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.validation.report import Finding, Places
from tgnn.data.validation.value_checks import check_features, check_labels, check_weights, repeated


def check_graph(data: Data) -> list[Finding]:
    """Everything odd in one graph; places are numbers of nodes and of edges.

    Args:
        data: With any of ``edge_index``, ``edge_weight``, ``edge_attr``, ``x`` (dense or CSR), ``y``.

    Example:
        >>> import torch
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 1]]), y=torch.tensor([0, 0, 1]), num_nodes=3)
        >>> for finding in check_graph(data):
        ...     print(finding.level, finding.code, finding.places)
        note self-loop (1,)
        note isolated-node (2,)
        note no-features ()
        warning single-member ()
    """
    data = copy.copy(data).cpu()
    nodes, edges = Places(unit="node"), Places(unit="edge")
    found = []
    if data.edge_index is not None:
        edge_index = data.edge_index.numpy()
        outside = ((edge_index < 0) | (edge_index >= data.num_nodes)).any(0)
        if outside.any():
            text = f"a node number outside of 0 to {data.num_nodes - 1}"
            return [edges.finding("error", "dangling-id", text, outside)]
        found += check_edges(edge_index, int(data.num_nodes), edges, nodes)
    if data.get("edge_weight") is not None:
        found += check_weights(data.edge_weight.numpy(), edges)
    if data.get("edge_attr") is not None:
        found += check_features(data.edge_attr, edges, what="edge feature")
    if data.x is None:
        found.append(nodes.finding("note", "no-features", "the nodes have no features"))
    else:
        found += check_features(data.x, nodes)
    return found if data.y is None else found + check_labels(data.y, nodes)


def check_graphs(graphs: GraphDataset) -> list[Finding]:
    """Everything odd in many graphs; places are numbers of graphs. Nothing loops over them.

    Args:
        graphs: As read.

    Example:
        >>> arrays = {"num_nodes": [2, 0], "num_edges": [1, 0], "edge_index": [[0], [0]], "y": [0, 1]}
        >>> for finding in check_graphs(GraphDataset(arrays)):
        ...     print(finding.level, finding.code, finding.places)
        warning empty-graph (1,)
        note self-loop (0,)
        note isolated-node (0,)
        note no-features ()
        warning single-member ()
    """
    places, sizes = Places(unit="graph"), graphs.num_nodes.numpy()
    found = []
    if (sizes == 0).any():
        found.append(places.finding("warning", "empty-graph", "a graph without nodes", sizes == 0))
    of_node = _of_graphs(np.repeat(np.arange(len(sizes)), sizes))
    if graphs.edge_index is not None:
        owner = np.repeat(np.arange(len(sizes)), graphs.num_edges.numpy())
        first = np.cumsum(sizes) - sizes
        edge_index = graphs.edge_index.numpy() + first[owner]
        if not graphs.directed:  # an edge and its reverse are then the same
            edge_index = np.sort(edge_index, axis=0)
        found += check_edges(edge_index, int(sizes.sum()), _of_graphs(owner), of_node)
        if graphs.edge_weight is not None:
            found += check_weights(graphs.edge_weight.numpy(), _of_graphs(owner))
        if graphs.edge_attr is not None:
            found += check_features(graphs.edge_attr, _of_graphs(owner), what="edge feature")
    if graphs.x is None:
        found.append(places.finding("note", "no-features", "the nodes have no features"))
    else:
        found += check_features(graphs.x, of_node)
    return found if graphs.y is None else found + check_labels(graphs.y, places)


def check_edges(edge_index: np.ndarray, num_nodes: int, edges: Places, nodes: Places) -> list[Finding]:
    """Loops, edges that are there twice, nodes without any."""
    source, target = edge_index
    found = []
    if (loops := source == target).any():
        text = "an edge from a node to itself; tGNN counts a node among its neighbours anyway"
        found.append(edges.finding("note", "self-loop", text, loops))
    if (again := repeated(target * num_nodes + source)) is not None:
        text = "an edge that is there already; its source is then multiplied twice"
        found.append(edges.finding("warning", "duplicate-edge", text, again))
    return found + isolated(edge_index, num_nodes, nodes)


def isolated(edge_index: np.ndarray, num_nodes: int, nodes: Places) -> list[Finding]:
    """Nodes that no other is linked to."""
    alone = np.ones(num_nodes, dtype=bool)
    source, target = edge_index
    if (loops := source == target).any():
        source, target = source[~loops], target[~loops]
    alone[source] = alone[target] = False
    if not alone.any():
        return []
    return [nodes.finding("note", "isolated-node", "a node without edges: it is learned from its own features", alone)]


def _of_graphs(owner: np.ndarray) -> Places:
    return Places(unit="graph", numbers=lambda rows: owner[rows], merged=True)
