"""Graph models that PyG does not have, compared with dense computations of their equations."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from tgnn.data.graph_dataset import pack
from tgnn.models import DataShape, build_model
from tgnn.models.dgn import DGNConv, Directions, add_eigenvectors, eigenvectors
from tgnn.models.graph_pooling import AttentionalReadout, BilinearReadout, cluster_losses
from tgnn.models.phm_gnn import PHMConv, PHMLinear
from tgnn.nn.readout import Readout

WIDTH = 4


def some_graph(seed: int, nodes: int = 9, share: float = 0.4) -> Data:
    """Random edges, both ways; the last two nodes have none."""
    random = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(nodes - 2) for j in range(i) if random.random() < share]
    edges = torch.tensor([*pairs, *[(j, i) for i, j in pairs]], dtype=torch.long).reshape(-1, 2).t()
    x = torch.from_numpy(random.normal(size=(nodes, WIDTH))).float()
    return Data(x, edges, torch.from_numpy(random.normal(size=(edges.size(1), WIDTH))).float(), y=torch.zeros(1))


def one_node() -> Data:
    return Data(torch.ones(1, WIDTH), torch.empty(2, 0, dtype=torch.long), torch.empty(0, WIDTH), y=torch.zeros(1))


def two_paths() -> Data:
    edges = torch.tensor([[0, 1], [1, 2], [3, 4], [4, 5], [5, 6]]).t()
    rows = torch.randn(17, WIDTH, generator=torch.Generator().manual_seed(0))
    return Data(rows[:7], torch.cat([edges, edges.flip(0)], 1), rows[7:], y=torch.zeros(1))


def some_graphs() -> list[Data]:
    return [some_graph(0), one_node(), some_graph(1, 12), some_graph(2, 5, share=0.0), two_paths()]


def into(data: Data, node: int) -> list[tuple[int, int]]:
    """Neighbors of a node, each with the index of its edge."""
    return [(int(u), number) for number, (u, v) in enumerate(data.edge_index.t().tolist()) if v == node]


# PHM-GNN


@pytest.mark.parametrize(("dimension", "width", "out"), [(1, 3, 5), (2, 4, 6), (4, 8, 4)])
def test_hypercomplex_linear_is_a_sum_of_kronecker_products(dimension, width, out):
    lin = PHMLinear(width, out, dimension)
    torch.nn.init.normal_(lin.bias)
    matrix = sum(torch.kron(rule, weight) for rule, weight in zip(lin.rules, lin.weights))
    x = torch.randn(7, width)
    torch.testing.assert_close(lin(x), x @ matrix.T + lin.bias)


def test_hypercomplex_linear_has_glorot_variance():
    torch.manual_seed(0)
    sizes = torch.stack([PHMLinear(40, 80, 4).matrix().detach().var() for _ in range(200)])
    assert float(sizes.mean()) == pytest.approx(2 / 120, rel=0.1)


def test_hypercomplex_layer_rejects_channels_that_are_no_multiple():
    with pytest.raises(ValueError, match="out_channels is 6, but must be a multiple of the dimension, 4"):
        PHMLinear(8, 6, 4)


@pytest.mark.parametrize("pooling", ["sum", "softmax"])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("data", [some_graph(0), one_node()], ids=["graph", "one"])
def test_hypercomplex_layer(pooling, features, data):
    conv = PHMConv(WIDTH, 2, pooling).eval()
    conv.eps.data.fill_(0.3)
    pooled = torch.zeros_like(data.x)
    for node in range(data.num_nodes):
        messages = [data.x[u] + (data.edge_attr[edge] if features else 0) for u, edge in into(data, node)]
        if messages:
            rows = torch.stack(messages)
            pooled[node] = (rows * rows.softmax(0)).sum(0) if pooling == "softmax" else rows.sum(0)
    first, norm, _, second = conv.mlp
    matrices = [sum(torch.kron(a, s) for a, s in zip(lin.rules, lin.weights)) for lin in (first, second)]
    hidden = norm((1.3 * data.x + pooled) @ matrices[0].T + first.bias).relu()
    out = conv(data.x, data.edge_index, data.edge_attr if features else None)
    torch.testing.assert_close(out, hidden @ matrices[1].T + second.bias)


# DGN


def laplacian(data: Data) -> np.ndarray:
    found = np.zeros((data.num_nodes, data.num_nodes))
    for u, v in data.edge_index.t().tolist():
        if u != v:
            found[u, v] = found[v, u] = -1
    return found - np.diag(found.sum(1))


def dense_field(data: Data) -> Tensor:
    """``F`` with rows divided by the sum of their sizes."""
    values, vectors = np.linalg.eigh(laplacian(data))
    field = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    above = [number for number, value in enumerate(values) if value > 1e-8]
    if above:
        assert values[above[1]] - values[above[0]] > 1e-3, "the eigenvalue must be simple"
        for u, v in data.edge_index.t().tolist():
            field[v, u] = vectors[u, above[0]] - vectors[v, above[0]]
    return field / (field.abs().sum(1, keepdim=True) + 1e-8)


@pytest.mark.parametrize("scale", [None, 0.8])
@pytest.mark.parametrize("data", some_graphs(), ids=["graph", "one", "larger", "edgeless", "parts"])
def test_directional_layer_is_its_matrices(scale, data):
    conv = DGNConv(WIDTH, ("mean", "max", "min", "av", "dx"), None, scale)
    field, x = dense_field(data), data.x.double()
    smoothing = field.abs()
    derivative = field - torch.diag(field.sum(1))
    mean, largest, least = (torch.zeros_like(x) for _ in range(3))
    for node in range(data.num_nodes):
        if neighbors := [u for u, _ in into(data, node)]:
            mean[node], largest[node] = x[neighbors].mean(0), x[neighbors].max(0).values
            least[node] = x[neighbors].min(0).values
    parts = torch.cat([mean, largest, least, smoothing @ x, (derivative @ x).abs()], 1)
    if scale is not None:
        logs = [math.log(max(len(into(data, node)), 1) + 1) / scale for node in range(data.num_nodes)]
        parts = torch.cat([parts, *(parts * torch.tensor([[log**power] for log in logs]) for power in (1, -1))], 1)
    wanted = torch.cat([x, parts], 1).float() @ conv.update.weight.T + conv.update.bias
    batch = Batch.from_data_list([data])
    edge_inputs = Directions(DataShape("graph", WIDTH, None, 1), 8)(batch)
    torch.testing.assert_close(conv(data.x, data.edge_index, edge_inputs), wanted, rtol=1e-4, atol=1e-5)


def test_directional_layer_with_messages_of_edges():
    data = some_graph(0)
    conv, directions = DGNConv(WIDTH, ("av", "dx"), 1 + 8, None), Directions(DataShape("graph", WIDTH, WIDTH, 1), 8)
    field, edges = dense_field(data).float(), directions.encoder(data.edge_attr)
    parts = torch.zeros(data.num_nodes, 2 * WIDTH)
    for node in range(data.num_nodes):
        for u, edge in into(data, node):
            message = conv.message(torch.cat([data.x[node], data.x[u], edges[edge]]))
            parts[node, :WIDTH] += field[node, u].abs() * message
            parts[node, WIDTH:] += field[node, u] * (message - data.x[node])
    parts[:, WIDTH:] = parts[:, WIDTH:].abs()
    out = conv(data.x, data.edge_index, directions(Batch.from_data_list([data])))
    torch.testing.assert_close(out, conv.update(torch.cat([data.x, parts], 1)), rtol=1e-4, atol=1e-5)


def test_eigenvectors_of_a_batch():
    graphs = some_graphs()
    found = eigenvectors(Batch.from_data_list(graphs)).split([data.num_nodes for data in graphs])
    for data, f in zip(graphs, found):
        matrix = torch.from_numpy(laplacian(data)).float()
        above = [value for value in np.linalg.eigvalsh(laplacian(data)) if value > 1e-8]
        torch.testing.assert_close(matrix @ f, (above[0] if above else 0.0) * f, rtol=1e-4, atol=1e-5)
        assert float(f.norm()) == pytest.approx(1 if above else 0, abs=1e-5)


def test_a_single_graph_gets_no_eigenvector():
    data = some_graph(0)
    add_eigenvectors(data)
    assert data.get("eigenvector") is None


def complete_graph(nodes: int) -> Data:
    edges = torch.combinations(torch.arange(nodes)).t()
    return Data(torch.ones(nodes, WIDTH), torch.cat([edges, edges.flip(0)], 1), y=torch.zeros(1))


def ring(nodes: int) -> Data:
    edges = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
    return Data(torch.ones(nodes, WIDTH), torch.cat([edges, edges.flip(0)], 1), y=torch.zeros(1))


@pytest.mark.parametrize("data", [complete_graph(5), ring(6), ring(9)])
def test_eigenvectors_that_are_not_unique_are_the_same_beside_others(data):
    others = [some_graph(1, 12), ring(data.num_nodes), some_graph(2, data.num_nodes), complete_graph(7)]
    for graph in [data, *others]:
        graph.edge_attr = None
    alone = eigenvectors(Batch.from_data_list([data]))
    assert torch.equal(eigenvectors(Batch.from_data_list([*others, data]))[-data.num_nodes :], alone)
    packed = pack([*others, data])
    add_eigenvectors(packed)
    assert torch.equal(packed.batch([4]).eigenvector, alone)
    torch.manual_seed(0)
    model = build_model("dgn", DataShape("graph", WIDTH, None, 2, degrees=(1, 2, 5)), 8, 2, 0.0, {}).eval()
    wanted = model(Batch.from_data_list([data]))
    torch.testing.assert_close(model(Batch.from_data_list([*others, data]))[-1:], wanted)


def test_a_graph_too_large_for_eigenvectors():
    small, large = (Data(torch.ones(nodes, WIDTH), torch.empty(2, 0, dtype=torch.long)) for nodes in (3, 5001))
    with pytest.raises(ValueError, match=r"Graph 1 has 5,001 nodes.*up to 5,000 nodes\. Use gin or gcn"):
        eigenvectors(Batch.from_data_list([small, large]))


def test_a_stored_eigenvector_gives_the_same_as_a_new_one():
    batch = Batch.from_data_list([some_graph(0), one_node(), some_graph(1, 12)])
    torch.manual_seed(0)
    model = build_model("dgn", DataShape("graph", WIDTH, WIDTH, 2, degrees=(1, 2, 5)), 8, 2, 0.0, {}).eval()
    new = model(batch)
    batch.eigenvector = -eigenvectors(batch)
    torch.testing.assert_close(model(batch), new)


# SOPool


def test_second_order_pooling():
    graphs = some_graphs()
    batch = Batch.from_data_list(graphs)
    bilinear, attention = BilinearReadout(WIDTH, 3), AttentionalReadout(WIDTH)
    out = [readout(batch.x, batch.batch, len(graphs)) for readout in (bilinear, attention)]
    for number, data in enumerate(graphs):
        square, weighted = torch.zeros(3, 3), torch.zeros(WIDTH)
        for row in data.x:
            narrow = bilinear.lin.weight @ row
            for i in range(3):
                for j in range(3):
                    square[i, j] += narrow[i] * narrow[j]
            weighted += sum(a * b for a, b in zip(row, attention.mu)) * row
        torch.testing.assert_close(out[0][number], square.flatten(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(out[1][number], weighted, rtol=1e-4, atol=1e-5)
    assert (bilinear.width, attention.width) == (9, WIDTH)


# Models with layers of PyG


def test_diffpool_has_an_extra_loss_during_training():
    batch = Batch.from_data_list(some_graphs())
    model = build_model("diffpool", DataShape("graph", WIDTH, None, 2), 8, 2, 0.0, {"clusters": 6, "levels": 2})
    model(batch)
    assert bool(model.extra_loss > 0)
    model.extra_loss.backward()
    assert all(p.grad is not None for p in model.assigns.parameters())
    model.eval()(batch)
    assert model.extra_loss is None


def test_diffpool_follows_its_equations():
    data = some_graph(3, 7)
    model = build_model("diffpool", DataShape("graph", WIDTH, None, 2), 8, 1, 0.0, {"clusters": 3}).eval()
    there = torch.ones(1, 7, dtype=torch.bool)
    adj = torch.zeros(1, 7, 7)
    for u, v in data.edge_index.t().tolist():
        adj[0, v, u] = 1
    x = model.encoder(data.x).unsqueeze(0)
    s = model.assigns[0](x, adj, there)[0].softmax(1)
    z = model.embeds[0](x, adj, there)[0]
    pooled = model.embeds[1]((s.T @ z)[None], (s.T @ adj[0] @ s)[None], torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(model(Batch.from_data_list([data])), model.head(pooled.sum(1)))


def test_monet_depends_on_relative_positions():
    data = some_graph(0)
    data.pos = torch.randn(data.num_nodes, 3)
    shape = DataShape("graph", WIDTH, None, 2, positions=3)
    torch.manual_seed(0)
    model = build_model("monet", shape, 32, 2, 0.0, {"pseudo": "position"}).eval()
    batch = Batch.from_data_list([data, data])
    out = model(batch)
    batch.pos = batch.pos + 5
    torch.testing.assert_close(model(batch), out, rtol=1e-4, atol=1e-4)
    batch.pos = batch.pos * 2
    assert not torch.allclose(model(batch), out, rtol=1e-4, atol=1e-4)


def path(nodes: int, seed: int = 0) -> Data:
    edges = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    x = torch.randn(nodes, 4, generator=torch.Generator().manual_seed(seed))
    return Data(x, torch.cat([edges, edges.flip(0)], 1), num_nodes=nodes)


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
