"""Hyperparameters of single models: heads, messages, gates, losses."""

from __future__ import annotations

import logging

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from tgnn.models import DataShape, build_model
from tgnn.models.graph_pooling import cluster_losses
from tgnn.models.phm_gnn import PHMConv
from tgnn.nn.readout import Readout


def path(nodes: int, seed: int = 0) -> Data:
    edges = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    x = torch.randn(nodes, 4, generator=torch.Generator().manual_seed(seed))
    return Data(x, torch.cat([edges, edges.flip(0)], 1), num_nodes=nodes)


@pytest.mark.parametrize("name", ["gat", "gat+cp"])
@pytest.mark.parametrize(
    ("hyperparameters", "heads"), [({}, 8), ({"out_heads": 1}, 1), ({"heads": 2, "out_heads": 3}, 3)]
)
def test_heads_of_the_last_layer(name, hyperparameters, heads):
    model = build_model(name, DataShape("node", 6, None, 3, nodes=9), 5, 2, 0.0, hyperparameters)
    assert [conv.heads for conv in model.gnn.convs] == [hyperparameters.get("heads", 8), heads]
    assert model(Data(torch.randn(9, 6), path(9).edge_index)).shape == (9, 3)


def test_simple_messages_ignore_edge_features_with_a_warning(caplog):
    shape = DataShape("graph", 4, 3, 1, degrees=(0, 2, 2))
    with caplog.at_level(logging.WARNING, logger="tgnn"):
        simple = build_model("dgn", shape, 8, 2, 0.0, {"messages": "simple"})
    assert "does not use the edge features of this data with model.messages=simple" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="tgnn"):
        rich = build_model("dgn", shape, 8, 2, 0.0, {})
        build_model("dgn", DataShape("graph", 4, None, 1), 8, 2, 0.0, {"messages": "simple"})
    assert not caplog.text
    assert not any("edge_function.encoder" in name for name, _ in simple.named_parameters())
    assert any("edge_function.encoder" in name for name, _ in rich.named_parameters())
    data = path(5)
    data.edge_attr = torch.randn(8, 3)
    assert simple(Batch.from_data_list([data, data])).shape == (2, 1)


def test_eps_of_hypercomplex_layers_is_trained_on_request():
    assert not isinstance(PHMConv(4, 2, "sum").eps, torch.nn.Parameter)
    assert isinstance(PHMConv(4, 2, "sum", train_eps=True).eps, torch.nn.Parameter)


@pytest.mark.parametrize("name", ["gmt", "phm-gnn"])
def test_dropout_of_the_head(name):
    shape = DataShape("graph", 4, None, 1)
    for hyperparameters, wanted in (({}, 0.25), ({"head_dropout": 0.5}, 0.5), ({"head_dropout": 0.0}, 0.0)):
        model = build_model(name, shape, 8, 2, 0.25, hyperparameters)
        assert model.dropout.p == 0.25
        assert model.head.dropout[:2] == [wanted, wanted]


def test_gated_readout():
    readout, x, batch = Readout("gated+sum", 4), torch.randn(5, 4), torch.tensor([0, 0, 2, 2, 2])
    lin = readout.poolings[0].lin
    out = readout(x, batch, 3)
    gated = torch.sigmoid(x @ lin.weight.T + lin.bias) * x
    for graph in range(3):
        wanted = torch.cat([gated[batch == graph].sum(0), x[batch == graph].sum(0)])
        torch.testing.assert_close(out[graph], wanted)


def losses(graphs: list[Data], width: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Cluster losses with the features as scores, padded to ``width`` nodes."""
    batch = Batch.from_data_list(graphs)
    scores, mask = to_dense_batch(batch.x, batch.batch, max_num_nodes=width)
    adj = to_dense_adj(batch.edge_index, batch.batch, max_num_nodes=scores.size(1))
    return cluster_losses(adj, scores.softmax(-1) * mask.unsqueeze(-1), mask)


def test_cluster_losses_equal_pyg_without_padding():
    graph = path(6)
    adj = to_dense_adj(graph.edge_index)
    *_, links, entropy = dense_diff_pool(graph.x[None], adj, graph.x[None])
    torch.testing.assert_close(losses([graph]), (links, entropy))


def test_cluster_losses_ignore_padding():
    graphs = [path(6), path(3, seed=1), path(1, seed=2)]
    torch.testing.assert_close(losses(graphs), losses(graphs, width=40))
    squares, entropy = 0.0, 0.0
    for graph in graphs:
        s = graph.x.softmax(1)
        squares += float((to_dense_adj(graph.edge_index, max_num_nodes=graph.num_nodes)[0] - s @ s.T).square().sum())
        entropy -= float((s * s.log()).sum())
    assert [float(loss) for loss in losses(graphs)] == pytest.approx([squares**0.5 / 46, entropy / 10], rel=1e-4)
