"""GraphDataset: a data set of PyG with fast batches, subsets and assignable tensors; files of graphs."""

from __future__ import annotations

import contextlib
import copy
import pickle

import numpy as np
import polars as pl
import pytest
import torch
from tests.unit.data.tables import findings
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Constant

from tgnn.data.convert import write as write_disk
from tgnn.data.dataset_info import content_hash, infer_dataset_info
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.detect import read_path
from tgnn.data.readers.graph_npz import read_graph, read_graphs, write_graphs
from tgnn.data.tensors import keep_ids

ARRAYS = {
    "num_nodes": np.array([2, 0, 3]),
    "num_edges": np.array([1, 0, 2]),
    "edge_index": np.array([[0, 0, 2], [1, 1, 1]], dtype=np.uint8),
    "directed": np.array(False),
    "x": np.arange(5, dtype=np.uint8).reshape(5, 1),
    "pos": np.arange(10, dtype=np.int16).reshape(5, 2),
    "pos_scale": np.array(0.5),
    "edge_attr": np.array([[1], [2], [3]], dtype=np.uint8),
    "y": np.array([0.5, 1.5, 2.5]),
    "split": np.array([0, 2, 1]),
}


def named_graphs() -> GraphDataset:
    """Graphs with everything that can be stored."""
    dataset = GraphDataset(
        ARRAYS | {"edge_weight": np.array([0.5, 0, 1])},
        graph_id=keep_ids(pl.Series(["a", "b", "c"])),
        encoding={"version": 1},
        smiles=["CO", "", "C"],
    )
    dataset.test_folds = [[0], [1, 2]]
    return dataset


def assert_same_graph(one: Data, other: Data) -> None:
    assert set(one.keys()) == set(other.keys())
    for name, value in one.to_dict().items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(other[name])), name


def test_graphs_are_slices_of_the_arrays():
    graphs = GraphDataset(ARRAYS)
    assert len(graphs) == len(list(graphs)) == 3
    last = graphs[-1]
    assert last.num_nodes == 3
    assert last.x.tolist() == [[2], [3], [4]]
    assert last.x.dtype == torch.int64
    assert last.pos.tolist() == [[2.0, 2.5], [3.0, 3.5], [4.0, 4.5]]
    assert last.edge_index.tolist() == [[0, 2, 1, 1], [1, 1, 0, 2]]
    assert last.edge_attr.flatten().tolist() == [2, 3, 2, 3]
    assert last.y.tolist() == [2.5]
    assert graphs[1].edge_index.shape == (2, 0)
    split = graphs.stored_split()
    assert [p.tolist() for p in (split.train, split.val, split.test)] == [[0], [2], [1]]
    for number in (-4, 3):
        for access in (graphs.__getitem__, lambda index: graphs.batch(torch.tensor([0, index]))):
            with pytest.raises(IndexError, match=f"graph index {number} is out of range for 3"):
                access(number)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((4, 1))}, "x must have 5 entries, got 4"),
        ({"y": np.zeros(2)}, "y must have 3 entries, got 2"),
        ({"edge_index": np.array([[0, 0, 3], [1, 1, 1]])}, "contains node 3, but its graph has 3 nodes"),
        ({"edge_index": np.zeros((3, 3))}, r"edge_index must have shape \[2, E\]"),
        ({"edge_index": np.array([[0.4, 0, 2], [1, 1, 1]])}, "edge_index must contain integers"),
        ({"num_nodes": None}, "needs the array 'num_nodes'"),
        ({"num_nodes": np.array([2, -1, 3])}, "num_nodes must be a one-dimensional array of non-negative integers"),
        ({"num_nodes": np.array([2.7, 0, 3])}, r"num_nodes must contain integers, got float64: \[2.7"),
        ({"num_edges": None}, "needs the array 'num_edges'"),
        ({"y": np.array(["a", "b", "c"])}, "must contain numbers"),
        ({"y": np.array(1)}, "must contain numbers"),
        ({"split": np.array([0, 1])}, "split must have 3 entries, got 2"),
        ({"split": np.array([0, 1, 1.5])}, "split must contain integers"),
        ({"pos_scale": np.array([1, 2])}, "pos_scale must be a single number"),
        ({"edge_weight": np.ones(2)}, "edge_weight must have 3 entries, got 2"),
    ],
)
def test_inconsistent_arrays_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        GraphDataset({name: array for name, array in (ARRAYS | change).items() if array is not None})


# ---- access as in PyG ------------------------------------------------------------------------------------------


def test_it_is_an_in_memory_dataset_of_pyg():
    dataset = named_graphs()
    assert isinstance(dataset, InMemoryDataset)
    assert (dataset.num_node_features, dataset.num_edge_features) == (1, 1)
    assert GraphDataset(ARRAYS | {"y": np.array([0, 2, 1])}).num_classes == 3
    with pytest.raises(AttributeError, match="no attribute 'color'"):
        _ = dataset.color
    pickled = pickle.loads(pickle.dumps(dataset))
    assert content_hash(pickled) == content_hash(dataset)
    assert pickled.get_summary().num_graphs == 3
    assert dataset.to("cpu") is dataset
    shuffled, order = dataset.shuffle(return_perm=True)
    assert shuffled.y.tolist() == dataset.y[order].tolist()


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (slice(None, None, -2), [2, 0]),
        (slice(None, 0.7), [0, 1]),
        ([2, 0, 2], [2, 0, 2]),
        (torch.tensor([-1, 0]), [2, 0]),
        (torch.tensor([True, False, True]), [0, 2]),
        (np.array([False, True, False]), [1]),
        (torch.empty(0, dtype=torch.int64), []),
    ],
)
def test_a_subset_is_a_data_set_with_its_own_attributes(index, expected):
    dataset = named_graphs()
    dataset.split = dataset.stored_split()
    subset = dataset[index]
    assert isinstance(subset, GraphDataset)
    assert len(subset) == len(expected)
    for graph, position in zip(subset, expected):
        assert_same_graph(graph, dataset[position])
    assert subset.y.tolist() == dataset.y[expected].tolist()
    assert subset.num_nodes.tolist() == dataset.num_nodes[expected].tolist()
    assert subset.graph_id.tolist() == [dataset.graph_id[position] for position in expected]
    assert subset.smiles == [dataset.smiles[position] for position in expected]
    assert subset.encoding == dataset.encoding
    assert len(subset.stored_split().train) == expected.count(0)
    assert subset.test_folds is None
    assert not hasattr(subset, "split")
    assert_same_graph(subset.batch(list(range(len(expected)))), dataset.batch(expected))
    if not isinstance(index, slice):
        assert_same_graph(dataset.batch(index), dataset.batch(expected))


def test_a_copy_shares_no_tensors_and_keeps_the_split():
    dataset = named_graphs()
    dataset.split = dataset.stored_split()
    copied = dataset.copy()
    assert content_hash(copied) == content_hash(dataset)
    assert (copied.split, copied.test_folds) == (dataset.split, dataset.test_folds)
    assert not hasattr(dataset.copy([0]), "split")
    copied.x[0] = 7
    copied.y = torch.zeros(3)
    assert content_hash(dataset) == content_hash(named_graphs())


@pytest.mark.parametrize("workers", [0, 1])
def test_the_loader_of_pyg(workers):
    dataset = GraphDataset(ARRAYS)
    (batch,) = DataLoader(dataset, batch_size=3, num_workers=workers)
    assert batch.num_graphs == 3
    assert_same_graph(batch.to_data_list()[2], dataset[2])
    assert torch.equal(batch.x, dataset.batch([0, 1, 2]).x)


def test_transforms_are_applied_on_access():
    dataset = GraphDataset(ARRAYS, transform=Constant(3.0, cat=False))
    assert dataset[0].x.tolist() == [[3.0], [3.0]]
    assert dataset.batch([0, 2]).x.tolist() == [[3.0]] * 5
    assert dataset[1:].batch([1]).x.tolist() == [[3.0]] * 3
    assert dataset.get(0).x.tolist() == [[0], [1]]


# ---- batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [True, False])
def test_a_batch_equals_that_of_pyg(directed):
    graphs = GraphDataset(ARRAYS | {"directed": directed})
    numbers = [2, 0, 2, 1]
    ours, theirs = graphs.batch(numbers), Batch.from_data_list([graphs[number] for number in numbers])
    for name in ("x", "pos", "y", "batch", "ptr"):
        assert torch.equal(ours[name], theirs[name]), name
    assert (ours.num_graphs, ours.num_nodes) == (theirs.num_graphs, theirs.num_nodes) == (4, 8)

    def edges_of(batch):  # the order differs where an edge stands for both directions
        return sorted(zip(*batch.edge_index.tolist(), batch.edge_attr.flatten().tolist()))

    assert edges_of(ours) == edges_of(theirs)


# ---- attributes ------------------------------------------------------------------------------------------------


def test_edge_weights_are_kept_without_edge_features():
    graphs = GraphDataset(ARRAYS | {"edge_weight": np.array([1, 0, 1])})
    assert graphs[2].edge_weight.tolist() == [0, 1, 0, 1]
    slim = graphs.without_edge_features()
    assert slim.edge_attr is None
    assert slim.edge_weight.dtype == torch.float32
    heavy = GraphDataset(ARRAYS | {"edge_weight": np.array([1, 0, 2])})
    assert [(f.code, f.locations) for f in findings(heavy) if f.level == "error"] == [("weight-outside", (2,))]


def test_an_added_attribute_is_sliced_and_not_written(tmp_path):
    dataset = GraphDataset(ARRAYS)
    other = copy.copy(dataset)
    dataset.add("eigenvector", torch.arange(5.0))
    assert dataset[2].eigenvector.tolist() == dataset.batch([2]).eigenvector.tolist() == [2.0, 3.0, 4.0]
    assert "eigenvector" not in other[2]
    with pytest.raises(ValueError, match="eigenvector must have 5 entries, got 3"):
        dataset.add("eigenvector", torch.arange(3.0))
    write_graphs(dataset, tmp_path / "graphs.npz")
    assert content_hash(read_graphs(tmp_path / "graphs.npz")) == content_hash(other)


def test_stored_attributes_can_be_assigned_and_removed(tmp_path):
    dataset = GraphDataset(ARRAYS)
    other = copy.copy(dataset)
    dataset.x = torch.ones(5, 3)
    dataset.pos = None
    assert dataset.x.shape == (5, 3)
    assert dataset.num_node_features == 3
    assert dataset[2].x.tolist() == dataset.batch([2]).x.tolist() == [[1.0] * 3] * 3
    assert "pos" not in dataset[2]
    assert other.x.tolist() == [[0], [1], [2], [3], [4]]
    write_graphs(dataset, tmp_path / "graphs.npz")
    assert read_graphs(tmp_path / "graphs.npz").x.tolist() == dataset.x.tolist()
    with pytest.raises(ValueError, match="x must have 5 entries, got 4"):
        dataset.x = torch.ones(4, 3)
    with pytest.raises(AttributeError, match="num_nodes of a GraphDataset cannot be assigned"):
        dataset.num_nodes = torch.tensor([5])


# ---- files of graphs -------------------------------------------------------------------------------------------


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
        (
            read_graphs,
            {"encoding": np.array('{"target": {"task": "classes"}}')},
            "the task is 'classes', but must be 'classification'",
        ),
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
