"""Sparse CSR tensors."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse
import torch
from torch import Tensor


def csr(ptr: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...], check: bool = False) -> Tensor:
    """Create a sparse CSR tensor without torch's warning that such tensors are in beta.

    Args:
        ptr: Row pointer.
        columns: Column of each entry.
        values: Value of each entry.
        shape: Shape of the matrix.
        check: Whether to validate the parts, e.g. because they come from a file.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        try:
            return torch.sparse_csr_tensor(ptr, columns.long(), values, shape, check_invariants=check)
        except RuntimeError as error:
            raise ValueError(f"the arrays of a sparse matrix are inconsistent: {error}") from error


def torch_csr(matrix: scipy.sparse.csr_matrix) -> Tensor:
    """Convert a SciPy matrix to a sparse CSR tensor of float32.

    Example:
        >>> torch_csr(scipy.sparse.csr_matrix([[0, 2], [1, 0]])).to_dense().tolist()
        [[0.0, 2.0], [1.0, 0.0]]
    """
    matrix = matrix.sorted_indices()
    ptr, columns = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return csr(ptr, columns, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)
