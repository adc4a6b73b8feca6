"""Published files of OGB, BlogCatalog, gnn-benchmark, Planetoid, ZINC and superpixels. No code in them is run."""

from __future__ import annotations

import gzip
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from tests.unit.data.downloads import Poison
from torch_geometric.datasets import ZINC, GNNBenchmarkDataset, Planetoid

from tgnn.data.build.superpixels import read_benchmarking_gnns
from tgnn.data.build.zinc import read_zinc
from tgnn.data.readers.blogcatalog import read_blogcatalog, read_blogcatalog_csv
from tgnn.data.readers.ogb import read_ogb_graphs, read_ogb_node
from tgnn.data.readers.planetoid import read_planetoid
from tgnn.data.readers.shchur_npz import read_gnn_benchmark
from tgnn.data.readers.unpickle import read_arrays, read_tensors

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


# ---- pickles ---------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "poisoned").exists()


class PoisonedStorage:
    """A stored tensor that has another pickle where its numbers should be."""

    def __reduce__(self):
        return torch.storage._load_from_bytes, (pickle.dumps(Poison()),)


class PoisonedTensor:
    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, (PoisonedStorage(), 0, (1,), (1,), False, None)


@pytest.mark.parametrize("read", [read_arrays, read_tensors])
@pytest.mark.parametrize(
    "content", [*(pickle.dumps(value) for value in (Poison(), print, torch.load)), b"", b"\x80\x04garbage"]
)
def test_the_unpicklers_create_arrays_and_tensors_only(read, content):
    with pytest.raises(ValueError, match="the file cannot be read"):
        read(content, "the file")


def test_unpickled_arrays_and_tensors():
    assert read_arrays(pickle.dumps({"a": np.arange(3)}), "x")["a"].tolist() == [0, 1, 2]
    stored = read_tensors(pickle.dumps(torch.arange(4)), "x")
    assert stored.load().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="a tensor of size .* cannot be read"):
        type(stored)(stored.content, 0, (5,), (1,)).load()  # beyond its storage
    with pytest.raises(ValueError, match=r"a tensor of size \(1,\) cannot be read"):
        read_tensors(pickle.dumps(PoisonedTensor()), "x").load()


# ---- Planetoid -------------------------------------------------------------------------------------------------


def write_planetoid(folder: Path, name: str = "tiny") -> None:
    """Write seven nodes. The test file is out of order and leaves out node 5, as Citeseer's does."""
    x = scipy.sparse.csr_matrix(np.eye(7, 4, dtype=np.float32))
    y = np.eye(7, 2, dtype=np.int32) + np.eye(7, 2, k=-2, dtype=np.int32)
    parts = {
        "x": x[:2],
        "allx": x[:4],
        "tx": x[[6, 4]],
        "y": y[:2],
        "ally": y[:4],
        "ty": y[[6, 4]],
        "graph": {0: [1, 1, 0], 1: [0], 6: [4], 4: [6]},
    }
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / f"ind.{name}.test.index").write_text("6\n4\n")


def test_planetoid(tmp_path):
    write_planetoid(tmp_path)
    data = read_planetoid(tmp_path, "tiny")
    expected = torch.eye(7, 4)
    expected[5] = 0
    assert torch.equal(data.x.to_dense(), expected)
    assert data.edge_index.t().tolist() == [[1, 0], [0, 1], [6, 4], [4, 6]]  # no self-loops, no duplicates
    assert data.train_mask.nonzero().flatten().tolist() == [0, 1]
    assert data.test_mask.nonzero().flatten().tolist() == [4, 6]
    (tmp_path / "ind.tiny.graph").write_bytes(pickle.dumps(Poison()))
    with pytest.raises(ValueError, match="ind.tiny.graph cannot be read: .*only arrays are allowed"):
        read_planetoid(tmp_path, "tiny")


@pytest.mark.parametrize("name", ["Cora", "Citeseer", "Pubmed"])
def test_the_real_planetoid_as_pyg_reads_it(name, tmp_path, real_data):
    raw = real_data(f"planetoid/{name}/raw")
    ours = read_planetoid(raw, name.lower())
    shutil.copytree(raw, tmp_path / name / "raw")
    theirs = Planetoid(str(tmp_path), name)[0]
    assert torch.equal(ours.x.to_dense(), theirs.x)
    for part in ("y", "edge_index", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(ours[part], theirs[part]), part


# ---- ZINC ------------------------------------------------------------------------------------------------------

COUNTS = {"train": 7, "val": 4, "test": 3}
CHOSEN = {"train": "5,0,3\n", "val": "1,2\n", "test": "2\r\n"}


def molecule(seed: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(seed)
    n = 2 + seed % 5
    half = torch.randint(0, 4, (n, n), generator=generator, dtype=torch.int32).triu(1)
    half[0, 1] = 1
    return {
        "num_atom": n,
        "atom_type": torch.randint(0, 28, (n,), generator=generator, dtype=torch.int32),
        "bond_type": half + half.t(),
        "logP_SA_cycle_normalized": torch.randn(1, generator=generator),
    }


def write_zinc(folder: Path, protocol: int = 3) -> None:
    folder.mkdir(exist_ok=True)
    for number, (part, count) in enumerate(COUNTS.items()):
        molecules = [molecule(100 * number + i) for i in range(count)]
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules, protocol=protocol))
        (folder / f"{part}.index").write_text(CHOSEN[part])


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_zinc_as_pyg_reads_it(tmp_path, protocol):
    write_zinc(tmp_path / "raw", protocol)
    ours = read_zinc(tmp_path / "raw")
    theirs = [data for part in COUNTS for data in ZINC(str(tmp_path), True, part)]
    assert len(ours) == len(theirs) == 6
    for a, b in zip(ours, theirs):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.edge_attr, b.edge_attr.view(-1, 1))
        assert torch.equal(a.y, b.y)
    assert ours.split_codes.tolist() == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("val.index", b"0,9\n", "contains the index 9, but there are 4 molecules"),
        ("val.index", b"a,b\n", "must contain integers separated by commas"),
        ("val.pickle", pickle.dumps({"a": 1}), "must contain a list of molecules, got dict"),
        ("val.pickle", pickle.dumps([{"atom_type": 1}] * 4), "molecule 1 has no tensor 'atom_type'"),
        ("val.pickle", pickle.dumps([molecule(0), Poison()]), "it contains posix.system, but only tensors"),
        (
            "val.pickle",
            pickle.dumps([molecule(0) | {"bond_type": torch.ones(3, 2)}] * 4),
            r"molecule 1 has 2 atoms, but bond_type has shape \[3, 2\]",
        ),
    ],
)
def test_wrong_files_of_zinc_are_named(tmp_path, name, content, message):
    write_zinc(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_zinc(tmp_path)


# ---- superpixels -----------------------------------------------------------------------------------------------


def superpixel_graph(nodes: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(nodes)
    return {
        "x": torch.rand(nodes, 1, generator=generator),
        "pos": torch.rand(nodes, 2, generator=generator),
        "edge_index": torch.randint(nodes, (2, 3 * nodes), generator=generator),
        "edge_attr": torch.rand(3 * nodes, generator=generator),
        "y": torch.tensor([nodes % 10]),
    }


def test_superpixels_as_pyg_reads_them(tmp_path):
    path = tmp_path / "MNIST/raw/MNIST_v2.pt"
    path.parent.mkdir(parents=True)
    torch.save([[superpixel_graph(4), superpixel_graph(5)], [superpixel_graph(6)], [superpixel_graph(7)]], path)
    ours = read_benchmarking_gnns(path)
    theirs = [graph for part in ("train", "val", "test") for graph in GNNBenchmarkDataset(tmp_path, "MNIST", part)]
    assert len(ours) == len(theirs) == 4
    for one, other in zip(ours, theirs):
        assert torch.equal(one.x, torch.cat([other.x, other.pos], dim=1))
        assert torch.equal(one.pos, other.pos)
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.edge_attr, other.edge_attr.reshape(-1, 1))
        assert torch.equal(one.y, other.y)
    assert ours.stored_split().train.tolist() == [0, 1]


@pytest.mark.parametrize("content", [[[], [], [Poison()]], [[]]])
def test_wrong_files_of_superpixels_are_named(tmp_path, content):
    torch.save(content, tmp_path / "MNIST_v2.pt")
    with pytest.raises(ValueError, match=r"MNIST_v2\.pt is not a file of"):
        read_benchmarking_gnns(tmp_path / "MNIST_v2.pt")
