"""Published files of numbers: OGB's CSV files, BlogCatalog, and the .npz files of the gnn-benchmark collection."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

from tgnn.data.readers.blogcatalog import read_blogcatalog, read_blogcatalog_csv
from tgnn.data.readers.ogb import read_ogb_graphs, read_ogb_node
from tgnn.data.readers.shchur_npz import read_gnn_benchmark

# ---- OGB -------------------------------------------------------------------------------------------------------


def write_csv(path: Path, table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(",".join(str(value) for value in np.atleast_1d(row)) + "\n" for row in table)


def write_ogb_node(folder: Path, features: bool = True) -> None:
    write_csv(folder / "raw/edge.csv.gz", [[0, 1], [1, 2], [3, 0]])
    write_csv(folder / "raw/num-node-list.csv.gz", [4])
    write_csv(folder / "raw/num-edge-list.csv.gz", [3])
    if features:
        write_csv(folder / "raw/node-feat.csv.gz", [[0.5, -1.25], [1, 2], [3, 4], [5, 6]])
        write_csv(folder / "raw/node-label.csv.gz", [2, 0, 1, 2])
    else:
        write_csv(folder / "raw/edge-feat.csv.gz", [[0.5, 0.25], [1.0, 0.0], [0.0, 1.0]])
        write_csv(folder / "raw/node-label.csv.gz", [[0, 1], [1, 1], [0, 0], [1, 0]])
    for part, nodes in {"train": [3, 0], "valid": [1], "test": [2]}.items():
        write_csv(folder / f"split/time/{part}.csv.gz", nodes)


def test_an_ogb_graph(tmp_path):
    write_ogb_node(tmp_path)
    data = read_ogb_node(tmp_path, "time", add_reverse_edges=False)
    assert data.edge_index.tolist() == [[0, 1, 3], [1, 2, 0]]
    assert data.x.dtype == torch.float32
    assert data.x[0].tolist() == [0.5, -1.25]
    assert data.y.tolist() == [2, 0, 1, 2]
    assert data.train_mask.tolist() == [True, False, False, True]
    both = read_ogb_node(tmp_path, "time", add_reverse_edges=True)
    assert both.edge_index.tolist() == [[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 0, 3]]


def test_ogb_nodes_without_features_get_the_mean_of_their_edges(tmp_path):
    write_ogb_node(tmp_path, features=False)
    data = read_ogb_node(tmp_path, "time", add_reverse_edges=True)
    assert data.edge_attr.tolist() == [[0.5, 0.25]] * 2 + [[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2
    assert data.x.tolist() == [[0.25, 0.625], [0.75, 0.125], [1.0, 0.0], [0.0, 1.0]]
    assert data.y.tolist() == [[0, 1], [1, 1], [0, 0], [1, 0]]


def test_ogb_graphs(tmp_path):
    write_csv(tmp_path / "raw/edge.csv.gz", [[0, 1], [1, 2], [0, 1]])
    write_csv(tmp_path / "raw/num-node-list.csv.gz", [3, 1, 2])
    write_csv(tmp_path / "raw/num-edge-list.csv.gz", [2, 0, 1])
    write_csv(tmp_path / "raw/node-feat.csv.gz", [[i, 10 * i] for i in range(6)])
    write_csv(tmp_path / "raw/edge-feat.csv.gz", [[1], [2], [3]])
    write_csv(tmp_path / "raw/graph-label.csv.gz", [0, 1, 0])
    for part, graphs in {"train": [2], "valid": [0], "test": [1]}.items():
        write_csv(tmp_path / f"split/scaffold/{part}.csv.gz", graphs)
    graphs = read_ogb_graphs(tmp_path, "scaffold")
    assert graphs[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graphs[0].edge_attr.tolist() == [[1], [1], [2], [2]]
    assert graphs[1].num_nodes == 1
    assert graphs[2].x.tolist() == [[4, 40], [5, 50]]
    assert graphs.y.tolist() == [[0], [1], [0]]
    assert graphs.split_codes.tolist() == [1, 2, 0]


def test_missing_and_damaged_ogb_files_are_named(tmp_path):
    write_ogb_node(tmp_path)
    (tmp_path / "raw/node-label.csv.gz").unlink()
    with pytest.raises(ValueError, match=r"node-label\.csv\.gz cannot be read"):
        read_ogb_node(tmp_path, "time", add_reverse_edges=False)
    write_csv(tmp_path / "raw/node-label.csv.gz", ["a", "b"])
    with pytest.raises(ValueError, match=r"node-label\.csv\.gz must contain numbers only"):
        read_ogb_node(tmp_path, "time", add_reverse_edges=False)
    whole = (tmp_path / "raw/edge.csv.gz").read_bytes()
    (tmp_path / "raw/edge.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"edge\.csv\.gz cannot be read"):
        read_ogb_node(tmp_path, "time", add_reverse_edges=False)


# ---- BlogCatalog -----------------------------------------------------------------------------------------------

TABLES = {"nodes": "1\n2\n3\n", "groups": "1\n2\n", "edges": "1,2\n2,3\n", "group-edges": "1,2\n3,1\n3,2\n"}


def write_blogcatalog(folder: Path, changes: dict[str, str]) -> None:
    for name, text in (TABLES | changes).items():
        (folder / f"{name}.csv").write_text(text)


def test_both_formats_of_blogcatalog_give_the_same_graph(tmp_path):
    write_blogcatalog(tmp_path, {})
    np.savez(tmp_path / "b.npz", edge=[[0, 1], [1, 2]], member=[[0, 1], [2, 0], [2, 1]], num_nodes=3, num_labels=2)
    for data in (read_blogcatalog_csv(tmp_path), read_blogcatalog(tmp_path / "b.npz")):
        assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
        assert data.y.tolist() == [[0, 1], [0, 0], [1, 1]]
        assert data.y.dtype == torch.float32
        assert data.x.to_dense().tolist() == torch.eye(3).tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": "1,4\n"}, "an index is outside of the 3 bloggers and 2 groups"),
        ({"edges": "0,1\n"}, "an index is outside of the 3 bloggers and 2 groups"),
        ({"group-edges": "1,3\n"}, "an index is outside of the 3 bloggers and 2 groups"),
        ({"edges": "1,2,3\n"}, r"must have shape \[\*, 2\], got \[1, 3\]"),
        ({"edges": "a,b\n"}, "edges.csv cannot be read"),
    ],
)
def test_wrong_tables_of_blogcatalog_are_named(tmp_path, changes, message):
    write_blogcatalog(tmp_path, changes)
    with pytest.raises(ValueError, match=message):
        read_blogcatalog_csv(tmp_path)


# ---- gnn-benchmark ---------------------------------------------------------------------------------------------


def benchmark_arrays() -> dict[str, np.ndarray]:
    adjacency = scipy.sparse.csr_matrix(np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]]))
    features = scipy.sparse.csr_matrix(np.array([[0, 2.0], [0.5, 0], [0, 0]]))
    parts = {"adj": adjacency, "attr": features}
    arrays = {f"{n}_{p}": getattr(m, p) for n, m in parts.items() for p in ("data", "indices", "indptr", "shape")}
    return arrays | {"labels": np.array([0, 1, 1])}


def test_a_graph_of_gnn_benchmark(tmp_path):
    arrays = benchmark_arrays()
    np.savez(tmp_path / "toy.npz", **arrays)
    data = read_gnn_benchmark(tmp_path / "toy.npz")
    assert data.edge_index.t().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]  # no self-loop, both directions
    assert data.x.to_dense().tolist() == [[0, 1], [1, 0], [0, 0]]
    assert data.y.tolist() == [0, 1, 1]
    dense = {name: array for name, array in arrays.items() if not name.startswith("attr")}
    np.savez(tmp_path / "toy.npz", **dense, attr_matrix=np.array([[0.5], [2], [3]]))
    assert read_gnn_benchmark(tmp_path / "toy.npz").x.tolist() == [[0.5], [2], [3]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adj_indptr": None}, "it has no array 'adj_indptr'"),
        ({"attr_indices": None}, "it has no array 'attr_indices'"),
        ({"labels": None}, "it has no array 'labels'"),
        ({"labels": [0]}, "has 3 nodes but 1 labels"),
        ({"labels": np.array([{}, 1, 2], dtype=object)}, "Object arrays cannot be loaded"),
        ({"adj_indices": [0, 9, 2]}, "are inconsistent"),
        ({"adj_indptr": [0, 9, 2, 3]}, "are inconsistent"),
        ({"adj_shape": [3, 4]}, "adj must be a square matrix"),
        ({"attr_shape": [3]}, "are inconsistent"),
        ({"attr_indptr": [0, 1, 2], "attr_shape": [2, 2]}, "has 3 nodes but 2 rows of features"),
    ],
)
def test_wrong_files_of_gnn_benchmark_are_named(tmp_path, change, message):
    arrays = benchmark_arrays() | change
    np.savez(tmp_path / "toy.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=f"toy.npz is not a file of the gnn-benchmark collection: .*{message}"):
        read_gnn_benchmark(tmp_path / "toy.npz")
