"""Transforms of node features: scaling, and features for nodes that have none."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.tensors import csr

FEATURE_SCALINGS = ("stored", "row-sum", "row-l2")
"""Values of ``data.features``: features as stored, each row divided by its sum, or by its Euclidean norm."""


def scale_rows(x: Tensor, how: str) -> Tensor:
    """Divide each row by its sum (``"row-sum"``) or its Euclidean norm (``"row-l2"``). Rows of zeros stay zero.

    Example:
        >>> scale_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), "row-sum").tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    if how not in FEATURE_SCALINGS:
        raise ValueError(f"features is {how!r}, but must be one of {', '.join(FEATURE_SCALINGS)}")
    if how == "stored":
        return x
    order = 1.0 if how == "row-sum" else 2.0
    if x.layout != torch.sparse_csr:
        return torch.nn.functional.normalize(x, p=order, dim=1)
    counts = x.crow_indices().diff()
    rows = torch.arange(x.size(0)).repeat_interleave(counts)
    norm = torch.zeros(x.size(0)).index_add(0, rows, x.values().abs() ** order) ** (1 / order)
    values = x.values() / norm.clamp(min=1e-12)[rows]
    return csr(x.crow_indices(), x.col_indices(), values, x.shape)


def scale_columns(x: Tensor, factor: Tensor, shift: Tensor) -> Tensor:
    """Multiply each column by a factor and add a shift. A sparse matrix becomes dense if a shift is not 0."""
    if x.layout == torch.sparse_csr and not bool(shift.any()):
        return csr(x.crow_indices(), x.col_indices(), x.values() * factor[x.col_indices()], x.shape)
    return x.to_dense() * factor + shift


def with_degrees(graphs: GraphDataset) -> GraphDataset:
    """Use the in-degree of each node as its only feature, an integer that models embed."""
    if graphs.edge_index is None:
        raise ValueError("degrees cannot be computed, because the graphs have no edges")
    dataset = copy.copy(graphs)
    dataset.x = graphs.degrees(torch.arange(len(graphs))).unsqueeze(1)
    return dataset


def add_degree_feature(data: Data | GraphDataset, encoding: Mapping[str, Any] | None = None) -> bool:
    r"""Give nodes without features the standardized feature :math:`\log(1 + d)` of their in-degree :math:`d`, in place.

    Mean and standard deviation are stored as ``degree`` in ``data.encoding``, and taken from ``encoding`` for new data.
    Data with features, and new data for a model that was trained without features, is not changed. Return whether the
    data was changed.

    Example:
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
        >>> add_degree_feature(data)
        True
        >>> data.x.tolist(), data.encoding
        ([[0.707...], [0.707...], [-1.414...]], {'degree': [0.462..., 0.326...]})
    """
    if data.x is not None or data.edge_index is None or (encoding is not None and "degree" not in encoding):
        return False
    if isinstance(data, GraphDataset):
        degrees, known = data.degrees(torch.arange(len(data))), data.encoding
    else:
        degrees = torch.bincount(data.edge_index[1], minlength=int(data.num_nodes or 0))
        known = data.get("encoding")
    x = degrees.double().log1p().unsqueeze(1)
    if encoding is None:
        deviation = float(x.std(correction=0)) if len(x) else 0.0
        scale = [float(x.mean()) if len(x) else 0.0, deviation if deviation > 1e-9 else 1.0]
    else:
        scale = encoding["degree"]
    data.x = ((x - scale[0]) / scale[1]).float()
    data.encoding = {**(known or {}), "degree": scale}
    return True


def identity(n: int) -> Tensor:
    """Return the sparse identity matrix as features, so that a linear layer learns an embedding of each node."""
    return csr(torch.arange(n + 1), torch.arange(n), torch.ones(n), (n, n))
