"""OGB's raw files, and PyG's file of superpixels, made here in their real shape."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
import torch
from torch_geometric.datasets import GNNBenchmarkDataset

from tgnn.data.readers.ogb import read_ogb_graphs, read_ogb_node
from tgnn.data.readers.superpixel_pt import read_benchmarking_gnns


def write(path, table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(",".join(str(value) for value in np.atleast_1d(row)) + "\n" for row in table)


def node_files(folder, features=True) -> None:
    write(folder / "raw/edge.csv.gz", [[0, 1], [1, 2], [3, 0]])
    write(folder / "raw/num-node-list.csv.gz", [4])
    write(folder / "raw/num-edge-list.csv.gz", [3])
    if features:
        write(folder / "raw/node-feat.csv.gz", [[0.5, -1.25], [1, 2], [3, 4], [5, 6]])
        write(folder / "raw/node-label.csv.gz", [2, 0, 1, 2])
    else:
        write(folder / "raw/edge-feat.csv.gz", [[0.5, 0.25], [1.0, 0.0], [0.0, 1.0]])
        write(folder / "raw/node-label.csv.gz", [[0, 1], [1, 1], [0, 0], [1, 0]])
    for part, nodes in {"train": [3, 0], "valid": [1], "test": [2]}.items():
        write(folder / f"split/time/{part}.csv.gz", nodes)


def test_node_set(tmp_path):
    node_files(tmp_path)
    data = read_ogb_node(tmp_path, "time", add_reverse_edges=False)
    assert data.edge_index.tolist() == [[0, 1, 3], [1, 2, 0]]
    assert data.x.dtype == torch.float32
    assert data.x[0].tolist() == [0.5, -1.25]
    assert data.y.tolist() == [2, 0, 1, 2]
    assert data.train_mask.tolist() == [True, False, False, True]


def test_each_edge_is_followed_by_its_reverse(tmp_path):
    node_files(tmp_path)
    assert read_ogb_node(tmp_path, "time", add_reverse_edges=True).edge_index.tolist() == [
        [0, 1, 1, 2, 3, 0],
        [1, 0, 2, 1, 0, 3],
    ]


def test_nodes_without_features_take_the_mean_of_their_edges(tmp_path):
    node_files(tmp_path, features=False)
    data = read_ogb_node(tmp_path, "time", add_reverse_edges=True)
    assert data.edge_attr.tolist() == [[0.5, 0.25]] * 2 + [[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2
    assert data.x.tolist() == [[0.25, 0.625], [0.75, 0.125], [1.0, 0.0], [0.0, 1.0]]
    assert data.y.tolist() == [[0, 1], [1, 1], [0, 0], [1, 0]]


def test_graph_set(tmp_path):
    write(tmp_path / "raw/edge.csv.gz", [[0, 1], [1, 2], [0, 1]])
    write(tmp_path / "raw/num-node-list.csv.gz", [3, 1, 2])
    write(tmp_path / "raw/num-edge-list.csv.gz", [2, 0, 1])
    write(tmp_path / "raw/node-feat.csv.gz", [[i, 10 * i] for i in range(6)])
    write(tmp_path / "raw/edge-feat.csv.gz", [[1], [2], [3]])
    write(tmp_path / "raw/graph-label.csv.gz", [0, 1, 0])
    for part, graphs in {"train": [2], "valid": [0], "test": [1]}.items():
        write(tmp_path / f"split/scaffold/{part}.csv.gz", graphs)
    graphs = read_ogb_graphs(tmp_path, "scaffold")
    assert graphs[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graphs[0].edge_attr.tolist() == [[1], [1], [2], [2]]
    assert graphs[1].num_nodes == 1
    assert graphs[2].x.tolist() == [[4, 40], [5, 50]]
    assert graphs[2].edge_index.tolist() == [[0, 1], [1, 0]]
    assert graphs.y.tolist() == [[0], [1], [0]]
    split = graphs.stored_split()
    assert [split.train.tolist(), split.val.tolist(), split.test.tolist()] == [[2], [0], [1]]


def test_missing_and_damaged_files_are_named(tmp_path):
    node_files(tmp_path)
    (tmp_path / "raw/node-label.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"node-label\.csv\.gz does not exist"):
        read_ogb_node(tmp_path, "time", add_reverse_edges=False)
    write(tmp_path / "raw/node-label.csv.gz", ["a", "b"])
    with pytest.raises(ValueError, match=r"node-label\.csv\.gz must contain numbers only"):
        read_ogb_node(tmp_path, "time", add_reverse_edges=False)
    whole = (tmp_path / "raw/edge.csv.gz").read_bytes()
    (tmp_path / "raw/edge.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"edge\.csv\.gz cannot be read"):
        read_ogb_node(tmp_path, "time", add_reverse_edges=False)


def superpixel_file(path) -> None:
    generator = torch.Generator().manual_seed(0)

    def graph(nodes: int) -> dict[str, torch.Tensor]:
        return {
            "x": torch.rand(nodes, 1, generator=generator),
            "pos": torch.rand(nodes, 2, generator=generator),
            "edge_index": torch.randint(nodes, (2, 3 * nodes), generator=generator),
            "edge_attr": torch.rand(3 * nodes, generator=generator),
            "y": torch.tensor([nodes % 10]),
        }

    path.parent.mkdir(parents=True)
    torch.save([[graph(4), graph(5)], [graph(6)], [graph(7)]], path)


def test_superpixels_as_pyg_reads_them(tmp_path):
    superpixel_file(tmp_path / "MNIST/raw/MNIST_v2.pt")
    ours = read_benchmarking_gnns(tmp_path / "MNIST/raw/MNIST_v2.pt")
    theirs = [graph for part in ("train", "val", "test") for graph in GNNBenchmarkDataset(tmp_path, "MNIST", part)]
    assert len(ours) == len(theirs) == 4
    for one, other in zip(ours, theirs):
        assert torch.equal(one.x, torch.cat([other.x, other.pos], dim=1))
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.edge_attr, other.edge_attr.reshape(-1, 1))
        assert torch.equal(one.y, other.y)
    assert ours.stored_split().train.tolist() == [0, 1]


class Poison:
    """Pickled, it is a program that touches a file."""

    def __init__(self, target) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


def test_a_poisoned_file_of_superpixels_runs_nothing(tmp_path):
    torch.save([[], [], [Poison(tmp_path / "poisoned")]], tmp_path / "MNIST_v2.pt")
    with pytest.raises(ValueError, match=r"MNIST_v2\.pt is not a file of"):
        read_benchmarking_gnns(tmp_path / "MNIST_v2.pt")
    assert not (tmp_path / "poisoned").exists()
