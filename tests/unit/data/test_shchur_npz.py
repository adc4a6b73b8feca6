"""The .npz of the gnn-benchmark collection: a small one made here, and the real one as PyG reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.datasets import Amazon

from tgnn.data.readers.shchur_npz import read_gnn_benchmark

SHARED = Path(__file__).parents[4] / "shared" / "data"


def arrays() -> dict[str, np.ndarray]:
    adjacency = scipy.sparse.csr_matrix(np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]]))
    features = scipy.sparse.csr_matrix(np.array([[0, 2.0], [0.5, 0], [0, 0]]))
    parts = {"adj": adjacency, "attr": features}
    made = {f"{n}_{p}": getattr(m, p) for n, m in parts.items() for p in ("data", "indices", "indptr", "shape")}
    return made | {"labels": np.array([0, 1, 1])}


def test_a_small_one(tmp_path):
    np.savez(tmp_path / "toy.npz", **arrays())
    data = read_gnn_benchmark(tmp_path / "toy.npz")
    assert data.edge_index.t().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]  # no loop, both ways
    assert data.x.to_dense().tolist() == [[0, 1], [1, 0], [0, 0]]
    assert data.y.tolist() == [0, 1, 1]
    one_way = read_gnn_benchmark(tmp_path / "toy.npz", undirected=False)
    assert one_way.edge_index.t().tolist() == [[0, 1], [1, 2]]


def test_wrong_files_are_named(tmp_path):
    path = tmp_path / "toy.npz"
    np.savez(path, **{k: v for k, v in arrays().items() if k != "adj_indptr"})
    with pytest.raises(ValueError, match="it has no array 'adj_indptr'"):
        read_gnn_benchmark(path)
    np.savez(path, **(arrays() | {"labels": np.array([0])}))
    with pytest.raises(ValueError, match="has 3 nodes but 1 labels"):
        read_gnn_benchmark(path)
    for name in ("attr_indices", "attr_shape"):
        np.savez(path, **{k: v for k, v in arrays().items() if k != name})
        with pytest.raises(ValueError, match=f"toy.npz is not .* it has no array '{name}'"):
            read_gnn_benchmark(path)
    for change in ({"adj_indices": [0, 9, 2]}, {"adj_indptr": [0, 9, 2, 3]}, {"attr_shape": [3]}):
        np.savez(path, **(arrays() | change))
        with pytest.raises(ValueError, match="are inconsistent"):
            read_gnn_benchmark(path)
    np.savez(path, **(arrays() | {"attr_indptr": [0, 1, 2], "attr_shape": [2, 2]}))
    with pytest.raises(ValueError, match="has 3 nodes but 2 rows of features"):
        read_gnn_benchmark(path)
    path.write_bytes(b"PK no")
    with pytest.raises(ValueError, match="is not a file of the gnn-benchmark collection"):
        read_gnn_benchmark(path)
    np.savez(path, **(arrays() | {"labels": np.array([{}, 1, 2], dtype=object)}))
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        read_gnn_benchmark(path)


def test_amazon_computers_reads_as_pyg_reads_it(tmp_path):
    raw = SHARED / "amazon" / "Computers" / "raw"
    if not raw.exists():
        pytest.skip("no Amazon Computers beside the project")
    ours = read_gnn_benchmark(next(raw.glob("*.npz")))
    shutil.copytree(raw, tmp_path / "Computers" / "raw")
    theirs = Amazon(str(tmp_path), "Computers")[0]
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.x.to_dense(), theirs.x)
    assert torch.equal(ours.y, theirs.y)
