"""Checks of graphs: edges, weights, features and labels."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import polars as pl
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.validation.report import Finding, Locations, subject

LARGE = 100.0
"""Features with a larger absolute value are reported."""
_LIKE_IDS = 0.5
"""If a larger fraction of the labels is distinct, they are probably ids or numbers and not classes."""


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
    edge_index = None if data.edge_index is None else data.edge_index.numpy()
    if edge_index is not None:
        outside = (edge_index < 0) | (edge_index >= data.num_nodes)
        if outside.any():
            node = edge_index.T[outside.T][0]  # of the first such edge
            message = f"`edge_index` contains node {node}, but the graph has {data.num_nodes} nodes"
            return [edges.finding("error", "dangling-id", message, outside.any(0))]
    return _check(data, edge_index, int(data.num_nodes or 0), edges, nodes, nodes)


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
    graph_of_edge = np.repeat(np.arange(len(sizes)), graphs.num_edges.numpy())
    edge_index = None
    if graphs.edge_index is not None:
        edge_index = graphs.edge_index.numpy() + (np.cumsum(sizes) - sizes)[graph_of_edge]
        if not graphs.directed:  # an edge and its reverse are then the same
            edge_index = np.sort(edge_index, axis=0)
    findings = []
    if (sizes == 0).any():
        findings.append(per_graph.finding("warning", "empty-graph", "the graph has no nodes", sizes == 0))
    per_edge, per_node = (
        Locations(unit="graph", numbers=graph_index.__getitem__, merged=True)
        for graph_index in (graph_of_edge, np.repeat(np.arange(len(sizes)), sizes))
    )
    return findings + _check(graphs, edge_index, int(sizes.sum()), per_edge, per_node, per_graph)


def _check(
    data: Data | GraphDataset,
    edge_index: np.ndarray | None,
    num_nodes: int,
    edges: Locations,
    nodes: Locations,
    examples: Locations,
) -> list[Finding]:
    findings = []
    if edge_index is not None:
        findings += check_edges(edge_index, num_nodes, edges, nodes)
    if (weight := getattr(data, "edge_weight", None)) is not None:
        findings += check_edge_weights(weight.numpy(), edges)
    if (edge_attr := getattr(data, "edge_attr", None)) is not None:
        findings += check_feature_values(edge_attr, edges, what="edge feature")
    if data.x is None:
        findings.append(nodes.finding("note", "no-features", "the nodes have no features"))
    else:
        findings += check_feature_values(data.x, nodes)
    return findings if data.y is None else findings + check_labels(data.y, examples)


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


def check_feature_values(
    x: Tensor, locations: Locations, names: Sequence[str] | None = None, what: str = "feature"
) -> list[Finding]:
    """Report NaN, infinite, very large and constant features.

    Args:
        x: Feature matrix, dense or sparse CSR, ``[N, F]`` or ``[N]``.
        locations: Locations of the rows.
        names: Names of the columns. Default: their indices.
        what: Name of a column in messages.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [float("inf"), 2.0]])
        >>> [(finding.code, finding.locations) for finding in check_feature_values(x, Locations())]
        [('infinite-feature', (1,)), ('constant-feature', ())]
    """
    sparse = x.layout == torch.sparse_csr
    values = x.values() if sparse else x
    findings = []
    if values.is_floating_point() and not bool(torch.isfinite(values).all()):
        for code, word, invalid in (
            ("missing-feature", "NaN", values.isnan()),
            ("infinite-feature", "infinite", values.isinf()),
        ):
            if bool(invalid.any()):
                rows = _rows_of(x)[invalid.numpy()] if sparse else _as_rows(invalid).any(1).numpy()
                message = f"{'an' if what[0] == 'e' else 'a'} {what} is {word}; replace it by a finite number"
                findings.append(locations.finding("error", code, message, np.unique(rows) if sparse else rows))
    minimum, maximum = _column_ranges(x)
    if values.is_floating_point():
        findings += large_features(minimum, maximum, locations.file, names, what)
    return [*findings, *constant_features(minimum, maximum, locations.file, names, what)]


def constant_features(
    minimum: np.ndarray, maximum: np.ndarray, file: str = "", names: Sequence[str] | None = None, what: str = "feature"
) -> list[Finding]:
    """Report constant columns. The arguments are those of :func:`large_features`."""
    constant = np.flatnonzero(minimum == maximum)
    if not len(constant):
        return []
    columns = subject(what, _column_names(constant, names), "is", "are")
    message = f"the {columns} constant, so that a model cannot use {'it' if len(constant) == 1 else 'them'}"
    return [Finding("warning", "constant-feature", message, file)]


def large_features(
    minimum: np.ndarray, maximum: np.ndarray, file: str = "", names: Sequence[str] | None = None, what: str = "feature"
) -> list[Finding]:
    """Report columns with values so large that they dominate the others and make training unstable.

    Args:
        minimum: Minimum of each column.
        maximum: Maximum of each column.
        file: Name of the file.
        names: Names of the columns. Default: their indices.
        what: Name of a column in messages.

    Example:
        >>> large_features(np.array([0.0, -1.0]), np.array([1.0, 25000.0]), "", ["age", "income"])[0].message
        "the feature 'income' has values up to 25000; scale it or take its logarithm so that values are close to 1"
    """
    size = np.maximum(np.abs(minimum), np.abs(maximum))
    large = np.flatnonzero((size > LARGE) & np.isfinite(size))
    if not len(large):
        return []
    columns = subject(what, _column_names(large, names), "has", "have")
    fix = "scale it or take its logarithm" if len(large) == 1 else "scale them or take their logarithms"
    message = f"the {columns} values up to {size[large].max():g}; {fix} so that values are close to 1"
    return [Finding("warning", "large-feature", message, file)]


def _column_names(columns: np.ndarray, names: Sequence[str] | None) -> list[object]:
    return [int(i) if names is None else names[int(i)] for i in columns]


def check_labels(y: Tensor, locations: Locations, classes: Sequence[object] | None = None) -> list[Finding]:
    """Report missing and infinite labels, and classes that look wrong.

    Args:
        y: Class indices (int64, -1 if unlabeled) or numbers (NaN if unlabeled), ``[N]`` or ``[N, T]``.
        locations: Locations of the examples.
        classes: Names of the classes. Default: their indices.

    Example:
        >>> [finding.message for finding in check_labels(torch.tensor([0, 0, 1, -1]), Locations())]
        ['no label; not used for training or evaluation', 'the class 1 has a single example, ...']
    """
    findings = []
    is_class = not y.is_floating_point() and y.dim() == 1
    missing = _as_rows(y < 0 if is_class else y.isnan()).all(1)
    if bool(missing.any()):
        message = "no label; not used for training or evaluation"
        findings.append(locations.finding("note", "missing-label", message, missing.numpy()))
    if len(y) and bool(missing.all()):
        return [*findings, Finding("warning", "no-labels", "no example has a label", locations.file)]
    infinite = _as_rows(y.isinf()).any(1)
    if bool(infinite.any()):
        message = "a label is infinite; replace it by a finite number or leave it empty"
        findings.append(locations.finding("error", "infinite-label", message, infinite.numpy()))
    return findings + (_check_classes(y[~missing].numpy(), locations, classes) if is_class and len(y) else [])


def _check_classes(y: np.ndarray, locations: Locations, classes: Sequence[object] | None) -> list[Finding]:
    counts = np.bincount(y)
    names = list(range(len(counts))) if classes is None else classes
    present = np.flatnonzero(counts)
    single = [names[i] for i in np.flatnonzero(counts == 1).tolist()]
    findings = []
    if len(y) >= 10 and len(present) > _LIKE_IDS * len(y):
        message = (
            f"{len(present):,} distinct labels for {len(y):,} examples look like ids or numbers and not like classes; "
            "for numbers set task: regression"
        )
        findings.append(Finding("warning", "labels-like-ids", message, locations.file))
    elif single:
        message = (
            f"the {subject('class', single, 'has', 'have')} a single example, "
            "which cannot be in both the training and the test set"
        )
        findings.append(Finding("warning", "single-member", message, locations.file))
    if len(present) == 1:
        message = f"every label is {names[int(present[0])]!r}; a classifier needs at least two classes"
        findings.append(Finding("warning", "one-class", message, locations.file))
    return findings


def check_edge_weights(
    weight: np.ndarray,
    locations: Locations,
    scaling_hint: str = "divide all weights by the largest",
    feature_hint: str = "remove it, or use the weights as an edge feature (edge_attr)",
) -> list[Finding]:
    """Report edge weights outside [0, 1], which the layers do not accept.

    Args:
        weight: Weight of each edge.
        locations: Locations of the edges.
        scaling_hint: Advice for weights larger than 1.
        feature_hint: Advice for weights that are negative, infinite or NaN.

    Example:
        >>> finding = check_edge_weights(np.array([0.5, 2.0]), Locations())[0]
        >>> finding.locations, finding.values
        ((1,), ('2.0',))
    """
    outside = ~((weight >= 0) & (weight <= 1))  # NaN is outside too
    if not outside.any():
        return []
    not_scalable = outside & ~((weight > 1) & (weight < np.inf))  # dividing by the largest does not help here
    first = weight[not_scalable if not_scalable.any() else outside][0]
    hint = feature_hint if not_scalable.any() else scaling_hint
    message = f"an edge weight is {first:g}, but must lie between 0 (no edge) and 1; {hint}"
    return [locations.finding("error", "weight-outside", message, outside, weight)]


def duplicate_mask(keys: np.ndarray) -> np.ndarray | None:
    """Return a mask of the keys that occurred before, or ``None`` if all keys are distinct.

    Example:
        >>> duplicate_mask(np.array([3, 1, 3])).tolist()
        [False, False, True]
    """
    ordered = np.sort(keys)  # takes a sixth of the time of the mask
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    mask: np.ndarray = ~pl.Series(keys).is_first_distinct().to_numpy()
    return mask


def _as_rows(values: Tensor) -> Tensor:
    """Reshape to ``[N, columns]``."""
    return values.unsqueeze(1) if values.dim() == 1 else values.flatten(1)


def _rows_of(x: Tensor) -> np.ndarray:
    """Return the row of each stored entry of a CSR matrix."""
    return np.repeat(np.arange(x.size(0)), x.crow_indices().diff().numpy())


def _column_ranges(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum of each column, or nothing for fewer than two rows."""
    if x.size(0) < 2:
        return np.empty(0), np.empty(0)
    if x.layout == torch.sparse_csr:
        parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
        matrix = scipy.sparse.csc_matrix(scipy.sparse.csr_matrix(parts, shape=tuple(x.shape)))
        minimum, maximum = (bound.toarray().ravel() for bound in (matrix.min(axis=0), matrix.max(axis=0)))
    else:
        x = _as_rows(x)
        minimum, maximum = x.amin(0).numpy(), x.amax(0).numpy()
    return minimum, maximum
