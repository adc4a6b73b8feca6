"""GraphDataset: a data set of PyG with fast batches, subsets and assignable tensors."""

from __future__ import annotations

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

from tgnn.data.dataset_info import content_hash
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graphs, write_graphs
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
