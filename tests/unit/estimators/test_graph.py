"""Graph-level estimators train on every form of a list of graphs."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from sklearn.model_selection import cross_val_score
from torch_geometric.data import Batch, Data

from tests.unit.estimators.conftest import as_networkx, rings
from tgnn import GraphClassifier, GraphRegressor
from tgnn.data.catalog.embedded import digits_graphs
from tgnn.data.graph_dataset import pack

QUICK = {"epochs": 4, "hidden": 8, "layers": 2, "rank": 4, "random_state": 0}


@pytest.mark.slow
def test_classification():
    graphs = rings(60)
    model = GraphClassifier(**{**QUICK, "epochs": 60, "batch_size": 16}).fit(graphs)
    assert model.score(rings(40, seed=1)) > 0.9
    assert model.n_features_in_ == 2
    assert model.predict_proba(graphs[:3]).shape == (3, 2)


@pytest.mark.slow
def test_regression():
    graphs = rings(80)
    sizes = [100.0 + 3 * graph.num_nodes for graph in graphs]
    model = GraphRegressor(**{**QUICK, "epochs": 80, "batch_size": 16, "dropout": 0.0, "lr": 0.02}).fit(graphs, sizes)
    new = rings(40, seed=1)
    assert model.score(new, [100.0 + 3 * graph.num_nodes for graph in new]) > 0.8


class Shuffled:
    """Like a pandas Series with shuffled rows: ``[]`` takes labels, and ``iloc`` positions."""

    def __init__(self, things, labels):
        self.iloc, self.labels = things, list(labels)

    def __len__(self):
        return len(self.iloc)

    def __getitem__(self, label):
        return self.iloc[self.labels.index(label)]


def test_a_series_is_read_by_position():
    graphs = rings(20)
    series = Shuffled(graphs, reversed(range(20)))
    wanted = GraphClassifier(**QUICK).fit(graphs).predict_proba(graphs)
    assert np.array_equal(GraphClassifier(**QUICK).fit(series).predict_proba(series), wanted)


def test_every_form_gives_the_same():
    graphs = rings(20)
    y = [int(graph.y) for graph in graphs]
    named = []
    for graph in graphs:
        named.append(as_networkx(graph, y=False))
        named[-1].graph["y"] = int(graph.y)
    directed = [networkx.DiGraph(graph) for graph in named]
    pairs = [(graph.x.numpy(), graph.edge_index.numpy()) for graph in graphs]
    matrices = [(graph.x.to_sparse(), networkx.to_scipy_sparse_array(one)) for graph, one in zip(graphs, named)]
    wanted = GraphClassifier(**QUICK).fit(graphs).predict_proba(graphs)
    for form in (pack(graphs), tuple(graphs), pairs, tuple(pairs), Batch.from_data_list(graphs).to_data_list()):
        assert np.array_equal(GraphClassifier(**QUICK).fit(form, y).predict_proba(form), wanted)
    assert np.array_equal(GraphClassifier(**QUICK).fit(pack(graphs)).predict_proba(graphs), wanted)
    for form in (named, directed, matrices):  # their edges are in another order
        model = GraphClassifier(**QUICK).fit(form, y if form is matrices else None)
        assert np.allclose(model.predict_proba(form), wanted, atol=1e-4)


def test_text_for_labels_and_minus_one():
    graphs = rings(20)
    for label in ({0: "path", 1: "ring"}, {0: -1, 1: 1}):  # -1 is a class here: each graph has one
        model = GraphClassifier(**QUICK).fit(graphs, [label[int(graph.y)] for graph in graphs])
        assert model.classes_.tolist() == sorted(label.values())
        assert set(model.predict(graphs).tolist()) <= set(label.values())


def test_cross_validation_over_graphs():
    graphs = digits_graphs()
    few = [graphs[number] for number in range(60)]
    y = graphs.y[:60].numpy() % 2
    for form in (few, pack(few)):
        scores = cross_val_score(GraphClassifier(**{**QUICK, "epochs": 2}), form, y, cv=3, error_score="raise")
        assert scores.shape == (3,)


def test_given_validation():
    graphs = rings(20)
    held = np.arange(20) >= 14
    model = GraphClassifier(**QUICK).fit(graphs, validation=held)
    other = [graph.clone() for graph in graphs]
    for graph in other[14:]:
        graph.y = 1 - graph.y  # the validation set selects the epoch and is not trained on
    again = GraphClassifier(**QUICK).fit(other, validation=torch.from_numpy(held))
    assert [line["loss"] for line in model.history_] == [line["loss"] for line in again.history_]
    assert [line["val_loss"] for line in model.history_] != [line["val_loss"] for line in again.history_]


def test_edge_features_and_categories():
    graphs = rings(20)
    for graph in graphs:
        graph.x = torch.arange(graph.num_nodes) % 3
        graph.edge_attr = torch.ones(graph.num_edges, dtype=torch.int64)
    model = GraphClassifier(**QUICK).fit(graphs)
    assert model.shape_.features == (3,)
    assert model.shape_.edge_features == (2,)
    without = GraphClassifier(**QUICK, options={"data.edge_features": False}).fit(graphs)
    assert without.shape_.edge_features is None
    assert without.predict(graphs).shape == (20,)
    with pytest.raises(ValueError, match="has the category 7, but .* was trained with the categories 0 to 2"):
        model.predict([Data(x=graphs[0].x + 5, edge_index=graphs[0].edge_index, edge_attr=graphs[0].edge_attr)])


def test_the_graphs_are_not_changed():
    graphs = rings(20)
    packed = pack(graphs)
    before = packed.y.clone()
    GraphClassifier(**QUICK).fit(packed, ["ab"[int(y)] for y in packed.y]).predict(packed)
    assert torch.equal(packed.y, before)
    assert not hasattr(packed, "info")
