"""Checks of graphs: edges, weights, features and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.validation.report import Reporter, ValidationReport, subject

LARGE = 100.0
"""Features with a larger absolute value are reported."""
_LIKE_IDS = 0.5
"""If a larger fraction of the labels is distinct, they are probably ids or numbers and not classes."""


_LARGEST_LABEL = 1e30
"""Larger labels overflow float32 when errors are squared or summed."""


def check_data(data: Data | GraphDataset, report: ValidationReport) -> None:
    """Check a graph, or many graphs without a loop over them. Locations are nodes and edges, or graphs.

    Example:
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 1]]), y=torch.tensor([0, 0, 1]), num_nodes=3)
        >>> report = ValidationReport("", "")
        >>> check_data(data, report)
        >>> [(finding.code, finding.locations) for finding in report.findings]
        [('self-loop', (1,)), ('isolated-node', (2,)), ('no-features', ()), ('single-member', ())]
    """
    edge_index = None if data.edge_index is None else data.edge_index.numpy()
    if isinstance(data, GraphDataset):
        sizes = data.num_nodes.numpy()
        num_nodes = int(sizes.sum())
        of_node, of_edge = (np.repeat(np.arange(len(sizes)), counts) for counts in (sizes, data.num_edges.numpy()))
        if edge_index is not None:
            edge_index = edge_index + (np.cumsum(sizes) - sizes)[of_edge]
            edge_index = (
                edge_index if data.directed else np.sort(edge_index, axis=0)
            )  # an edge and its reverse are equal
        examples = Reporter(report, unit="graph")
        nodes, edges = (replace(examples, numbers=graph.__getitem__, merged=True) for graph in (of_node, of_edge))
        examples.warning("empty-graph", "the graph has no nodes", sizes == 0)
    else:
        num_nodes = int(data.num_nodes or 0)
        nodes = examples = Reporter(report, unit="node")
        edges = Reporter(report, unit="edge")
    if edge_index is not None:
        source, target = edge_index
        edges.note("self-loop", "self-loop; tGNN includes each node in its own neighborhood anyway", source == target)
        message = "duplicate edge; the product then contains its source node more than once"
        if (duplicates := duplicate_mask(target * num_nodes + source)) is not None:
            edges.warning("duplicate-edge", message, duplicates)
        check_isolated_nodes(edge_index, num_nodes, nodes)
    if (weight := getattr(data, "edge_weight", None)) is not None:
        check_edge_weights(weight.numpy(), edges)
    if (edge_attr := getattr(data, "edge_attr", None)) is not None:
        check_features(edge_attr, edges, what="edge feature")
    if data.x is None:
        nodes.note("no-features", "the nodes have no features")
    else:
        check_features(data.x, nodes)
    if data.y is not None:
        check_labels(data.y, examples)


def check_isolated_nodes(edge_index: np.ndarray, num_nodes: int, nodes: Reporter) -> None:
    """Report nodes without edges to other nodes."""
    isolated = np.ones(num_nodes, dtype=bool)
    source, target = edge_index
    if (loops := source == target).any():
        source, target = source[~loops], target[~loops]
    isolated[source] = isolated[target] = False
    nodes.note("isolated-node", "isolated node; its prediction depends on its own features only", isolated)


def check_features(x: Tensor, rows: Reporter, names: Sequence[str] | None = None, what: str = "feature") -> None:
    """Report NaN, infinite, very large and constant features. Default of ``names``: the indices of the columns."""
    check_finite_features(x, rows, what)
    if x.size(0) > 1:
        check_feature_ranges(*_column_ranges(x), rows, names, what)


def check_finite_features(x: Tensor, rows: Reporter, what: str = "feature") -> None:
    """Report NaN and infinite features. The arguments are those of :func:`check_features`."""
    sparse = x.layout == torch.sparse_csr
    values = x.values() if sparse else x
    if not values.is_floating_point() or bool(torch.isfinite(values).all()):
        return
    for code, word, invalid in (
        ("missing-feature", "NaN", values.isnan()),
        ("infinite-feature", "infinite", values.isinf()),
    ):
        message = f"{'an' if what[0] == 'e' else 'a'} {what} is {word}; replace it by a finite number"
        if sparse:
            row_of_entry = np.repeat(np.arange(x.size(0)), x.crow_indices().diff().numpy())
            rows.error(code, message, np.unique(row_of_entry[invalid.numpy()]))
        else:
            rows.error(code, message, _as_rows(invalid).any(1).numpy())


def check_feature_ranges(
    minimum: np.ndarray,
    maximum: np.ndarray,
    rows: Reporter,
    names: Sequence[str] | None = None,
    what: str = "feature",
) -> None:
    """Report constant columns, and columns with values so large that they dominate the others in training.

    Large integers are not reported, because they are categories.
    """
    columns: Sequence[object] = range(len(minimum)) if names is None else names
    size = np.maximum(np.abs(minimum), np.abs(maximum))
    large = np.flatnonzero((size > LARGE) & np.isfinite(size) & np.issubdtype(size.dtype, np.floating))
    if len(large):
        have = subject(what, [columns[i] for i in large.tolist()], "has", "have")
        fix = "scale it or take its logarithm" if len(large) == 1 else "scale them or take their logarithms"
        message = f"the {have} values up to {size[large].max():g}; {fix} so that values are close to 1"
        rows.warning("large-feature", message)
    constant = np.flatnonzero(minimum == maximum)
    if len(constant):
        are = subject(what, [columns[i] for i in constant.tolist()], "is", "are")
        message = f"the {are} constant, so that a model cannot use {'it' if len(constant) == 1 else 'them'}"
        rows.warning("constant-feature", message)


def check_labels(y: Tensor, rows: Reporter, classes: Sequence[object] | None = None) -> None:
    """Report missing and infinite labels, and classes that look wrong. Default of ``classes``: their indices."""
    is_class = not y.is_floating_point() and y.dim() == 1
    missing = _as_rows(y < 0 if is_class else y.isnan()).all(1)
    rows.note("missing-label", "no label; not used for training or evaluation", missing.numpy())
    if len(y) and bool(missing.all()):
        rows.warning("no-labels", "no example has a label")
        return
    message = "a label is infinite or larger than 1e30; replace it, change its unit, or leave it empty"
    rows.error("infinite-label", message, _as_rows(y.abs() > _LARGEST_LABEL).any(1).numpy())
    if is_class and len(y):
        _check_classes(y[~missing].numpy(), rows, classes)


def _check_classes(y: np.ndarray, rows: Reporter, classes: Sequence[object] | None) -> None:
    counts = np.bincount(y)
    names = list(range(len(counts))) if classes is None else classes
    present = np.flatnonzero(counts)
    single = [names[i] for i in np.flatnonzero(counts == 1).tolist()]
    if len(y) >= 10 and len(present) > _LIKE_IDS * len(y):
        message = (
            f"{len(present):,} distinct labels for {len(y):,} examples look like ids or numbers and not like classes; "
            "for numbers set task: regression"
        )
        rows.warning("labels-like-ids", message)
    elif single:
        has = subject("class", single, "has", "have")
        message = f"the {has} a single example, which cannot be in both the training and the test set"
        rows.warning("single-member", message)
    if len(present) == 1:
        message = f"every label is {names[int(present[0])]!r}; a classifier needs at least two classes"
        rows.warning("one-class", message)


def check_edge_weights(
    weight: np.ndarray,
    edges: Reporter,
    scaling_hint: str = "divide all weights by the largest",
    feature_hint: str = "remove it, or use the weights as an edge feature (edge_attr)",
) -> None:
    """Report edge weights outside [0, 1], which the layers do not accept.

    Args:
        weight: Weight of each edge.
        edges: Reporter of the edges.
        scaling_hint: Advice for weights larger than 1.
        feature_hint: Advice for weights that are negative, infinite or NaN.
    """
    outside = ~((weight >= 0) & (weight <= 1))  # NaN is outside too
    if not outside.any():
        return
    not_scalable = outside & ~((weight > 1) & (weight < np.inf))  # dividing by the largest does not help here
    first = weight[not_scalable if not_scalable.any() else outside][0]
    hint = feature_hint if not_scalable.any() else scaling_hint
    message = f"an edge weight is {first:g}, but must lie between 0 (no edge) and 1; {hint}"
    edges.error("weight-outside", message, outside, weight)


def duplicate_mask(keys: np.ndarray) -> np.ndarray | None:
    """Return a mask of the keys that occurred before, or ``None`` if all keys are distinct."""
    ordered = np.sort(keys)  # takes a sixth of the time of the mask
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    mask: np.ndarray = ~pl.Series(keys).is_first_distinct().to_numpy()
    return mask


def _as_rows(values: Tensor) -> Tensor:
    """Reshape to ``[N, columns]``."""
    return values.unsqueeze(1) if values.dim() == 1 else values.flatten(1)


def _column_ranges(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum of each column."""
    if x.layout != torch.sparse_csr:
        x = _as_rows(x)
        return x.amin(0).numpy(), x.amax(0).numpy()
    parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    matrix = scipy.sparse.csc_matrix(scipy.sparse.csr_matrix(parts, shape=tuple(x.shape)))
    minimum, maximum = (bound.toarray().ravel() for bound in (matrix.min(axis=0), matrix.max(axis=0)))
    return minimum, maximum
