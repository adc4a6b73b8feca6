"""with_cp: existing models become high-order, keep what they have learned, and say what happened to them."""

from __future__ import annotations

import pytest
import torch
from tests.conftest import random_edges
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    PNA,
    Aggregation,
    EdgeCNN,
    FastRGCNConv,
    GATConv,
    GCNConv,
    GraphSAGE,
    MeanAggregation,
    MessagePassing,
    MultiAggregation,
    SumAggregation,
    TransformerConv,
    global_add_pool,
)

from tgnn import TGNNConv, with_cp
from tgnn.nn import HighOrderAggregation

N, F = 10, 6
X, EDGES = torch.randn(N, F, generator=torch.Generator().manual_seed(0)), random_edges(N, N, 24)
MODELS = {
    "GCN": lambda: GCN(F, 8, 2, 3),
    "GAT": lambda: GAT(F, 8, 2, 3, heads=2),
    "GAT v2": lambda: GAT(F, 8, 2, 3, v2=True),
    "GraphSAGE": lambda: GraphSAGE(F, 8, 2, 3),
    "GraphSAGE, max": lambda: GraphSAGE(F, 8, 2, 3, aggr="max"),
    "GIN": lambda: GIN(F, 8, 2, 3),
    "PNA": lambda: PNA(
        F, 8, 2, 3, aggregators=["mean", "max"], scalers=["identity", "amplification"], deg=torch.tensor([0, 4, 6])
    ),
    "EdgeCNN": lambda: EdgeCNN(F, 8, 2, 3),
    "Transformer": lambda: TransformerConv(F, 3, heads=2),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_starts_where_the_model_was_and_learns_more(name, capsys):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    expected = model(X, EDGES)
    changed = with_cp(model, rank=4).eval()
    torch.testing.assert_close(changed(X, EDGES), expected)
    torch.testing.assert_close(model(X, EDGES), expected)  # the original model is not modified
    assert not any(isinstance(m, HighOrderAggregation) for m in model.modules())
    printed = capsys.readouterr().out
    for change in changed.cp_changes:
        assert f"{change.name} ({change.module}): {change.before} -> {change.after}" in printed
    layers = [m for m in changed.modules() if isinstance(m, MessagePassing)]
    assert len(changed.cp_changes) == len(layers)
    kept = dict(model.named_parameters())
    found = dict(changed.named_parameters())
    assert all(torch.equal(p, found[n.replace("aggr_module.", "aggr_module.low.")]) for n, p in kept.items())

    def loss():
        return (changed(X, EDGES) - 1).square().mean()

    optimizer = torch.optim.Adam(changed.parameters(), lr=0.05)
    before = float(loss().detach())
    for _ in range(30):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert float(loss().detach()) < before
    assert all(layer.aggr_module.cp.M.any() for layer in layers)


@pytest.mark.parametrize("name", ["GCN", "GAT", "GraphSAGE", "GIN", "PNA"])
def test_known_layers_need_no_first_pass(name):
    changed = with_cp(MODELS[name](), rank=4, verbose=False)
    assert all(p.numel() > 0 for p in changed.parameters())


class Net(torch.nn.Module):
    def __init__(self, readout: Aggregation | None):
        super().__init__()
        self.conv = GCNConv(F, 8)
        self.readout = readout
        self.own = TGNNConv(8, 8, 2)

    def forward(self, x, edge_index, batch):
        x = self.own(self.conv(x, edge_index).relu(), edge_index)
        return self.readout(x, batch) if self.readout is not None else global_add_pool(x, batch)


def test_readouts(capsys):
    batch = torch.tensor([0] * 4 + [1] * 6)
    for aggregation in (SumAggregation(), MeanAggregation()):
        model = Net(aggregation)
        changed = with_cp(model, rank=3)
        torch.testing.assert_close(changed(X, EDGES, batch), model(X, EDGES, batch))
        assert [c.name for c in changed.cp_changes] == ["conv", "readout"]
        assert isinstance(changed.readout, HighOrderAggregation)
    capsys.readouterr()
    with_cp(Net(None), rank=3)
    assert "not changed: Net.forward calls global_add_pool; use an Aggregation module" in capsys.readouterr().out
    alone = with_cp(SumAggregation(), rank=3, verbose=False)
    assert isinstance(alone, HighOrderAggregation)
    assert alone(X, batch).shape == (2, F)
    assert len(with_cp(MultiAggregation(["sum", "max"]), rank=3, verbose=False).cp_changes) == 1


def test_what_cannot_be_changed_is_refused_by_name():
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = GATConv(F, 8)
            self.second = FastRGCNConv(8, 8, num_relations=2)

    with pytest.raises(ValueError, match=r"cannot change second \(FastRGCNConv\), which overrides aggregate\(\)"):
        with_cp(Mixed(), rank=3)
    changed = with_cp(Mixed(), rank=3, skip=["second"], verbose=False)
    assert [c.name for c in changed.cp_changes] == ["first"]
    for model in (torch.nn.Linear(2, 2), TGNNConv(2, 2, 2), with_cp(GCN(F, 8, 2, 3), rank=4, verbose=False)):
        with pytest.raises(ValueError, match="found no aggregation to change"):
            with_cp(model, rank=3)
    with pytest.raises(ValueError, match="rank is 0"):
        with_cp(GCNConv(2, 2), rank=0)
    with pytest.raises(ValueError, match="skip contains 'third', but the model has no module of this name"):
        with_cp(Mixed(), rank=3, skip=["third"])


def test_a_model_of_another_precision():
    model = GCN(F, 8, 2, 3).double()
    torch.testing.assert_close(with_cp(model, rank=4, verbose=False)(X.double(), EDGES), model(X.double(), EDGES))


def test_a_trained_one_can_be_loaded_where_widths_come_from_the_input():
    trained = with_cp(MODELS["Transformer"](), rank=4, verbose=False)
    trained(X, EDGES)
    with torch.no_grad():
        trained.aggr_module.cp.M.fill_(0.5)
    fresh = with_cp(MODELS["Transformer"](), rank=4, verbose=False)
    fresh.load_state_dict(trained.state_dict())
    assert torch.equal(fresh(X, EDGES), trained(X, EDGES))


def test_a_readout_of_two_names_is_one():
    class Shared(Net):
        def __init__(self):
            super().__init__(SumAggregation())
            self.again = self.readout

    changed = with_cp(Shared(), rank=3, verbose=False)
    assert changed.again is changed.readout
    assert isinstance(changed.again, HighOrderAggregation)
    assert [change.name for change in changed.cp_changes] == ["conv", "readout"]


def test_resetting_every_module_starts_at_zero_again():
    changed = with_cp(GCN(F, 8, 2, 3), rank=4, verbose=False)
    for module in changed.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    assert not any(conv.aggr_module.cp.M.any() for conv in changed.convs)


def test_a_readout_function_that_is_an_attribute_is_reported(capsys):
    net = Net(None)
    net.pool = global_add_pool
    with_cp(net, rank=3, skip="own")
    assert "not changed: Net.pool is the function global_add_pool" in capsys.readouterr().out
    with pytest.raises(TypeError, match="model must be a torch.nn.Module"):
        with_cp(GCN, rank=3)
