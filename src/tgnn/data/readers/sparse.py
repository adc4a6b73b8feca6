"""Sparse features as torch has them."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse
import torch
from torch import Tensor


def csr(ptr: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...], check: bool = False) -> Tensor:
    """A sparse matrix by rows, without torch's remark, once a process, that such tensors are in beta.

    Args:
        ptr: Where each row begins, and where the last ends.
        columns: Of each entry.
        values: Of each entry.
        shape: Of the matrix.
        check: Whether the parts come from a file, and may not fit together.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        try:
            return torch.sparse_csr_tensor(ptr, columns.long(), values, shape, check_invariants=check)
        except RuntimeError as error:
            raise ValueError(f"the parts of a sparse matrix do not fit together: {error}") from error


def torch_csr(matrix: scipy.sparse.csr_matrix) -> Tensor:
    """The same matrix as a torch CSR tensor of float32.

    Example:
        >>> torch_csr(scipy.sparse.csr_matrix([[0, 2], [1, 0]])).to_dense().tolist()
        [[0.0, 2.0], [1.0, 0.0]]
    """
    matrix = matrix.sorted_indices()
    ptr, columns = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return csr(ptr, columns, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)
