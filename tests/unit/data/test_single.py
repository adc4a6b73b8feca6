"""One graph in one file, written and read again."""

from __future__ import annotations

import contextlib

import numpy as np
import polars as pl
import pytest
import torch
from torch_geometric.data import Data

from tgnn.data.dataset_info import content_hash, infer_dataset_info
from tgnn.data.on_disk.from_memory import write_disk
from tgnn.data.readers.detect import read_path
from tgnn.data.readers.graph_npz import read_graph, write_graphs
from tgnn.data.tensors import keep_ids


def example(sparse: bool) -> Data:
    x = torch.tensor([[0.0, 2.0], [0.0, 0.0], [1.5, 0.0]])
    masks = torch.eye(3, dtype=torch.bool)
    return Data(
        x=x.to_sparse_csr() if sparse else x,
        edge_index=torch.tensor([[0, 1], [1, 1]]),
        edge_attr=torch.ones(2, 3),
        y=torch.tensor([0, -1, 1]),
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        num_nodes=3,
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_round_trip(tmp_path, sparse):
    data = example(sparse)
    write_graphs(data, tmp_path / "g.npz", "of the test")
    again = read_graph(tmp_path / "g.npz")
    assert again.x.layout == data.x.layout
    assert torch.equal(again.x.to_dense(), data.x.to_dense())
    for name in ("edge_index", "edge_attr", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(again[name], data[name]), name
    assert again.num_nodes == 3
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


def test_masks_that_overlap(tmp_path):
    data = example(False)
    data.test_mask = data.train_mask
    with pytest.raises(ValueError, match="the three sets must be disjoint"):
        write_graphs(data, tmp_path / "g.npz")
    with pytest.raises(ValueError, match="the three sets must be disjoint"):
        write_disk(data, tmp_path / "g", leave_out=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("ids", [["ann", "bob", "007"], [3, 1, 2**50]])
def test_all_that_is_known_of_a_graph_is_written(tmp_path, sparse, ids):
    data = example(sparse)
    data.edge_weight = torch.tensor([0.5, 1.0])
    data.node_id, data.encoding = keep_ids(pl.Series(ids)), {"version": 1, "target": None}
    write_graphs(data, tmp_path / "g.npz", "of the test")
    again, _ = read_path(tmp_path / "g.npz")
    assert again.node_id.tolist() == ids
    assert type(again.node_id) is type(data.node_id)
    assert again.encoding == data.encoding
    assert infer_dataset_info(again, "", "").differs == "of the test"
    assert content_hash(again) == content_hash(data)
    again.edge_weight[0] = 1
    assert content_hash(again) != content_hash(data)


def test_a_damaged_file_is_named_or_read_right(tmp_path):
    path = tmp_path / "g.npz"
    write_graphs(example(True), path)
    whole, expected, rejected = path.read_bytes(), content_hash(example(True)), 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(ValueError):
            assert content_hash(read_path(path)[0]) == expected
            continue
        rejected += 1
    assert rejected > len(whole) / 3


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_graphs(example(False), tmp_path / "g.npz")
    before = (tmp_path / "g.npz").read_bytes()

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        write_graphs(example(True), tmp_path / "g.npz")
    assert (tmp_path / "g.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": None}, "it has no array 'edge_index'"),
        ({"edge_index": np.array([[0], [9]])}, "contains node 9, but the graph has 3"),
        ({"y": np.zeros(2)}, "y must have 3 rows, got 2"),
        ({"x": np.array([object()])}, "is not a file of a single graph"),
        ({"x": np.array(["a", "b", "c"])}, "must contain numbers"),
        ({"edge_index": np.array([[0.5], [1]])}, "edge_index must contain integers"),
        ({"edge_index": np.array([[-1], [1]])}, "contains node -1, but the graph has 3"),
        ({"num_nodes": 2.7}, "num_nodes must contain integers"),
        ({"num_nodes": np.array([[3]])}, "num_nodes must be a single non-negative integer"),
        ({"split": np.array([0, 1])}, r"split must have shape \[3\], got \[2\]"),
        ({"node_id": np.array([1, 2])}, "node_id must have 3 entries, got 2"),
        ({"x.ptr": np.array([0, 0, 0, 0])}, "it has no array 'x.columns'"),
    ],
)
def test_wrong_files_are_named(tmp_path, change, message):
    arrays = {"num_nodes": 3, "edge_index": np.array([[0], [1]]), "y": np.zeros(3)} | change
    np.savez(tmp_path / "g.npz", **{name: value for name, value in arrays.items() if value is not None})
    with pytest.raises(ValueError, match=message):
        read_graph(tmp_path / "g.npz")
