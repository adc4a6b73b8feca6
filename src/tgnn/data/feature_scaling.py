"""Rows of features, scaled."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.data.readers.sparse import csr

WAYS = ("stored", "row-sum", "row-l2")
"""As they are; each row divided by its sum; by its length."""


def scale_columns(x: Tensor, factor: Tensor, shift: Tensor) -> Tensor:
    """Each column times one number and plus another.

    Args:
        x: Dense, or sparse CSR, which becomes dense where there is something to add.
        factor: ``[F]``.
        shift: ``[F]``.

    Example:
        >>> scale_columns(torch.tensor([[1.0, 3.0]]), torch.tensor([2.0, 1.0]), torch.tensor([0.0, 1.0])).tolist()
        [[2.0, 4.0]]
    """
    if x.layout == torch.sparse_csr and not bool(shift.any()):
        return csr(x.crow_indices(), x.col_indices(), x.values() * factor[x.col_indices()], x.shape)
    return x.to_dense() * factor + shift


def scale_rows(x: Tensor, how: str) -> Tensor:
    """Each row divided by its sum (``"row-sum"``) or its length (``"row-l2"``); rows of zeros stay.

    Args:
        x: Dense, or sparse CSR.
        how: One of :data:`WAYS`.

    Example:
        >>> scale_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), "row-sum").tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    if how not in WAYS:
        raise ValueError(f"features is {how!r}, but must be one of {', '.join(WAYS)}")
    if how == "stored":
        return x
    order = 1.0 if how == "row-sum" else 2.0
    if x.layout != torch.sparse_csr:
        return torch.nn.functional.normalize(x, p=order, dim=1)
    counts = x.crow_indices().diff()
    rows = torch.arange(x.size(0)).repeat_interleave(counts)
    size = torch.zeros(x.size(0)).index_add(0, rows, x.values().abs() ** order) ** (1 / order)
    values = x.values() / size.clamp(min=1e-12)[rows]
    return csr(x.crow_indices(), x.col_indices(), values, x.shape)
