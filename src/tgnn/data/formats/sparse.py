"""Sparse features, from scipy to torch."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from torch import Tensor


def torch_csr(matrix: scipy.sparse.csr_matrix) -> Tensor:
    """The same matrix as a torch CSR tensor of float32.

    Example:
        >>> torch_csr(scipy.sparse.csr_matrix([[0, 2], [1, 0]])).to_dense().tolist()
        [[0.0, 2.0], [1.0, 0.0]]
    """
    matrix = matrix.sorted_indices()
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data.astype(np.float32)),
        matrix.shape,
        check_invariants=False,
    )
