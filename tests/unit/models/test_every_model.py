"""Contract of every model: it overfits, handles isolated nodes, and batches do not mix."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import degree

from tgnn.models import MODELS, DataShape, build_model

NODE = [name for name, model in MODELS.items() if model.node is not None]
GRAPH = [name for name, model in MODELS.items() if model.graph is not None]
EVALUATE_EVERY = 20  # training steps
HIDDEN = 20  # a multiple of the default heads, towers and dimensions
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5], [1, 0, 2, 1, 3, 2, 5, 4]])


BLOCKS = {
    "low_order": "gated_sum",
    "factors": "bounded",
    "degree_exponent": 0.5,
    "two_ended": True,
    "high_scale": 0.01,
    "residual": True,
    "ffn": True,
    "update_edges": True,
    "norm": "batch_norm",
}
VARIANTS = [  # networks that hyperparameters select
    ("tgnn", "node", BLOCKS),
    ("tgnn", "graph", BLOCKS),
    ("tgnn", "graph", {**BLOCKS, "rank": 0, "add_self_loops": False}),
    ("gatedgcn", "graph", {"update_edges": True, "ffn": True}),
    *((name, "graph", {"ffn": True}) for name in ("gin", "pna", "phm-gnn", "dgn")),
    ("gat", "graph", {"ffn": True, "heads": 4}),
]


def small(hyperparameters: dict[str, object], name: str) -> dict[str, object]:
    """Hyperparameters that fit a small number of channels."""
    return {"heads": 4} | hyperparameters if name.partition("+")[0] == "gat" else hyperparameters


def make(
    name: str,
    level: str,
    features: int | tuple[int, ...] = 6,
    edges: object = None,
    outputs: int = 3,
    degrees: tuple[int, ...] = (1, 1, 5, 1),
) -> torch.nn.Module:
    torch.manual_seed(0)
    shape = DataShape(level, features, edges, outputs, nodes=8 if level == "node" else None, degrees=degrees)  # type: ignore[arg-type]
    return build_model(name, shape, HIDDEN, 2, 0.0, small({}, name))


def one_graph(nodes: int = 8, edges: Tensor = EDGES, features: int = 6) -> Data:
    """Nodes 6 and 7 are isolated."""
    generator = torch.Generator().manual_seed(1)
    return Data(torch.randn(nodes, features, generator=generator), edges, num_nodes=nodes)


def graphs(sizes: tuple[int, ...] = (5, 3, 6, 4), features: int = 6) -> Batch:
    """Paths, with a triangle at one end from four nodes on: the smallest positive eigenvalue is simple."""
    generator = torch.Generator().manual_seed(4)
    parts = []
    for size in sizes:
        path = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
        path = torch.cat([path, torch.tensor([[0], [2]])], 1) if size > 3 else path
        both = torch.cat([path, path.flip(0)], 1)
        parts.append(Data(torch.randn(size, features, generator=generator), both, num_nodes=size))
    return Batch.from_data_list(parts)


def overfit(model: torch.nn.Module, data: Data, y: Tensor, steps: int, lr: float = 0.01) -> float:
    """Train until three evaluations in a row are perfect, and return the last accuracy."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    accuracies: list[float] = []
    while len(accuracies) < steps // EVALUATE_EVERY and accuracies[-3:] != [1, 1, 1]:
        train(model, optimizer, data, y)
        model.eval()
        with torch.no_grad():
            accuracies.append(float((model(data).argmax(1) == y).float().mean()))
    return accuracies[-1]


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: Data, y: Tensor) -> None:
    for _ in range(EVALUATE_EVERY):
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data), y)
        extra = getattr(model, "extra_loss", None)
        (loss if extra is None else loss + extra).backward()
        optimizer.step()


@pytest.mark.parametrize("name", NODE)
def test_a_node_model_overfits(name):
    same = 1  # nodes 4 and 5 are neighbors of each other only: many models cannot distinguish them
    assert overfit(make(name, "node"), one_graph(), torch.tensor([0, 0, 2, 2, same, same, 0, 1]), 300) == 1


@pytest.mark.parametrize("name", GRAPH)
def test_a_graph_model_overfits(name):
    assert overfit(make(name, "graph"), graphs(), torch.tensor([0, 1, 2, 0]), 300) == 1


def assert_finite(model: torch.nn.Module, data: Data, count: int) -> None:
    """Check the number of outputs, and that outputs and gradients are finite."""
    out = model(data)
    out.sum().backward()
    assert out.shape == (count, 3)
    assert bool(out.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", NODE)
@pytest.mark.parametrize("edges", [EDGES, EDGES[:, :0]])
def test_isolated_nodes(name, edges):
    degrees = torch.bincount(degree(edges[1], 8, torch.long))
    assert_finite(make(name, "node", degrees=tuple(degrees.tolist())), one_graph(edges=edges), 8)


@pytest.mark.parametrize("name", GRAPH)
def test_graphs_of_one_node_and_graphs_without_edges(name):
    for sizes in ((1,), (1, 4, 1), (1, 1)):  # batch normalization of one row has no variance in training
        assert_finite(make(name, "graph").eval(), graphs(sizes), len(sizes))
    assert_finite(make(name, "graph", degrees=(3,)), graphs((1, 1, 1)), 3)


@pytest.mark.parametrize("name", GRAPH)
def test_outputs_do_not_depend_on_other_graphs_of_the_batch(name):
    model = make(name, "graph").eval()
    alone = torch.cat([model(graphs((5, 3, 6, 4)[:number]))[-1:] for number in range(1, 5)])
    torch.testing.assert_close(model(graphs()), alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", GRAPH)
def test_the_order_of_nodes_does_not_matter(name):
    model, data = make(name, "graph").eval(), graphs((6,))
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    place = torch.empty_like(order)
    place[order] = torch.arange(6)
    other = Batch.from_data_list([Data(data.x[order], place[data.edge_index], num_nodes=6)])
    torch.testing.assert_close(model(other), model(data), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in GRAPH if "edge features" in (*MODELS[n].graph_uses, *MODELS[n].needs)])
@pytest.mark.parametrize("edges", [4, (4,)])
def test_edge_features_are_used(name, edges):
    model, data = make(name, "graph", edges=edges).eval(), graphs()
    count = data.edge_index.size(1)
    out = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        data.edge_attr = torch.randn(count, 4) if edges == 4 else torch.randint(4, (count, 1))
        out.append(model(data))
    assert bool((out[0] - out[1]).abs().max() > 1e-4)


@pytest.mark.parametrize("name", GRAPH)
def test_categorical_node_features(name):
    data = graphs()
    data.x = torch.randint(5, (data.num_nodes, 2), generator=torch.Generator().manual_seed(0))
    assert make(name, "graph", features=(5, 5))(data).shape == (4, 3)


@pytest.mark.parametrize("name", NODE)
def test_sparse_features_give_the_same_outputs(name):
    model, data = make(name, "node").eval(), one_graph()
    dense = model(data)
    data.x = data.x.to_sparse_csr()
    torch.testing.assert_close(model(data), dense, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", GRAPH)
def test_numeric_columns_after_categories(name):
    model, data = make(name, "graph", features=(4, 2, 0, 0, 0), edges=None).eval(), graphs(features=5)
    data.x[:, 0], data.x[:, 1] = torch.arange(len(data.x)) % 4, torch.arange(len(data.x)) % 2
    before = model(data)
    for column in (0, 2, 4):
        changed = data.clone()
        changed.x[:, column] = changed.x[:, column].roll(1)
        assert not torch.allclose(model(changed), before), column
    data.x[0, 0] = 4
    with pytest.raises(ValueError, match="contains category 4, but has 4"):
        model(data)


@pytest.mark.parametrize(("name", "level", "hyperparameters"), VARIANTS, ids=str)
def test_variants(name, level, hyperparameters):
    """They overfit, use edge features, and batches do not mix."""
    torch.manual_seed(0)
    shape = DataShape(level, 6, 4, 3, nodes=8 if level == "node" else None)
    model = build_model(name, shape, HIDDEN, 3, 0.0, hyperparameters)
    parts = [one_graph()] if level == "node" else graphs().to_data_list()
    for part in parts:
        part.edge_attr = torch.randn(part.edge_index.size(1), 4)
    data = parts[0] if level == "node" else Batch.from_data_list(parts)
    y = torch.tensor([0, 0, 2, 2, 1, 1, 0, 1]) if level == "node" else torch.tensor([0, 1, 2, 0])
    assert overfit(model, data, y, 300) == 1
    out = model.eval()(data)
    if level == "graph":
        alone = torch.cat([model(Batch.from_data_list([part])) for part in parts])
        torch.testing.assert_close(out, alone, rtol=1e-4, atol=1e-4)
    data.edge_attr = torch.randn_like(data.edge_attr)
    assert bool((model(data) - out).abs().max() > 1e-4)
