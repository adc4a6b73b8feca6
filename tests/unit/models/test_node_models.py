"""Node models: dense computations of their equations, random walks, numbers of parameters."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.nn import APPNP, MixHopConv
from torch_geometric.nn.models import GCN, GIN, GraphSAGE

from tgnn.models import DataShape, build_model, h2gcn
from tgnn.models.gcn import FusedGCN
from tgnn.models.gin import FusedGIN
from tgnn.models.mixhop import TransformFirstMixHopConv
from tgnn.models.node2vec import random_walk
from tgnn.models.pagerank import GeneralizedPageRank, PersonalizedPageRank
from tgnn.models.propagation import propagate
from tgnn.nn.feature_maps import FeatureLinear

CORA = DataShape("node", 1433, None, 7, nodes=2708, degrees=(0, 1, 1))


def random_graph(seed: int, nodes: int = 12, share: float = 0.2, directed: bool = False) -> tuple[Data, Tensor]:
    """Random features and edges, and the edges as a matrix ``[target, source]``; the last two nodes are isolated."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.rand(nodes, nodes, generator=generator) < share
    matrix = matrix if directed else matrix | matrix.T
    matrix.fill_diagonal_(False)
    matrix[-2:], matrix[:, -2:] = False, False
    edges = matrix.nonzero().T.flip(0)
    order = torch.randperm(edges.size(1), generator=generator)
    return Data(torch.randn(nodes, 6, generator=generator), edges[:, order], num_nodes=nodes), matrix


def by_degrees(matrix: Tensor) -> Tensor:
    """``D^-1/2 A D^-1/2``, with zeros where there is no degree."""
    matrix = matrix.double()
    root = torch.diag(torch.tensor([d**-0.5 if d > 0 else 0.0 for d in matrix.sum(1).tolist()], dtype=torch.double))
    return root @ matrix @ root


def make(name: str, **hyperparameters: object) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = hyperparameters.pop("num_layers", 2)
    return build_model(name, DataShape("node", 6, None, 3, nodes=12), 5, layers, 0.0, hyperparameters).eval()  # type: ignore[arg-type]


# ---- equations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_h2gcn_follows_its_equations(seed, rounds):
    data, one = random_graph(seed)
    model = make("h2gcn", num_layers=rounds)
    two = ((one.double() @ one.double()) > 0) & ~one & ~torch.eye(12, dtype=torch.bool)
    rows = [(data.x.double() @ model.gnn.embed.weight.double()).clamp(min=0)]
    for _ in range(rounds):
        rows.append(torch.cat([by_degrees(one) @ rows[-1], by_degrees(two) @ rows[-1]], dim=1))
    wanted = torch.cat(rows, dim=1) @ model.gnn.last.weight.double().T
    torch.testing.assert_close(model(data).double(), wanted, rtol=1e-4, atol=1e-5)


def test_h2gcn_ignores_self_loops_and_duplicate_edges():
    data, _ = random_graph(0)
    model = make("h2gcn")
    wanted = model(data)
    loops = torch.arange(12).expand(2, -1)
    data.edge_index = torch.cat([data.edge_index, loops, data.edge_index], dim=1)
    torch.testing.assert_close(model(data), wanted)


@pytest.mark.parametrize("seed", range(5))
def test_two_hops_follow_the_edges(seed):
    data, one = random_graph(seed, directed=True)
    two = ((one.double() @ one.double()) > 0) & ~one & ~torch.eye(12, dtype=torch.bool)
    for (edges, weight), matrix in zip(h2gcn.two_hops(data.edge_index, 12), (one, two)):
        found = torch.zeros(12, 12)
        found[edges[1], edges[0]] = weight
        degrees = matrix.sum(1).clamp(min=1)
        torch.testing.assert_close(found, matrix / (degrees[:, None] * degrees).sqrt())


def test_h2gcn_rejects_a_graph_with_too_many_paths(monkeypatch):
    monkeypatch.setattr(h2gcn, "_MAX_PATHS", 3)
    with pytest.raises(ValueError, match=r"paths of two edges, more than 3\. Use mixhop, gprgnn or appnp"):
        make("h2gcn")(random_graph(0)[0])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [0, 1, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_gprgnn_follows_its_equation(seed, steps, weighted):
    data, matrix = random_graph(seed)
    model = make("gprgnn", steps=steps, start="random")
    values = matrix.double()
    if weighted:
        data.edge_weight = torch.rand(data.edge_index.size(1), generator=torch.Generator().manual_seed(seed))
        values[data.edge_index[1], data.edge_index[0]] = data.edge_weight.double()
    first, second = model.gnn.mlp.lins
    h = (data.x.double() @ first.weight.double() + first.bias.double()).clamp(min=0)
    h = h @ second.weight.double().T + second.bias.double()
    step = by_degrees(values + torch.eye(12))
    gammas = model.gnn.propagation.gamma.tolist()
    wanted = sum(gamma * torch.linalg.matrix_power(step, k) @ h for k, gamma in enumerate(gammas))
    torch.testing.assert_close(model(data).double(), wanted, rtol=1e-4, atol=1e-5)


def test_initial_weights_of_gprgnn():
    assert GeneralizedPageRank(3, 0.1).gamma.tolist() == pytest.approx([0.1, 0.09, 0.081, 0.729])
    assert GeneralizedPageRank(2, 0.5, "nppr").gamma.tolist() == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert GeneralizedPageRank(3, 0.1, "sgc").gamma.tolist() == [0, 0, 0, 1]
    assert float(GeneralizedPageRank(9, 0.1, "random").gamma.detach().abs().sum()) == pytest.approx(1)


def test_gprgnn_is_initialized_as_appnp():
    data, _ = random_graph(3)
    one, other = make("gprgnn", alpha=0.2), make("appnp", alpha=0.2)
    other.gnn.mlp.load_state_dict(one.gnn.mlp.state_dict())
    torch.testing.assert_close(one(data), other(data), rtol=1e-4, atol=1e-5)


SIZES, FLOW = (6, 5, 2, 3), {"flow": "target_to_source"}
PAIRS = [
    (PersonalizedPageRank, APPNP, (4, 0.2), {}),
    *((TransformFirstMixHopConv, MixHopConv, (6, 4, powers), {}) for powers in ([0, 1, 2], [1, 3], [0], [2])),
    *(
        (FusedGCN, GCN, SIZES, kwargs)
        for kwargs in ({}, {"aggr": "mean"}, {"add_self_loops": False}, {"improved": True}, FLOW)
    ),
    *(
        (FusedGIN, GIN, SIZES, {"train_eps": True, **kwargs})
        for kwargs in ({}, {"aggr": "mean"}, {"aggr": "max"}, FLOW)
    ),
]


@pytest.mark.parametrize(("ours", "theirs", "sizes", "kwargs"), PAIRS)
@pytest.mark.parametrize("explained", [False, True])
def test_layers_equal_those_of_pyg(ours, theirs, sizes, kwargs, explained):
    """Outputs and gradients are equal, with edge weights, and if an explainer masks all messages."""
    data, _ = random_graph(3, directed=True)
    models = [kind(*sizes, **kwargs).double() for kind in (ours, theirs)]
    for parameter in models[0].parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    models[1].load_state_dict(models[0].state_dict())
    generator, count = torch.Generator().manual_seed(0), data.edge_index.size(1)
    weight, mask = (torch.rand(count, generator=generator, dtype=torch.double) for _ in range(2))
    for weights in ((), (weight,)) if ours is not FusedGIN else ((),):
        found = []
        for model in models:
            if explained:
                set_masks(model, mask, data.edge_index)
            x = data.x.double().requires_grad_()
            out = model(x, data.edge_index, *weights)
            found.append((out, *torch.autograd.grad(out.square().sum(), [x, *model.parameters()])))
        torch.testing.assert_close(*found)


def test_a_hook_sees_messages():
    data, _ = random_graph(3)
    model, seen = FusedGCN(6, 5, 1, 3), []
    model.convs[0].register_message_forward_hook(lambda layer, inputs, output: seen.append(output.shape))
    model(data.x, data.edge_index)
    assert seen


def test_trained_edge_weights_have_gradients_every_time():
    data, _ = random_graph(4)
    first = torch.rand(data.edge_index.size(1))
    propagate(data.x, data.edge_index, first)  # cached without a gradient
    weight, other = (torch.nn.Parameter(w) for w in (first, first.clone()))
    pyg = APPNP(1, 0.0)
    for _ in range(2):
        propagate(data.x, data.edge_index, weight).square().sum().backward()
        pyg(data.x, data.edge_index, other).square().sum().backward()
    torch.testing.assert_close(weight.grad, other.grad)


def test_degrees_are_counted_in_float32_for_half_precision():
    edges = torch.stack([torch.arange(1, 3001), torch.zeros(3000, dtype=torch.int64)])
    h = torch.ones(3001, 1)
    wanted = propagate(h, edges)[0]
    torch.testing.assert_close(
        propagate(h.bfloat16(), edges)[0].float(), wanted, rtol=2e-3, atol=0
    )  # the error is .005 if degrees are counted in bfloat16


def test_propagation_compiles_into_one_graph():
    data, _ = random_graph(3)
    step = torch.compile(FusedGCN(6, 5, 2, 3), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(step(data.x, data.edge_index), step._orig_mod(data.x, data.edge_index))


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_graphsage_equals_pyg(pooling):
    data, _ = random_graph(0, directed=True)
    ours, pyg = make("graphsage", pooling=pooling), GraphSAGE(6, 5, 2, 3, aggr=pooling)
    with torch.no_grad():
        for mine, other in zip(ours.gnn.convs, pyg.convs):
            for name in ("lin_l", "lin_r"):
                weight = getattr(mine, name).weight
                getattr(other, name).weight.copy_(
                    weight.T if isinstance(getattr(mine, name), FeatureLinear) else weight
                )
            other.lin_l.bias.copy_(mine.bias)
    torch.testing.assert_close(ours(data), pyg(data.x, data.edge_index), rtol=1e-4, atol=1e-5)


def test_gcn2_without_a_first_map_takes_sparse_features():
    data, _ = random_graph(2)
    model = build_model("gcn2", DataShape("node", 6, None, 3), 6, 2, 0.0, {}).eval()
    dense = model(data)
    data.x = data.x.to_sparse_csr()
    torch.testing.assert_close(model(data), dense)


@pytest.mark.parametrize("edges", [4, (4,)])
def test_deepergcn_uses_the_features_of_edges(edges):
    data, _ = random_graph(0)
    model = build_model("deepergcn", DataShape("node", 6, edges, 3), 5, 3, 0.0, {}).eval()
    out = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        count = data.edge_index.size(1)
        data.edge_attr = torch.randn(count, 4) if edges == 4 else torch.randint(4, (count, 1))
        out.append(model(data))
    changed = (out[0] - out[1]).abs().amax(1) > 1e-4
    assert changed[:-2].any()
    assert not changed[-2:].any()  # they have no edges


@pytest.mark.parametrize("name", ["gat", "gat+cp"])
@pytest.mark.parametrize(
    ("hyperparameters", "heads"), [({}, 8), ({"out_heads": 1}, 1), ({"heads": 2, "out_heads": 3}, 3)]
)
def test_heads_of_the_last_layer(name, hyperparameters, heads):
    model = build_model(name, DataShape("node", 6, None, 3, nodes=9), 5, 2, 0.0, hyperparameters)
    assert [conv.heads for conv in model.gnn.convs] == [hyperparameters.get("heads", 8), heads]
    assert model(random_graph(0, nodes=9)[0]).shape == (9, 3)


# ---- walks ------------------------------------------------------------------------------------------------------


def rows_of(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Edges from each node, of a matrix ``[from, to]``."""
    return torch.nn.functional.pad(matrix.sum(1).cumsum(0), (1, 0)), matrix.nonzero()[:, 1]


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4), (4, 0.25)])
@pytest.mark.parametrize("directed", [False, True])
def test_walks_go_along_edges_and_stay_where_there_are_none(p, q, directed):
    _, matrix = random_graph(0, directed=directed)
    walk = random_walk(*rows_of(matrix), torch.arange(12).repeat(20), 15, p, q)
    assert walk.shape == (240, 16)
    here, there = walk[:, :-1].reshape(-1), walk[:, 1:].reshape(-1)
    stays = ~matrix.any(1)[here]
    assert bool(matrix[here, there][~stays].all())
    assert torch.equal(here[stays], there[stays])
    assert bool((walk[walk[:, 0] >= 10] >= 10).all())


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4), (4, 0.25), (0.1, 1)])
def test_transition_probabilities_of_node2vec(p, q):
    """Nodes 0, 1, 2 are a triangle, and 3 and 4 are neighbors of 1. A walk from 0 to 1 can take every kind of step."""
    matrix = torch.zeros(5, 5, dtype=torch.bool)
    for one, other in ((0, 1), (0, 2), (1, 2), (1, 3), (1, 4)):
        matrix[one, other] = matrix[other, one] = True
    torch.manual_seed(0)
    walk = random_walk(*rows_of(matrix), torch.zeros(40_000, dtype=torch.long), 2, p, q)
    ends = walk[walk[:, 1] == 1, 2]
    share = torch.bincount(ends, minlength=5) / len(ends)
    bias = torch.tensor([1 / p, 0, 1, 1 / q, 1 / q])
    torch.testing.assert_close(share, bias / bias.sum(), atol=0.012, rtol=0)  # 4 standard errors
    assert float((walk[:, 1] == 1).float().mean()) == pytest.approx(0.5, abs=0.012)


def test_node2vec_trains_its_embedding_by_walks_alone():
    data, _ = random_graph(0)
    data.x = None
    model = build_model("node2vec", DataShape("node", None, None, 3, nodes=12), 5, 1, 0.0, {"walk_batch": 4}).train()
    embedding = model.walks.embedding.weight
    model(data).sum().backward()
    assert embedding.grad is None
    torch.manual_seed(0)
    model(data)
    loss = model.extra_loss
    loss.backward()
    assert bool(embedding.grad.abs().sum() > 0)
    torch.manual_seed(0)
    model(data)
    assert torch.equal(model.extra_loss, loss)
    model.eval()(data)
    assert model.extra_loss is None


def test_node2vec_rejects_other_nodes():
    model = make("node2vec")
    data, _ = random_graph(0, nodes=13)
    with pytest.raises(ValueError, match="embeddings of the 12 nodes that it was trained on, but this graph has 13"):
        model(data)
    data, _ = random_graph(0)
    data.n_id = torch.arange(12)
    with pytest.raises(ValueError, match=r"Leave train\.num_neighbors out"):
        model(data)
    with pytest.raises(ValueError, match=r"model\.context is 30"):
        make("node2vec", context=30)


# ---- numbers of parameters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hidden", "hyperparameters", "count"),
    [
        ("gcn", 32, {}, 46_080),
        ("gcn", 64, {}, 92_160),
        ("gcn2", 32, {}, 48_128),
        ("gcn2", 64, {}, 100_352),
        ("gcn2", 1433, {}, 4_117_009),
        ("gat", 32, {"separate": True, "heads": 1}, 92_238),
        ("gat", 64, {"separate": True, "heads": 1}, 184_462),
        ("gat", 32, {"separate": True, "heads": 8}, 762_992),
        ("gat", 64, {"separate": True, "heads": 8}, 1_525_872),
        *((name, 32, {}, 46_080) for name in ("sum", "mean", "max")),
        *((name, 64, {}, 92_160) for name in ("sum", "mean", "max")),
        ("tgnn", 32, {"rank": 8}, 58_128),
    ],
)
def test_parameters_on_cora_are_those_of_the_paper(name, hidden, hyperparameters, count):
    model = build_model(name, CORA, hidden, 2, 0.5, hyperparameters)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
