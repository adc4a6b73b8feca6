"""CPAggregation: Definition 1, and PyG's contract for aggregations."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.nn import MessagePassing, MultiAggregation

from tgnn import CPAggregation, TGNNConv
from tgnn.nn.init import log_spaced_normal_
from tgnn.ops import neighbor_product
from tgnn.testing import assert_gradients, assert_matches_oracle, assert_permutation_invariant, cp_oracle

INDEX = torch.tensor([0, 0, 1, 1, 1, 3])
PTR = torch.tensor([0, 2, 5, 5, 6])


@pytest.mark.parametrize("act", ["tanh", None, "sigmoid", torch.sin])
@pytest.mark.parametrize("act_out", ["relu", None])
@pytest.mark.parametrize("factor_act", [None, "tanh"])
@pytest.mark.parametrize("scaled", [False, True])
def test_definition_1(act, act_out, factor_act, scaled):
    aggr = CPAggregation(5, 4, rank=7, act=act, act_out=act_out, factor_act=factor_act, scaled=scaled)
    assert_matches_oracle(aggr, torch.randn(6, 5), INDEX)


def test_the_parameters_are_those_of_the_definition():
    aggr = CPAggregation(5, 4, rank=7)
    assert aggr.W.shape == (6, 7)
    assert aggr.M.shape == (4, 7)
    assert sum(p.numel() for p in aggr.parameters()) == 6 * 7 + 4 * 7
    assert torch.equal(aggr.W[-1], torch.ones(7))  # the homogeneous coordinate starts as the neutral element
    assert repr(aggr) == "CPAggregation(5, 4, rank=7)"
    assert CPAggregation(5, rank=2).out_channels == 5


@pytest.mark.parametrize("scaled", [False, True])
def test_index_equals_ptr(scaled):
    aggr, x = CPAggregation(5, 4, rank=7, scaled=scaled), torch.randn(6, 5)
    out = aggr(x, INDEX)
    assert out.shape == (4, 4)
    torch.testing.assert_close(aggr(x, ptr=PTR), out)
    torch.testing.assert_close(aggr(x, INDEX, dim_size=6)[:4], out)
    order = torch.randperm(6)
    torch.testing.assert_close(aggr(x[order], INDEX[order]), out)


def test_an_empty_set_has_the_product_one():
    aggr, x = CPAggregation(5, 4, rank=7), torch.randn(6, 5)
    expected = aggr.M @ torch.tanh(torch.ones(7))
    torch.testing.assert_close(aggr(x, INDEX)[2], expected)
    torch.testing.assert_close(aggr(x[:0], INDEX[:0], dim_size=1)[0], expected)


def test_dim():
    aggr, x = CPAggregation(5, 4, rank=7), torch.randn(3, 6, 5)
    out = aggr(x, INDEX, dim=-2)
    assert out.shape == (3, 4, 4)
    for one, expected in zip(x, out):
        torch.testing.assert_close(aggr(one, INDEX), expected)
    torch.testing.assert_close(aggr(x.transpose(0, 1), INDEX, dim=0), out.transpose(0, 1))


def test_permutation_invariance_and_gradients():
    aggr = CPAggregation(5, 4, rank=7).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    assert_permutation_invariant(aggr, x, INDEX, tolerance=1e-12)
    assert_gradients(CPAggregation(2, 2, rank=2, act_out="tanh").double(), x[:, :2], INDEX, second=True)


def test_inside_any_message_passing():
    class Layer(MessagePassing):
        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=x)

        def message(self, x_j):
            return x_j

    aggr, x = CPAggregation(5, 4, rank=7), torch.randn(4, 5)
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 1, 0, 3]])
    out = Layer(aggr=aggr)(x, edge_index)
    torch.testing.assert_close(out, aggr(x[edge_index[0]], edge_index[1], dim_size=4))


@pytest.mark.parametrize("mode", ["cat", "sum"])
def test_in_multi_aggregation(mode):
    aggr = CPAggregation(5, 5, rank=7)
    multi, x = MultiAggregation([aggr, "sum"], mode=mode), torch.randn(6, 5)
    parts = [aggr(x, INDEX), multi.aggrs[1](x, INDEX)]
    torch.testing.assert_close(multi(x, INDEX), torch.cat(parts, -1) if mode == "cat" else sum(parts))


def test_the_width_can_come_from_the_first_input():
    aggr, x = CPAggregation(-1, 4, rank=7), torch.randn(6, 5)
    with pytest.raises(ValueError, match="run it once before saving"):
        aggr.state_dict()
    assert copy.deepcopy(aggr)(x, INDEX).shape == (4, 4)
    assert aggr(x, INDEX).shape == (4, 4)
    assert aggr.W.shape == (6, 7)
    other = CPAggregation(-1, 4, rank=7)
    other.load_state_dict(aggr.state_dict())
    assert torch.equal(other(x, INDEX), aggr(x, INDEX))


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="rank is 0, but must be at least 1"):
        CPAggregation(5, rank=0)
    with pytest.raises(ValueError, match=r"in_channels is 0, but must be at least 1 \(or -1\)"):
        CPAggregation(0, rank=2)
    with pytest.raises(ValueError, match="out_channels is -1"):
        CPAggregation(-1, rank=2)
    with pytest.raises(ValueError, match="x has 4 features, but the layer expects 5"):
        CPAggregation(5, rank=2)(torch.randn(6, 4), INDEX)


@pytest.mark.parametrize("by_ptr", [False, True])
def test_exclusive_aggregation_leaves_out_one_vector(by_ptr):
    aggr = CPAggregation(5, 4, rank=3, exclusive=True, factor_act="tanh", act=None, bias_init=0.0, smallest_start=1.0)
    assert aggr.lin.bias.unique().tolist() == [0]
    whole = CPAggregation(5, 4, rank=3, factor_act="tanh", act=None)
    whole.load_state_dict(aggr.state_dict())
    x, index = torch.randn(6, 5), torch.tensor([0, 0, 0, 1, 2, 2])
    out = aggr(x, ptr=torch.tensor([0, 3, 4, 6])) if by_ptr else aggr(x, index)
    for row in range(6):
        others = (index == index[row]) & (torch.arange(6) != row)
        torch.testing.assert_close(out[row], whole(x[others], torch.zeros(int(others.sum())).long(), dim_size=1)[0])


def test_affine_factors_multiply_the_probabilities_of_no_event():
    aggr = CPAggregation(1, 1, rank=1, factor_act="sigmoid", affine=(-1.0, 1.0), act=None, act_out=None, bias_init=0.0)
    with torch.no_grad():
        aggr.lin.weight.fill_(1.0)
        aggr.M.fill_(1.0)
    logits = torch.randn(4, 1)
    expected = (1 - logits.sigmoid()).prod()  # noisy OR: no event in any member
    assert aggr(logits, torch.zeros(4).long()).item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(cp_oracle(aggr, logits).float(), expected)
    assert aggr.scale.requires_grad


# ---- initialization: the product is alive for leaves and for hubs, and its gradient reaches W1 --------------------

DEGREES = [1, 2, 10, 100, 1000, 10000]


def star(degree: int) -> torch.Tensor:
    """Node 0 has ``degree`` neighbors."""
    return torch.stack([torch.arange(1, degree + 1), torch.zeros(degree, dtype=torch.int64)])


def at_the_start(degree: int, rank: int, features: str) -> tuple[torch.Tensor, float]:
    """tanh(product) at the center of some stars, ``[stars, rank]``, and the size of W1's gradient for each star."""
    torch.manual_seed(degree + rank)
    hub, size = [], []
    conv = TGNNConv(16, 8, rank)
    for _ in range(10):
        x = torch.randn(degree + 1, 16) if features == "normal" else (torch.rand(degree + 1, 16) < 0.1).float()
        product = conv.cp.factors(x)
        value = neighbor_product(product, star(degree), activation="tanh", self_loops=True)[0]
        conv.zero_grad()
        conv.cp.update(value).sum().backward()
        hub.append(value.detach())
        size.append(float(conv.cp.lin.weight.grad.norm()))
    return torch.stack(hub), sum(size) / len(size)


@pytest.mark.parametrize("features", ["normal", "bag of words"])
@pytest.mark.parametrize("rank", [8, 64, 512])
@pytest.mark.parametrize("degree", DEGREES)
def test_alive_at_every_degree(degree, rank, features):
    value, gradient = at_the_start(degree, rank, features)
    assert value.isfinite().all()
    assert value.std() > 0.02, "all products are alike"
    assert (value.abs() > 0.999).float().mean() < 0.5, "most products are saturated"
    assert (value.abs() < 1e-3).float().mean() < 0.75, "most products are dead"
    assert 1e-2 < gradient < 1e6, "no gradient for W1, or too much"


def test_scales():
    weight = log_spaced_normal_(torch.empty(2000, 9))
    torch.testing.assert_close(
        weight.std(0) * 2000**0.5, torch.logspace(0, -4, 9), rtol=0.15, atol=0, msg="each column has its own size"
    )
    assert 0.005 < float(log_spaced_normal_(torch.empty(5000, 1)).std() * 5000**0.5) < 0.02
    alike = log_spaced_normal_(torch.empty(2000, 9), smallest=1.0).std(0) * 2000**0.5
    torch.testing.assert_close(alike, torch.ones(9), rtol=0.15, atol=0)
