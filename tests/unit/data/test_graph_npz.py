"""Graphs in one .npz file: written, read again, and damaged."""

from __future__ import annotations

import contextlib

import numpy as np
import polars as pl
import pytest
import torch
from tests.unit.data.test_graph_dataset import ARRAYS, named_graphs
from torch_geometric.data import Data

from tgnn.data.convert import write as write_disk
from tgnn.data.dataset_info import content_hash, infer_dataset_info
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.detect import read_path
from tgnn.data.readers.graph_npz import read_graph, read_graphs, write_graphs
from tgnn.data.tensors import keep_ids


def example(sparse: bool) -> Data:
    x = torch.tensor([[0.0, 2.0], [0.0, 0.0], [1.5, 0.0]])
    masks = torch.eye(3, dtype=torch.bool)
    return Data(
        x=x.to_sparse_csr() if sparse else x,
        edge_index=torch.tensor([[0, 1], [1, 1]]),
        edge_attr=torch.ones(2, 3),
        edge_weight=torch.tensor([0.5, 1.0]),
        y=torch.tensor([0, -1, 1]),
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        num_nodes=3,
    )


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("ids", [["ann", "bob", "007"], [3, 1, 2**50]])
def test_a_graph_is_the_same_after_writing(tmp_path, sparse, ids):
    data = example(sparse)
    data.node_id, data.encoding = keep_ids(pl.Series(ids)), {"version": 1, "target": None}
    write_graphs(data, tmp_path / "g.npz", "of the test")
    again, _ = read_path(tmp_path / "g.npz")
    assert again.x.layout == data.x.layout
    assert torch.equal(again.x.to_dense(), data.x.to_dense())
    for name in ("edge_index", "edge_attr", "edge_weight", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(again[name], data[name]), name
    assert (again.num_nodes, again.node_id.tolist(), again.encoding) == (3, ids, data.encoding)
    assert type(again.node_id) is type(data.node_id)
    assert infer_dataset_info(again, "", "").differs == "of the test"
    assert content_hash(again) == content_hash(data)
    again.edge_weight[0] = 1
    assert content_hash(again) != content_hash(data)
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


@pytest.mark.parametrize("ids", [["a", "b", "c\0"], [7, -8, 2**40]])
def test_graphs_are_the_same_after_writing(tmp_path, ids):
    graphs = named_graphs()
    graphs.graph_id = keep_ids(pl.Series(ids))
    graphs.encoding = {"version": 1, "target": {"task": "regression", "columns": ["y"]}, "words": ["ü", "7"]}
    write_graphs(graphs, tmp_path / "graphs.npz", "made here")
    again = read_graphs(tmp_path / "graphs.npz")
    assert again.graph_id.tolist() == ids
    assert (again.encoding, again.smiles, again.test_folds) == (graphs.encoding, graphs.smiles, graphs.test_folds)
    assert torch.equal(again.edge_weight, graphs.edge_weight)
    assert infer_dataset_info(again, "", "").differs == "made here"
    assert content_hash(again) == content_hash(graphs) != content_hash(GraphDataset(ARRAYS))


@pytest.mark.parametrize("values", [[-1, 2**33 + 1], [-200, 100], [0, 2**40], [-5, -3], [255, 256]])
def test_integers_are_stored_in_small_types_without_loss(tmp_path, values):
    graphs = GraphDataset({"num_nodes": [2], "x": np.array([values]).T, "y": [0]})
    write_graphs(graphs, tmp_path / "graphs.npz")
    assert read_graphs(tmp_path / "graphs.npz").x.flatten().tolist() == values


def test_masks_that_overlap_are_not_written(tmp_path):
    data = example(False)
    data.test_mask = data.train_mask
    with pytest.raises(ValueError, match="the three sets must be disjoint"):
        write_graphs(data, tmp_path / "g.npz")
    with pytest.raises(ValueError, match="the three sets must be disjoint"):
        write_disk(data, tmp_path / "g", leave_out=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("data", [example(True), GraphDataset(ARRAYS)], ids=["graph", "graphs"])
def test_a_damaged_file_is_named_or_read_correctly(tmp_path, data):
    path = tmp_path / "g.npz"
    write_graphs(data, path)
    whole, expected, rejected = path.read_bytes(), content_hash(data), 0
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(ValueError):
            assert content_hash(read_path(path)[0]) == expected
            continue
        rejected += 1
    assert rejected > len(whole) / 9


GRAPH = {"num_nodes": 3, "edge_index": np.array([[0], [1]]), "y": np.zeros(3)}


@pytest.mark.parametrize(
    ("read", "change", "message"),
    [
        (read_graph, {"edge_index": None}, "it has no array 'edge_index'"),
        (read_graph, {"edge_index": np.array([[0], [9]])}, "edge_index contains node 9, but the graph has 3"),
        (read_graph, {"edge_index": np.array([[-1], [1]])}, "edge_index contains node -1, but the graph has 3"),
        (read_graph, {"edge_index": np.array([[0.5], [1]])}, "edge_index must contain integers"),
        (read_graph, {"edge_index": np.array([[0, 1]])}, r"edge_index must have shape \[2, E\]"),
        (read_graph, {"y": np.zeros(2)}, "y must have 3 rows, got 2"),
        (read_graph, {"x": np.array(["a", "b", "c"])}, "x must contain numbers"),
        (read_graph, {"x": np.array([object()])}, "Object arrays cannot be loaded"),
        (read_graph, {"x.ptr": np.array([0, 0, 0, 0])}, "it has no array 'x.columns'"),
        (
            read_graph,
            {"x.ptr": [0, 9, 0, 0], "x.columns": [0], "x.values": [1.0], "x.shape": [3, 1]},
            "the arrays of a sparse matrix are inconsistent",
        ),
        (read_graph, {"num_nodes": 2.7}, "num_nodes must contain integers"),
        (read_graph, {"num_nodes": np.array([[3]])}, "num_nodes must be a single non-negative integer"),
        (read_graph, {"split": np.array([0, 1])}, r"split must have shape \[3\], got \[2\]"),
        (read_graph, {"node_id": np.array([1, 2])}, "node_id must have 3 entries, got 2"),
        (read_graphs, {"graph_id": np.array([1, 2])}, "graph_id must have 3 entries, got 2"),
        (read_graphs, {"graph_id": np.array('["a", "b", 3]')}, "graph_id must contain strings"),
        (read_graphs, {"encoding": np.array("[]")}, "encoding must be a dictionary, got \\[\\]"),
        (read_graphs, {"smiles": np.array("C")}, "smiles is not JSON"),
        (read_graphs, {"num_nodes": np.array(3)}, "num_nodes must be a one-dimensional array"),
        (read_graphs, {"y": np.array([{"a": 1}, 2, 3], dtype=object)}, "Object arrays cannot be loaded"),
    ],
)
def test_invalid_files_are_named(tmp_path, read, change, message):
    arrays, what = (GRAPH, "a single graph") if read is read_graph else (ARRAYS, "many graphs")
    kept = {name: value for name, value in (arrays | change).items() if value is not None}
    np.savez(tmp_path / "g.npz", **kept)
    with pytest.raises(ValueError, match=f"g.npz is not a file of {what}: {message}"):
        read(tmp_path / "g.npz")
    (tmp_path / "g.npz").write_bytes(b"not a zip")
    with pytest.raises(ValueError, match=f"g.npz is not a file of {what}"):
        read(tmp_path / "g.npz")
