"""The ``.npz`` of the gnn-benchmark collection (Shchur et al. 2018): one graph, as sparse matrices."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from tgnn.data.formats.sparse import torch_csr


def read_gnn_benchmark(path: Path | str, undirected: bool = True) -> Data:
    """One graph, its features as stored: sparse where sparse, binary as PyG has them.

    Args:
        path: The ``.npz``; nothing in it is unpickled.
        undirected: Whether to add the reverse of every edge, as PyG does.

    Shapes:
        - ``x`` ``[N, F]`` sparse CSR or dense; ``edge_index`` ``[2, E]``; ``y`` ``[N]``
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            names = {name: file[name] for name in file.files if not name.endswith("_names")}
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a file of the gnn-benchmark collection: {error}") from error
    missing = {"adj_data", "adj_indices", "adj_indptr", "adj_shape", "labels"} - set(names)
    if missing:
        raise ValueError(f"{path} is not a file of the gnn-benchmark collection: it has no {sorted(missing)[0]!r}")
    adjacency = _matrix(names, "adj").tocoo()
    edge_index, _ = remove_self_loops(torch.from_numpy(np.stack([adjacency.row, adjacency.col]).astype(np.int64)))
    n = adjacency.shape[0]
    if undirected:
        edge_index = to_undirected(edge_index, num_nodes=n)
    labels = names["labels"]
    if len(labels) != n:
        raise ValueError(f"{path} has {n} nodes, but {len(labels)} labels")
    return Data(x=_features(names), edge_index=edge_index, y=torch.from_numpy(labels.astype(np.int64)), num_nodes=n)


def _matrix(arrays: Mapping[str, np.ndarray], name: str) -> scipy.sparse.csr_matrix:
    parts = tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return scipy.sparse.csr_matrix(parts, shape=tuple(arrays[f"{name}_shape"]))


def _features(arrays: Mapping[str, np.ndarray]) -> Tensor | None:
    """Words that occur, as 0 and 1."""
    if "attr_data" in arrays:
        matrix = _matrix(arrays, "attr").astype(np.float32)
        matrix.data[matrix.data > 0] = 1
        return torch_csr(matrix)
    if "attr_matrix" in arrays:
        return torch.from_numpy(arrays["attr_matrix"].astype(np.float32))
    return None
