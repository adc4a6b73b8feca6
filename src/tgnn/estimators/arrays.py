"""Features and edges as users have them, as the tensors that models take."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tgnn.data.readers.sparse import csr, torch_csr
from tgnn.data.validation.report import Locations
from tgnn.data.validation.value_checks import check_edge_weights


def as_features(x: Any, what: str = "X") -> Tensor:
    """Numbers as float32, dense or CSR. Integers of torch are categories, as in the rest of the library.

    Args:
        x: NumPy, torch (dense or sparse), SciPy sparse, or lists; ``[N, F]``. Categories also ``[N]``.
        what: What to call it in an error.

    Example:
        >>> as_features([[1, 2], [3, 4]]).dtype, as_features(torch.tensor([[1, 2], [3, 4]])).dtype
        (torch.float32, torch.int64)
    """
    rows = _torch_features(x) if isinstance(x, Tensor) else _array_features(x, what)
    if not rows.is_floating_point() and rows.dim() == 1:
        rows = rows.unsqueeze(1)
    if rows.dim() != 2:
        raise ValueError(f"Expected 2D array, got {what} of shape {list(rows.shape)}: a row for each node is needed")
    if rows.size(1) == 0:
        raise ValueError(f"{what} has 0 feature(s), while a minimum of 1 is required")
    check_finite(rows, what)
    return rows


def check_finite(x: Tensor, what: str) -> None:
    """Numbers that are none, and categories below 0, are errors."""
    values = x.values() if x.layout == torch.sparse_csr else x
    if not values.is_floating_point():
        if values.numel() and int(values.min()) < 0:
            raise ValueError(f"{what} contains the category {int(values.min())}: categories are numbered from 0")
    elif bool(values.isnan().any()):
        raise ValueError(f"Input {what} contains NaN.")
    elif not bool(values.isfinite().all()):
        raise ValueError(f"Input {what} contains infinity or a value too large for float32.")


def as_edge_index(edges: Any, num_nodes: int) -> Tensor:
    """Edges as int64 ``[2, E]``, all of whose ends are nodes.

    Args:
        edges: Sources and destinations, NumPy, torch or lists.
        num_nodes: How many nodes there are.
    """
    found = _as_tensor(edges)
    if found.dim() != 2 or found.size(0) != 2:
        raise ValueError(f"edge_index must have shape [2, E], sources above destinations, got {list(found.shape)}")
    if found.dtype != torch.int64:
        if found.numel() and (found.is_floating_point() or found.is_complex() or found.dtype == torch.bool):
            raise ValueError(f"edge_index must be of integers, the numbers of nodes, got {found.dtype}")
        found = found.long()
    if found.numel():
        low, high = (int(end) for end in torch.aminmax(found.as_subclass(Tensor)))
        if low < 0 or high >= num_nodes:
            wrong = low if low < 0 else high
            raise ValueError(f"edge_index contains node {wrong}, but the {num_nodes} nodes are 0 to {num_nodes - 1}")
    return found


def from_adjacency(adjacency: Any, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Edges and weights of a SciPy sparse matrix: an entry (i, j) is an edge from i to j.

    Example:
        >>> from_adjacency(scipy.sparse.csr_array([[0, 1], [1, 0]]), 2)
        (tensor([[0, 1], [1, 0]]), tensor([1., 1.]))
    """
    if adjacency.shape != (num_nodes, num_nodes):
        raise ValueError(f"the adjacency matrix has shape {list(adjacency.shape)}, but there are {num_nodes} nodes")
    matrix = adjacency.tocsr(copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    source = np.repeat(np.arange(num_nodes), np.diff(matrix.indptr))
    edge_index = torch.from_numpy(np.stack([source, matrix.indices]).astype(np.int64))
    return edge_index, as_edge_weight(matrix.data, matrix.nnz)


def as_edge_weight(weight: Any, num_edges: int) -> Tensor:
    """One weight for each edge, from 0 to 1.

    Example:
        >>> as_edge_weight([0.5, 2.0], 2)
        Traceback (most recent call last):
        ValueError: an edge weight is 2, but must lie between 0 (no edge) and 1; ...
    """
    found = _as_tensor(weight).float()
    if found.numel() != num_edges:
        raise ValueError(f"edge_weight has {found.numel()} entries, but there are {num_edges} edges")
    check_finite(found, "edge_weight")
    for finding in check_edge_weights(found.reshape(-1).numpy(), Locations()):
        raise ValueError(finding.message)
    return found.reshape(-1)


def as_edge_features(values: Any, num_edges: int) -> Tensor:
    """Features of edges, a row for each; integers of torch are categories."""
    found = _as_tensor(values)
    if len(found) != num_edges:
        raise ValueError(f"edge_attr has {len(found)} rows, but there are {num_edges} edges")
    found = found.reshape(num_edges, -1) if num_edges else found.reshape(0, *found.shape[1:] or (1,))
    found = found.float() if found.is_floating_point() or found.dtype == torch.bool else found.long()
    check_finite(found, "edge_attr")
    return found


def as_positions(values: Any, num_nodes: int) -> Tensor:
    """Where nodes lie, as float32, a row for each.

    Example:
        >>> as_positions([[0, 1], [2, 3]], 2).shape
        torch.Size([2, 2])
    """
    found = _as_tensor(values)
    if found.dim() != 2 or found.size(0) != num_nodes:
        raise ValueError(f"pos must have a row for each of the {num_nodes} nodes, got shape {list(found.shape)}")
    check_finite(found.float(), "pos")
    return found.float()


def _as_tensor(values: Any) -> Tensor:
    return values.detach().cpu() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))


def _torch_features(x: Tensor) -> Tensor:
    x = x.detach().cpu()
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
        parts = (x.values().numpy(), tuple(x.indices().numpy()))
        return torch_csr(scipy.sparse.coo_matrix(parts, shape=tuple(x.shape)).tocsr())
    if x.layout == torch.sparse_csr:
        return x if x.dtype == torch.float32 else csr(x.crow_indices(), x.col_indices(), x.values().float(), x.shape)
    if x.is_complex():
        raise ValueError("Complex data not supported")
    return x.float() if x.is_floating_point() or x.dtype == torch.bool else x.long()


def _array_features(x: Any, what: str) -> Tensor:
    if scipy.sparse.issparse(x):
        return torch_csr(x.tocsr())
    array = np.asarray(x)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.dtype.kind in "USmM":
        raise ValueError(f"{what} must hold numbers, got {array.dtype}: encode text first, for example as one-hot rows")
    try:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as such
            return torch.from_numpy(np.array(array, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must hold numbers: {error}") from error
