"""The contract of PyG and torch for layers: copies, compilation, export, explanations, heterogeneous graphs."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.nn import HeteroConv, MessagePassing, SAGEConv, to_hetero

from tests.conftest import random_edges
from tgnn import TGNN, CPAggregation, GraphTGNN, TGNNConv, with_cp
from tgnn.nn import TGNNBlock

N, F = 10, 6
X, EDGES = torch.randn(N, F, generator=torch.Generator().manual_seed(0)), random_edges(N, N, 24)
BATCH = torch.tensor([0] * 4 + [1] * 6)


class Pooled(torch.nn.Module):
    """A layer of PyG with ``CPAggregation``."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(F, 4, aggr=CPAggregation(F, F, rank=5))

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


GATED = {"low_order": "gated_mean", "factors": "bounded", "degree_exponent": 0.5, "high_scale": 0.5}
DEEP = {**GATED, "residual": True, "ffn": True, "norm": "batch_norm"}

MODELS = {
    "TGNNConv": lambda: TGNNConv(F, 4, 5),
    "TGNNConv, weighted, gcn": lambda: TGNNConv(F, 4, 5, factors="weighted", low_order="gcn", mix="node"),
    "TGNNConv, tempered, mean": lambda: TGNNConv(F, 4, 5, factors="tempered", low_order="mean", mix="scalar"),
    "TGNNConv, root": lambda: TGNNConv(F, 4, 5, root_weight=True, act=None, factor_act="tanh"),
    "TGNNConv, gated, bounded": lambda: TGNNConv(F, 4, 5, **GATED, two_ended=True),
    "TGNNConv, gated, no loops": lambda: TGNNConv(F, 4, 5, low_order="gated_sum", add_self_loops=False),
    "TGNNBlock": lambda: TGNNBlock(F, 4, 5, low_order="gated_sum", factors="bounded", add_self_loops=False),
    "TGNN": lambda: TGNN(F, 8, 2, 4, rank=5),
    "TGNN, blocks": lambda: TGNN(F, 8, 2, 4, rank=5, **DEEP),
    "TGNN, blocks, edge states": lambda: TGNN(F, 8, 3, 4, rank=5, **DEEP, update_edges=True, jk="cat"),
    "TGNN, norm, jk": lambda: TGNN(F, 8, 2, 4, rank=5, norm="batch_norm", jk="cat"),
    "CPAggregation": Pooled,
    "with_cp": lambda: with_cp(SAGEConv(F, 4), rank=3, verbose=False),
    "GraphTGNN": lambda: GraphTGNN(F, 8, 2, 4, rank=5),
    "GraphTGNN, blocks": lambda: GraphTGNN(F, 8, 2, 4, rank=5, **DEEP, update_edges=True),
}


def call(model, x=X, edge_index=EDGES):
    if isinstance(getattr(model, "_orig_mod", model), GraphTGNN):
        return model(x, edge_index, BATCH, batch_size=2)
    return model(x, edge_index)


@pytest.fixture(autouse=True)
def no_compiled_code() -> None:
    """Forget the code that other tests have compiled: torch limits the number of versions of a function."""
    torch.compiler.reset()


@pytest.fixture(params=list(MODELS))
def model(request):
    torch.manual_seed(0)
    made = MODELS[request.param]().eval()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.1 * torch.randn_like(p))  # no parameter keeps its initial value
    return made


def test_copies_and_states(model):
    out = call(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(call(other), out)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    fresh = copy.deepcopy(model)
    fresh.reset_parameters() if hasattr(fresh, "reset_parameters") else fresh.conv.reset_parameters()
    fresh.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(call(fresh), out)
    assert torch.equal(call(copy.deepcopy(model)), out)


def test_compiles_whole(model):
    out = call(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(call(compiled), out)
    model.train()
    model.zero_grad()
    call(compiled).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    call(model).square().sum().backward()
    for a, b in zip(found, [p.grad for p in model.parameters() if p.grad is not None], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_compiles_with_the_real_compiler():
    model = MODELS["TGNN"]()
    torch.testing.assert_close(torch.compile(model, fullgraph=True)(X, EDGES), model(X, EDGES))


def test_exports(model):
    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, edge_index):
            return call(self.model, x, edge_index)

    exported = torch.export.export(Wrapped().eval(), (X, EDGES))
    torch.testing.assert_close(exported.module()(X, EDGES), call(model))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_other_precisions(model, dtype):
    out = call(model)
    if dtype == torch.bfloat16:
        with torch.autocast("cpu", dtype=dtype):
            half = call(model)
            half.float().sum().backward()
        torch.testing.assert_close(half.float(), out, rtol=0.1, atol=0.15)
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    else:
        torch.testing.assert_close(call(model.double(), X.double()).float(), out, rtol=1e-4, atol=1e-5)


def test_sorted_edge_index(model):
    if isinstance(model, (Pooled, SAGEConv)):
        pytest.skip("PyG's own layer decides")
    edges = EdgeIndex(EDGES, sparse_size=(N, N)).sort_by("col").values
    torch.testing.assert_close(call(model, edge_index=edges), call(model))


def test_every_parameter_learns(model):
    if isinstance(model, Pooled):
        model.train()
    x = X.clone().requires_grad_()
    loss = call(model.train(), x).square().sum()
    gradients = torch.autograd.grad(loss, [x, *model.parameters()])
    assert all(g.isfinite().all() and g.any() for g in gradients)


# ---- explanations -----------------------------------------------------------------------------------------------

LAYERS = [name for name in MODELS if not name.startswith("GraphTGNN")]


@pytest.mark.parametrize("name", [*(n for n in LAYERS if n not in ("CPAggregation", "with_cp")), "with_cp, sum"])
def test_a_masked_edge_is_as_if_it_were_not_there(name):
    torch.manual_seed(0)
    make = MODELS.get(name, lambda: with_cp(SAGEConv(F, 4, aggr="sum"), rank=3, verbose=False))
    model = make().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    keep = (torch.rand(EDGES.size(1)) > 0.4) | (EDGES[0] == EDGES[1])
    expected = model(X, EDGES[:, keep])
    for layer in model.modules():
        if isinstance(layer, MessagePassing):
            layer.explain = True
            layer._edge_mask, layer._loop_mask = keep.float(), EDGES[0] != EDGES[1]
            layer._apply_sigmoid = False
    torch.testing.assert_close(model(X, EDGES), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["TGNN", "TGNN, blocks, edge states", "TGNNConv", "with_cp"])
def test_gnn_explainer(name):
    torch.manual_seed(0)
    config = ModelConfig(mode="multiclass_classification", task_level="node", return_type="raw")
    explainer = Explainer(
        MODELS[name]().eval(),
        algorithm=GNNExplainer(epochs=5),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=config,
    )
    explanation = explainer(X, EDGES, index=int(EDGES[1][0]))
    assert explanation.edge_mask.shape == (EDGES.size(1),)
    assert explanation.edge_mask.isfinite().all()
    assert explanation.edge_mask.any()


# ---- heterogeneous graphs ---------------------------------------------------------------------------------------


def hetero() -> HeteroData:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(5, F), torch.randn(7, F)
    data["user", "buys", "item"].edge_index = random_edges(5, 7, 12)
    data["item", "bought_by", "user"].edge_index = random_edges(7, 5, 12)
    data["user", "knows", "user"].edge_index = random_edges(5, 5, 8)
    return data


def test_hetero_conv():
    data = hetero()
    conv = HeteroConv({kind: TGNNConv(F, 4, 3) for kind in data.edge_types})
    out = conv(data.x_dict, data.edge_index_dict)
    assert {k: tuple(v.shape) for k, v in out.items()} == {"user": (5, 4), "item": (7, 4)}


@pytest.mark.parametrize("in_channels", [F, -1, (-1, -1)])
def test_to_hetero(in_channels):
    data = hetero()
    model = to_hetero(TGNN(in_channels, 8, 2, 4, rank=3), data.metadata())
    out = model(data.x_dict, data.edge_index_dict)
    assert {k: tuple(v.shape) for k, v in out.items()} == {"user": (5, 4), "item": (7, 4)}
    out["user"].sum().backward()


def test_to_hetero_with_features_of_different_widths():
    data = hetero()
    data["item"].x = torch.randn(7, F + 3)
    model = to_hetero(TGNN((-1, -1), 8, 2, 4, rank=3, root_weight=True), data.metadata())
    assert model(data.x_dict, data.edge_index_dict)["item"].shape == (7, 4)
