"""Reader of the gnn-benchmark collection (Shchur et al. 2018): a graph as sparse matrices in a ``.npz`` file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from tgnn.data.readers.graph_npz import open_npz
from tgnn.data.tensors import as_int64, as_tensor, torch_csr

_WHAT = "a file of the gnn-benchmark collection"
_PARTS = ("data", "indices", "indptr", "shape")


def read_gnn_benchmark(path: Path | str) -> Data:
    """Read a graph as PyG does: the reverse of every edge is added, and word counts become 0 and 1, but stay sparse."""
    with open_npz(path, _WHAT) as file:
        arrays = {name: file[name] for name in file.files if not name.endswith("_names")}
    try:
        return _to_data(arrays)
    except ValueError as error:
        raise ValueError(f"{path} is not {_WHAT}: {error}") from error


def _to_data(arrays: Mapping[str, np.ndarray]) -> Data:
    adjacency = _matrix(arrays, "adj").tocoo()
    if adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(f"adj must be a square matrix, got shape {adjacency.shape}")
    edge_index, _ = remove_self_loops(torch.from_numpy(np.stack([adjacency.row, adjacency.col]).astype(np.int64)))
    n = adjacency.shape[0]
    if "labels" not in arrays:
        raise ValueError("it has no array 'labels'")
    labels, x = as_int64(arrays["labels"], "labels"), _features(arrays)
    if labels.shape != (n,):
        raise ValueError(f"it has {n} nodes but {labels.numel()} labels")
    if x is not None and x.size(0) != n:
        raise ValueError(f"it has {n} nodes but {x.size(0)} rows of features")
    return Data(x=x, edge_index=to_undirected(edge_index, num_nodes=n), y=labels, num_nodes=n)


def _matrix(arrays: Mapping[str, np.ndarray], name: str) -> scipy.sparse.csr_matrix:
    missing = [part for part in _PARTS if f"{name}_{part}" not in arrays]
    if missing:
        raise ValueError(f"it has no array {f'{name}_{missing[0]}'!r}")
    values, *indices = (arrays[f"{name}_{part}"] for part in _PARTS)
    columns, ptr, shape = (as_int64(array, f"{name}_{part}").numpy() for part, array in zip(_PARTS[1:], indices))
    try:
        matrix = scipy.sparse.csr_matrix((as_tensor(values, name).numpy(), columns, ptr), shape=tuple(shape.ravel()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"the arrays of the sparse matrix {name} are inconsistent: {error}") from error
    return matrix


def _features(arrays: Mapping[str, np.ndarray]) -> Tensor | None:
    """Read the features. Word counts become 0 and 1."""
    if "attr_data" in arrays:
        matrix = _matrix(arrays, "attr").astype(np.float32)
        matrix.data[matrix.data > 0] = 1
        return torch_csr(matrix)
    if "attr_matrix" in arrays:
        return as_tensor(arrays["attr_matrix"], "attr_matrix").float()
    return None
