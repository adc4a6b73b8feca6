"""Conversion of arrays, sparse matrices and ids to tensors."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse
import torch
from torch import Tensor


def as_int64(array: np.ndarray, name: str) -> Tensor:
    """Convert integers to an int64 tensor. Floats are accepted only if they are integers."""
    fits = array.dtype.kind in "iub"
    if array.dtype.kind == "f":
        fits = bool(((np.abs(array) < 2**53) & (array == np.floor(array))).all())
    if not fits or (array.dtype == np.uint64 and array.size and array.max() >= 2**63):
        raise ValueError(f"{name} must contain integers, got {array.dtype}: {array.reshape(-1)[:5].tolist()}")
    return torch.from_numpy(array.astype(np.int64))


def as_positions(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return edges as an array of numbers. Ids of nodes, such as strings, are an error."""
    if edges.dtype.kind in "iufbc":
        return edges
    if ids := [value for value in edges.reshape(-1).tolist() if not isinstance(value, int)]:
        raise ValueError(
            f"edge_index must contain positions of rows of X (0 to {num_nodes - 1}), got {ids[0]!r}. Replace each id "
            "by its position, or train on data frames with ids by tgnn.train((nodes, edges))."
        )
    return edges.astype(np.int64)


def as_tensor(array: np.ndarray, name: str) -> Tensor:
    """Convert an array with a row per node, edge or graph to a tensor, integers to int64 and floats to float32."""
    if array.ndim == 0 or array.dtype.kind not in "iubf":
        raise ValueError(f"{name} must contain numbers, got {array.dtype} {list(array.shape)}")
    return torch.from_numpy(array.astype(np.float32)) if array.dtype.kind == "f" else as_int64(array, name)


def csr(ptr: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...], check: bool = False) -> Tensor:
    """Create a sparse CSR tensor without torch's warning that they are in beta. ``check`` validates the parts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        try:
            return torch.sparse_csr_tensor(ptr, columns.long(), values, shape, check_invariants=check)
        except RuntimeError as error:
            raise ValueError(f"the arrays of a sparse matrix are inconsistent: {error}") from error


def torch_csr(matrix: scipy.sparse.csr_matrix) -> Tensor:
    """Convert a SciPy matrix to a sparse CSR tensor of float32."""
    matrix = matrix.sorted_indices()
    ptr, columns = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return csr(ptr, columns, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)


class StringIds:
    """The string id of each node or graph.

    This is neither a list nor an array, because PyG's loaders fail on lists and arrays of strings. Loaders and
    ``subgraph()`` leave it unchanged: the ids of a batch are ``ids[batch.n_id]``.

    Args:
        series: Series of strings.

    Example:
        >>> ids = StringIds(pl.Series(["ann", "bob", "carol"]))
        >>> len(ids), ids[1], ids[torch.tensor([2, 0])].tolist()
        (3, 'bob', ['carol', 'ann'])
    """

    def __init__(self, series: pl.Series) -> None:
        self.series = series

    def __len__(self) -> int:
        return len(self.series)

    def __iter__(self) -> Iterator[str]:
        return iter(self.series)

    def __getitem__(self, index: int | slice | list[int] | np.ndarray | Tensor) -> Any:
        if isinstance(index, slice):
            return StringIds(self.series[index])
        index = index.cpu().numpy() if isinstance(index, Tensor) else index
        if np.ndim(index) == 0:
            return self.series[operator.index(index)]  # type: ignore[arg-type]
        return StringIds(self.series.gather(np.arange(len(self))[index]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.series.to_numpy()

    def tolist(self) -> list[str]:
        """Return the ids as a list."""
        return self.series.to_list()

    def __repr__(self) -> str:
        return f"StringIds({len(self):,})"


def keep_ids(ids: pl.Series) -> Tensor | StringIds:
    """Convert integer ids to a tensor, which PyG's loaders slice, and string ids to :class:`StringIds`."""
    return torch.from_numpy(ids.to_numpy(writable=True)) if ids.dtype == pl.Int64 else StringIds(ids)
