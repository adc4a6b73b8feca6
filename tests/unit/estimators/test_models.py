"""Estimators pass every model the same inputs as a training run."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.utils import degree

from tests.unit.estimators.conftest import rings
from tgnn import GraphClassifier, NodeClassifier
from tgnn.data.graph_dataset import pack

QUICK = {"epochs": 1, "hidden": 10, "layers": 2, "random_state": 0}


def mean_log(edge_index: torch.Tensor, nodes: int) -> float:
    return float((degree(edge_index[1], nodes) + 1).log().mean())


def test_degrees_are_those_of_the_graph(club):
    model = NodeClassifier(model="pna", **QUICK).fit(club)
    found = model.model_.gnn.convs[0].aggr_module.avg_deg_log
    assert float(found) == pytest.approx(mean_log(club.edge_index, 34), rel=1e-4)


@pytest.mark.parametrize("name", ["pna", "dgn"])
def test_degrees_are_those_of_the_graphs_to_learn_from(name):
    graphs, held = rings(10), np.arange(10) >= 8
    layer = GraphClassifier(model=name, **QUICK).fit(graphs, validation=held).model_.layers[0]
    found = layer.mean_log_degree if name == "dgn" else layer.aggr_module.avg_deg_log
    nodes = sum(graph.num_nodes for graph in graphs[:8])
    wanted = sum(mean_log(graph.edge_index, graph.num_nodes) * graph.num_nodes for graph in graphs[:8]) / nodes
    assert float(found) == pytest.approx(wanted, rel=1e-4)


def test_eigenvectors_are_found_once_and_the_graphs_are_not_changed():
    graphs = pack(rings(10))
    model = GraphClassifier(model="dgn", **QUICK).fit(graphs)
    alone = np.concatenate([model.predict_proba([graph]) for graph in graphs])
    assert np.allclose(model.predict_proba(graphs), alone, atol=1e-5)
    assert "eigenvector" not in graphs.tensors()


def test_node2vec_needs_no_features(club):
    bare = Data(edge_index=club.edge_index, num_nodes=34)
    named = networkx.karate_club_graph()
    for graph in (bare, named):
        model = NodeClassifier(model="node2vec", **QUICK).fit(graph, club.y)
        assert model.predict(graph).shape == (34,)
        assert model.n_features_in_ == 0
    assert NodeClassifier(model="gcn", **QUICK).fit(bare, club.y).n_features_in_ == 1  # the degree
    with pytest.raises(ValueError, match=r"node2vec trains on the whole graph; remove train\.num_neighbors"):
        NodeClassifier(model="node2vec", **QUICK, options={"train.num_neighbors": (5, 5)}).fit(bare, club.y)


def test_weights_that_were_learned_from_must_be_there(club):
    club.edge_weight = torch.rand(club.num_edges)
    plain = Data(x=club.x, edge_index=club.edge_index)
    model = NodeClassifier(model="gcn", **QUICK).fit(club)
    assert model.predict(club).shape == (34,)
    with pytest.raises(ValueError, match="X has no edge weights, but NodeClassifier was trained with edge weights"):
        model.predict(plain)
    assert NodeClassifier(model="gin", **QUICK).fit(club).predict(plain).shape == (34,)


def test_weights_that_are_all_1_are_none(club):
    half = club.edge_index.new_full((club.num_edges,), 1, dtype=torch.float) / 2
    ones = scipy.sparse.coo_array((np.ones(club.num_edges), club.edge_index.numpy()), shape=(34, 34))
    halves = scipy.sparse.coo_array((half.numpy(), club.edge_index.numpy()), shape=(34, 34))
    x = club.x.numpy()
    weighted = NodeClassifier(model="gcn", **QUICK).fit((x, halves), club.y)
    assert not np.allclose(weighted.predict_proba((x, ones)), weighted.predict_proba((x, halves)))
    plain = NodeClassifier(model="gcn", **QUICK).fit((x, ones), club.y)
    whole = Data(x=club.x, edge_index=club.edge_index, edge_weight=torch.ones(club.num_edges))
    assert np.array_equal(plain.predict_proba(whole), plain.predict_proba((x, club.edge_index)))
    assert whole.edge_weight is not None
    with pytest.raises(ValueError, match="X has edge weights, but NodeClassifier was trained without edge weights"):
        plain.predict((x, halves))


def test_positions_are_used_by_models_with_that_option():
    graphs = rings(10)
    for graph in graphs:
        graph.pos = torch.rand(graph.num_nodes, 3)
    model = GraphClassifier(model="monet", options={"model.pseudo": "position"}, **QUICK).fit(graphs)
    assert model.shape_.positions == 3
    before = model.predict_proba(graphs)
    assert np.array_equal(model.predict_proba(pack(graphs)), before)
    for graph in graphs:
        graph.pos = 2 * graph.pos
    assert not np.allclose(model.predict_proba(graphs), before)
    with pytest.raises(ValueError, match="was trained with 3 coordinates"):
        model.predict(rings(3))
    assert GraphClassifier(model="monet", **QUICK).fit(graphs).predict(rings(3)).shape == (3,)
    graphs[4].pos = torch.rand(1, 3)
    with pytest.raises(ValueError, match="graph 4 of X: pos must have shape"):
        model.predict(graphs)
    graphs[4].pos = None
    with pytest.raises(ValueError, match="graph 4 of X: it has no pos, unlike graph 0"):
        model.predict(graphs)
