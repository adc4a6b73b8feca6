"""Prepared data: held-out labels, checked sets, features and shapes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch_geometric.utils import degree

from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.graph_dataset import GraphDataset, pack
from tgnn.data.load import load
from tgnn.data.splits import Split
from tgnn.data.transforms import scale_rows
from tgnn.training.config import Config, make_config
from tgnn.training.prepare import hold_out_test_labels, infer_shape, prepare, transform_features


@pytest.mark.parametrize("name", ["digits", "digits-graphs"])
def test_test_labels_are_held_out_and_read_once(name):
    data = load(name)
    truth = data.y[data.split.test].clone()
    prepared = hold_out_test_labels(data, data.split)
    assert bool((prepared.data.y[prepared.split.test] == -1).all())
    assert torch.equal(prepared.test_labels.read(), truth)
    with pytest.raises(RuntimeError, match="reads them once"):
        prepared.test_labels.read()


def test_the_hash_of_the_data_does_not_depend_on_the_split():
    one, other = (prepare(make_config({"data": {"name": "digits"}, "train": {"seed": seed}})) for seed in (0, 1))
    assert one.data_hash == other.data_hash
    assert one.split.hash != other.split.hash


def test_one_class_and_an_empty_validation_set_are_errors():
    data = load("karate")
    data.y[data.split.train] = 1
    with pytest.raises(ValueError, match="The training set of karate has examples of one class only"):
        hold_out_test_labels(data, data.split)
    none = torch.empty(0, dtype=torch.int64)
    with pytest.raises(ValueError, match="The validation set of karate is empty .* Label more examples"):
        hold_out_test_labels(data, dataclasses.replace(data.split, val=none))


def make_graphs(count: int, target: str, metric: str) -> GraphDataset:
    graphs = pack([{"x": torch.ones(2, 1), "edge_index": torch.tensor([[0], [1]]), "y": torch.zeros(1)}] * count)
    graphs.info = DatasetInfo("mine", "graph", target, metric, 1, "memory")
    return graphs


@pytest.mark.parametrize(("part", "name"), [("val", "validation"), ("test", "test")])
def test_undefined_roc_auc_is_an_error_before_training(part, name):
    graphs, split = make_graphs(12, "multi-label", "roc-auc"), Split("mine", 0, 12, *torch.arange(12).split(4))
    graphs.y = torch.arange(12).remainder(2).float().reshape(-1, 1)
    graphs.y[getattr(split, part)] = 0
    with pytest.raises(ValueError, match=f"ROC-AUC is not defined on the {name} set of mine"):
        hold_out_test_labels(graphs, split)


def test_one_training_graph_is_an_error():
    with pytest.raises(ValueError, match="The training set of mine has one graph"):
        hold_out_test_labels(make_graphs(3, "regression", "mae"), Split("mine", 0, 3, *torch.arange(3).split(1)))


@pytest.mark.parametrize("scaling", ["row-sum", "row-l2"])
def test_sparse_and_dense_rows_are_scaled_equally(scaling):
    x = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 2.0]])
    dense, sparse = scale_rows(x, scaling), scale_rows(x.to_sparse_csr(), scaling).to_dense()
    assert torch.allclose(dense, sparse)
    assert torch.allclose(dense.norm(p=1.0 if scaling == "row-sum" else 2.0, dim=1), torch.tensor([1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match=f"data.features={scaling} needs one graph"):
        prepare(make_config({"data": {"name": "digits-graphs", "features": scaling}}))


@pytest.mark.parametrize("directed", [False, True])
def test_degrees_equal_those_of_the_batch(directed):
    random = np.random.default_rng(0)
    nodes, edges = random.integers(1, 9, 12), random.integers(0, 15, 12)
    ends = random.integers(0, np.repeat(nodes, edges), (2, edges.sum()))  # with loops and repeated edges
    graphs = GraphDataset(
        {"num_nodes": nodes, "num_edges": edges, "edge_index": ends, "directed": directed, "y": np.zeros(12)}
    )
    for numbers in (torch.tensor([7, 2, 11]), torch.arange(12), torch.tensor([], dtype=torch.int64)):
        batch = graphs.batch(numbers)
        assert torch.equal(graphs.degrees(numbers), degree(batch.edge_index[1], batch.num_nodes, torch.long))
    graphs.info = DatasetInfo("", "graph", "classification", "accuracy", 2, "memory")
    counts = infer_shape(graphs, torch.arange(5)).degrees
    assert sum(counts) == nodes[:5].sum()
    assert sum(number * count for number, count in enumerate(counts)) == edges[:5].sum() * (1 if directed else 2)
    assert GraphDataset({"num_nodes": [2, 1], "y": [0, 1]}).degrees(torch.tensor([0, 1])).tolist() == [0, 0, 0]


def encoded_config(**options: object) -> Config:
    data = {"name": "digits-graphs", "positional_encoding": "random-walk", "positional_channels": 4, **options}
    return make_config({"data": data})


def test_positional_encodings_are_inputs_of_the_model():
    prepared, plain = prepare(encoded_config()), prepare(make_config({"data": {"name": "digits-graphs"}}))
    assert prepared.shape.features == 3 + 4
    assert prepared.data_hash == plain.data_hash  # the last bits of encodings depend on the machine
    with pytest.raises(ValueError, match=r"data\.relative_positions needs graphs with node positions"):
        prepare(encoded_config(relative_positions=True))
    with pytest.raises(ValueError, match="need a data set of many graphs, but digits is a single graph"):
        prepare(encoded_config(name="digits"))


def test_categories_stay_categories_beside_positional_encodings():
    graphs = make_graphs(4, "regression", "mae")
    graphs.x = torch.tensor([[0, 3], [2, 1]] * 4)
    shape = infer_shape(transform_features(graphs, encoded_config().data))
    assert shape.features == (3, 4, 0, 0, 0, 0)
