"""Checks of graphs in memory: edges, weights, features and labels."""

from __future__ import annotations

import copy

import numpy as np
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.validation.report import Finding, Locations
from tgnn.data.validation.value_checks import (
    check_edge_weights,
    check_feature_values,
    check_labels,
    duplicate_mask,
)


def check_graph(data: Data) -> list[Finding]:
    """Check a single graph. Locations are node and edge indices.

    Args:
        data: Graph with any of ``edge_index``, ``edge_weight``, ``edge_attr``, ``x`` (dense or sparse CSR) and ``y``.

    Example:
        >>> import torch
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 1]]), y=torch.tensor([0, 0, 1]), num_nodes=3)
        >>> for finding in check_graph(data):
        ...     print(finding.level, finding.code, finding.locations)
        note self-loop (1,)
        note isolated-node (2,)
        note no-features ()
        warning single-member ()
    """
    data = copy.copy(data).cpu()
    nodes, edges = Locations(unit="node"), Locations(unit="edge")
    findings = []
    if data.edge_index is not None:
        edge_index = data.edge_index.numpy()
        outside = ((edge_index < 0) | (edge_index >= data.num_nodes)).any(0)
        if outside.any():
            worst = edge_index[:, outside][:, 0]
            node = worst[(worst < 0) | (worst >= data.num_nodes)][0]
            message = f"`edge_index` contains node {node}, but the graph has {data.num_nodes} nodes"
            return [edges.finding("error", "dangling-id", message, outside)]
        findings += check_edges(edge_index, int(data.num_nodes), edges, nodes)
    if data.get("edge_weight") is not None:
        findings += check_edge_weights(data.edge_weight.numpy(), edges)
    if data.get("edge_attr") is not None:
        findings += check_feature_values(data.edge_attr, edges, what="edge feature")
    if data.x is None:
        findings.append(nodes.finding("note", "no-features", "the nodes have no features"))
    else:
        findings += check_feature_values(data.x, nodes)
    return findings if data.y is None else findings + check_labels(data.y, nodes)


def check_graphs(graphs: GraphDataset) -> list[Finding]:
    """Check many graphs without a loop over graphs. Locations are graph indices.

    Args:
        graphs: The graphs to check.

    Example:
        >>> arrays = {"num_nodes": [2, 0], "num_edges": [1, 0], "edge_index": [[0], [0]], "y": [0, 1]}
        >>> for finding in check_graphs(GraphDataset(arrays)):
        ...     print(finding.level, finding.code, finding.locations)
        warning empty-graph (1,)
        note self-loop (0,)
        note isolated-node (0,)
        note no-features ()
        warning single-member ()
    """
    per_graph, sizes = Locations(unit="graph"), graphs.num_nodes.numpy()
    findings = []
    if (sizes == 0).any():
        findings.append(per_graph.finding("warning", "empty-graph", "the graph has no nodes", sizes == 0))
    per_node = _graph_locations(np.repeat(np.arange(len(sizes)), sizes))
    if graphs.edge_index is not None:
        graph_of_edge = np.repeat(np.arange(len(sizes)), graphs.num_edges.numpy())
        per_edge = _graph_locations(graph_of_edge)
        first_node = np.cumsum(sizes) - sizes
        edge_index = graphs.edge_index.numpy() + first_node[graph_of_edge]
        if not graphs.directed:  # an edge and its reverse are then the same
            edge_index = np.sort(edge_index, axis=0)
        findings += check_edges(edge_index, int(sizes.sum()), per_edge, per_node)
        if graphs.edge_weight is not None:
            findings += check_edge_weights(graphs.edge_weight.numpy(), per_edge)
        if graphs.edge_attr is not None:
            findings += check_feature_values(graphs.edge_attr, per_edge, what="edge feature")
    if graphs.x is None:
        findings.append(per_graph.finding("note", "no-features", "the nodes have no features"))
    else:
        findings += check_feature_values(graphs.x, per_node)
    return findings if graphs.y is None else findings + check_labels(graphs.y, per_graph)


def check_edges(edge_index: np.ndarray, num_nodes: int, edges: Locations, nodes: Locations) -> list[Finding]:
    """Report self-loops, duplicate edges and isolated nodes."""
    source, target = edge_index
    findings = []
    if (loops := source == target).any():
        message = "self-loop; tGNN includes each node in its own neighborhood anyway"
        findings.append(edges.finding("note", "self-loop", message, loops))
    if (duplicates := duplicate_mask(target * num_nodes + source)) is not None:
        message = "duplicate edge; the product then contains its source node more than once"
        findings.append(edges.finding("warning", "duplicate-edge", message, duplicates))
    return findings + check_isolated_nodes(edge_index, num_nodes, nodes)


def check_isolated_nodes(edge_index: np.ndarray, num_nodes: int, nodes: Locations) -> list[Finding]:
    """Report nodes without edges to other nodes."""
    isolated = np.ones(num_nodes, dtype=bool)
    source, target = edge_index
    if (loops := source == target).any():
        source, target = source[~loops], target[~loops]
    isolated[source] = isolated[target] = False
    if not isolated.any():
        return []
    message = "isolated node; its prediction depends on its own features only"
    return [nodes.finding("note", "isolated-node", message, isolated)]


def _graph_locations(graph_index: np.ndarray) -> Locations:
    """Locate nodes or edges by the graph that they belong to."""
    return Locations(unit="graph", numbers=lambda positions: graph_index[positions], merged=True)
