"""Validate and convert features and edges from NumPy, SciPy, torch or lists to tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.utils import from_scipy_sparse_matrix

from tgnn.data.tensors import csr, torch_csr
from tgnn.data.validation.checks import check_edge_weights
from tgnn.data.validation.report import Reporter, ValidationReport


def to_features(x: Any, name: str = "X") -> Tensor:
    """Return node features as float32, dense or CSR. Integer torch tensors are categories and become int64.

    Args:
        x: NumPy array, torch tensor (dense or sparse), SciPy sparse matrix or lists, ``[N, F]``. Categories may be
            ``[N]``.
        name: Name of the features in error messages.

    Example:
        >>> to_features([[1, 2], [3, 4]]).dtype, to_features(torch.tensor([[1, 2], [3, 4]])).dtype
        (torch.float32, torch.int64)
    """
    features = _from_torch(x) if isinstance(x, Tensor) else _from_array(x, name)
    if not features.is_floating_point() and features.dim() == 1:
        features = features.unsqueeze(1)
    if features.dim() != 2:
        raise ValueError(f"Expected 2D array with one row per node, got {name} of shape {list(features.shape)}")
    if features.size(1) == 0:
        raise ValueError(f"{name} has 0 feature(s), while a minimum of 1 is required")
    check_finite(features, name)
    return features


def check_finite(x: Tensor, name: str) -> None:
    """Raise a ``ValueError`` for NaN, infinity or a negative category."""
    values = x.values() if x.layout == torch.sparse_csr else x
    if not values.is_floating_point():
        if values.numel() and int(values.min()) < 0:
            raise ValueError(f"{name} contains category {int(values.min())}, but categories must be 0 or larger")
    elif bool(values.isnan().any()):
        raise ValueError(f"Input {name} contains NaN.")
    elif not bool(values.isfinite().all()):
        raise ValueError(f"Input {name} contains infinity or a value too large for float32.")


def to_edge_index(edges: Any, num_nodes: int) -> Tensor:
    """Return edges as int64 ``[2, E]``, after checking that all nodes exist.

    Args:
        edges: Source and destination nodes, as NumPy array, torch tensor or lists.
        num_nodes: Number of nodes.
    """
    edge_index = _to_tensor(edges)
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            f"edge_index must have shape [2, E] (source and destination nodes), got {list(edge_index.shape)}"
        )
    if edge_index.dtype != torch.int64:
        is_integer = not (edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool)
        if edge_index.numel() and not is_integer:
            raise ValueError(f"edge_index must contain integers, got {edge_index.dtype}")
        edge_index = edge_index.long()
    if edge_index.numel():
        low, high = (int(node) for node in torch.aminmax(edge_index.as_subclass(Tensor)))
        if low < 0 or high >= num_nodes:
            node = low if low < 0 else high
            raise ValueError(
                f"edge_index contains node {node}, but the graph has {num_nodes} nodes (0 to {num_nodes - 1})"
            )
    return edge_index


def from_adjacency(adjacency: Any, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the edges and edge weights of a SciPy sparse adjacency matrix. Entry (i, j) is an edge from i to j.

    Example:
        >>> from_adjacency(scipy.sparse.csr_array([[0, 1], [1, 0]]), 2)
        (tensor([[0, 1], [1, 0]]), tensor([1., 1.]))
    """
    if adjacency.shape != (num_nodes, num_nodes):
        raise ValueError(f"the adjacency matrix has shape {list(adjacency.shape)}, but the graph has {num_nodes} nodes")
    matrix = adjacency.tocsr(copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    edge_index, weight = from_scipy_sparse_matrix(matrix)
    return edge_index, to_edge_weight(weight, matrix.nnz)


def to_edge_weight(weight: Any, num_edges: int) -> Tensor:
    """Return edge weights as float32 ``[E]``. They must be between 0 and 1.

    Example:
        >>> to_edge_weight([0.5, 2.0], 2)
        Traceback (most recent call last):
        ValueError: an edge weight is 2, but must lie between 0 (no edge) and 1; ...
    """
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
    """Return node positions as float32 ``[N, D]``.

    Example:
        >>> to_positions([[0, 1], [2, 3]], 2).shape
        torch.Size([2, 2])
    """
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
