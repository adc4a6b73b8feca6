"""TGNNBlock, and networks of blocks: the equations, the state of the edges, and configurations of one class."""

from __future__ import annotations

import pytest
import torch
from tests.conftest import random_edges
from torch_geometric.data import Batch, Data

from tgnn import TGNN, GraphTGNN
from tgnn.nn import TGNNBlock, TGNNConv

N, D = 12, 8
EDGES = random_edges(N, N, 30)
GATED = {"low_order": "gated_sum", "factors": "bounded", "degree_exponent": 0.5, "high_scale": 0.01}


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", None])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("ffn", [True, False])
def test_the_equations(residual, ffn, norm):
    block = TGNNBlock(D, D, 4, residual=residual, ffn=ffn, norm=norm, low_order="mean").eval()
    x = torch.randn(N, D)
    h = block.norm(block.conv(x, EDGES)).relu() + (x if residual else 0)
    expected = block.norm_ffn(h + block.lin_b(block.lin_a(h).relu())) if ffn else h
    torch.testing.assert_close(block(x, EDGES), expected)
    assert block.conv.act_low is None
    block.reset_parameters()
    assert not torch.allclose(block(x, EDGES), expected)


def test_a_layer_that_normalizes_its_branches_is_not_normalized_again():
    assert isinstance(TGNNBlock(D, D, 4, **GATED).norm, torch.nn.Identity)
    assert not isinstance(TGNNBlock(D, D, 4, **GATED).norm_ffn, torch.nn.Identity)
    assert not isinstance(TGNNBlock(D, D, 4).norm, torch.nn.Identity)


@pytest.mark.parametrize("edge_dim", [None, 3, D])
def test_edge_states(edge_dim):
    block = TGNNBlock(D, D, 4, update_edges=True, edge_dim=edge_dim, **GATED).eval()
    x, attr = torch.randn(N, D), None if edge_dim is None else torch.randn(30, edge_dim)
    out, state = block(x, EDGES, None, attr)
    _, gates = block.conv(x, EDGES, None, attr, return_edge_state=True)
    new = block.norm_edge(gates).relu()
    torch.testing.assert_close(state, attr + new if edge_dim == D else new)
    assert out.shape == (N, D)
    with pytest.raises(ValueError, match="update_edges=True needs low_order='gated_sum' or 'gated_mean', got 'sum'"):
        TGNNBlock(D, D, 4, update_edges=True)


@pytest.mark.parametrize("num_edges", [0, 1])
def test_training_batches_with_few_edges(num_edges):
    model = TGNN(D, D, 2, 3, rank=4, residual=True, norm="batch_norm", update_edges=True, edge_dim=2, **GATED)
    out = model(torch.randn(N, D), EDGES[:, :num_edges], edge_attr=torch.randn(num_edges, 2))
    out.sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_dropout_acts_in_training_only():
    block, x = TGNNBlock(D, D, 4, dropout=0.5), torch.randn(N, D)
    assert not torch.equal(block(x, EDGES), block(x, EDGES))
    block.eval()
    assert torch.equal(block(x, EDGES), block(x, EDGES))


def test_bipartite_blocks():
    block = TGNNBlock((D, 3), 5, 4, low_order="gated_mean").eval()
    sources, destinations, edges = torch.randn(6, D), torch.randn(4, 3), random_edges(6, 4, 11)
    assert block((sources, destinations), edges).shape == (4, 5)


@pytest.mark.parametrize("options", [{"residual": True}, {"ffn": True}, {"update_edges": True, **GATED}], ids=str)
@pytest.mark.parametrize("norm", [None, "batch_norm", "graph_norm"])
@pytest.mark.parametrize("jk", [None, "cat"])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_networks_of_blocks(options, norm, jk, num_layers):
    model = TGNN(-1, 16, num_layers, 5, rank=4, norm=norm, jk=jk, dropout=0.1, edge_dim=3, **options)
    out = model(torch.randn(N, D), EDGES, edge_weight=torch.rand(30), edge_attr=torch.randn(30, 3))
    assert out.shape == (N, 5)
    out.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.reset_parameters()
    assert all(isinstance(layer, TGNNBlock) for layer in model.convs)
    assert [layer.update_edges for layer in model.convs] == [model.update_edges] * (num_layers - 1) + [False]


def test_the_plain_network_has_no_blocks():
    model = TGNN(D, 16, 2, 5, rank=4)
    assert all(type(layer) is TGNNConv for layer in model.convs)


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("edge_dim", [None, 2, [3]])
@pytest.mark.parametrize("norm", ["batch_norm", "graph_norm"])
def test_graph_networks_of_blocks(rank, edge_dim, norm):
    """Graphs of a batch do not mix, with and without products."""
    graphs = []
    for nodes, edges in ((4, 6), (7, 12)):
        attr = torch.randint(3, (edges,)) if edge_dim == [3] else torch.randn(edges, 2)
        graphs.append(Data(x=torch.randn(nodes, D), edge_index=random_edges(nodes, nodes, edges), edge_attr=attr))
    batch = Batch.from_data_list(graphs)
    options = {"residual": True, "ffn": True, "update_edges": True, "readout": "mean", "norm": norm, **GATED}
    model = GraphTGNN(D, 16, 2, 3, rank=rank, edge_dim=edge_dim, **options)
    has_edges = edge_dim is not None
    out = model(batch.x, batch.edge_index, batch.batch, batch.edge_attr if has_edges else None)
    out.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert any("cp" in name for name, _ in model.named_parameters()) == (rank > 0)
    model.eval()
    out = model(batch.x, batch.edge_index, batch.batch, batch.edge_attr if has_edges else None)
    for graph, row in zip(graphs, out):
        alone = model(graph.x, graph.edge_index, None, graph.edge_attr if has_edges else None)
        torch.testing.assert_close(alone[0], row, rtol=1e-4, atol=1e-5)
