"""FactorGraphNet and BeliefPropagation against their equations, edge by edge, and against exact marginals."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import MaxAggregation

from tgnn.data.codes import ParityCheckCode, awgn_frames, bch_code
from tgnn.nn import BeliefPropagation, FactorGraphNet

TREE = ParityCheckCode("tree", torch.tensor([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]))
"""A code whose factor graph has no cycle, so that belief propagation is exact."""


def _random_llr(code: ParityCheckCode, frames: int = 7) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 3 * torch.randn(code.n, frames, generator=generator, dtype=torch.float64)


def test_sum_product_is_exact_on_a_tree():
    llr = _random_llr(TREE)
    codewords = TREE.encode(torch.tensor(list(itertools.product([0, 1], repeat=TREE.k))))  # [16, n]
    weights = (-codewords.double() @ llr).exp()  # proportional to p(codeword | received), [codewords, frames]
    is_one = codewords.double().T
    expected = (((1 - is_one) @ weights) / (is_one @ weights)).log()
    out = BeliefPropagation(num_rounds=4)(llr, TREE.edge_index)
    torch.testing.assert_close(out[-1], expected)
    torch.testing.assert_close(out[:, :, 0], BeliefPropagation(4)(llr[:, 0], TREE.edge_index))


@pytest.mark.parametrize("code", [TREE, bch_code(15, 7)], ids=lambda code: code.name)
def test_min_sum_edge_by_edge(code):
    llr, scale = _random_llr(code)[:, 0], 0.8
    edges = code.edge_index.T.tolist()
    message = {edge: llr[edge[0]].item() for edge in map(tuple, edges)}
    out = BeliefPropagation(3, "min-sum", scale)(llr, code.edge_index)
    for result in out:
        check = {}
        for v, c in message:
            others = [message[w, d] for w, d in message if d == c and w != v]
            sign = (-1) ** sum(value < 0 for value in others)
            check[v, c] = scale * sign * min(abs(value) for value in others)
        total = [llr[v].item() + sum(value for (w, _), value in check.items() if w == v) for v in range(code.n)]
        torch.testing.assert_close(result, torch.tensor(total, dtype=torch.float64))
        message = {(v, c): total[v] - check[v, c] for v, c in message}


def test_belief_propagation_corrects_errors():
    code = bch_code(63, 45)
    llr, codewords = awgn_frames(code, torch.full((500,), 5.0), torch.Generator().manual_seed(0))
    before = ((llr < 0) != codewords.bool()).float().mean()
    after = (codewords.bool() != (BeliefPropagation(5)(llr.T, code.edge_index)[-1] < 0).T).float().mean()
    assert after < 0.6 * before  # .0068 and .0163 on many frames


@pytest.mark.parametrize("tied", [True, False])
def test_network_edge_by_edge(tied):
    torch.manual_seed(0)
    code = bch_code(7, 4)
    net = FactorGraphNet(2, 5, num_rounds=3, out_channels=2, rank=4, mlp_channels=6, tied=tied).double()
    x = torch.randn(code.n, 2, dtype=torch.float64)
    edges = [tuple(edge) for edge in code.edge_index.T.tolist()]
    state = {(v, c): net.lin_in(x[v]) for v, c in edges}
    for index, out in enumerate(net(x, code.edge_index, code.num_checks)):
        weights = net.rounds[0 if tied else index]
        factor = {edge: weights.lin_factor(state[edge]).tanh() for edge in edges}
        message = {}
        for v, c in edges:
            others = torch.stack([factor[w, d] for w, d in edges if d == c and w != v])
            message[v, c] = weights.message_mlp(others.prod(0))
        for v in range(code.n):
            total = sum(message[edge] for edge in edges if edge[0] == v)
            torch.testing.assert_close(out[v], net.lin_skip(x[v]) + net.lin_out(total))
        for v, c in edges:
            others = sum((message[w, d] for w, d in edges if w == v and d != c), torch.zeros(5, dtype=torch.float64))
            state[v, c] = state[v, c] + weights.update(torch.cat([others, state[v, c], x[v]]))


@pytest.mark.parametrize("aggr", ["cp", "sum", "mean", MaxAggregation()], ids=str)
def test_examples_on_one_graph_are_independent(aggr):
    torch.manual_seed(0)
    code = bch_code(15, 7)
    net = FactorGraphNet(1, 6, num_rounds=2, aggr=aggr)
    x = torch.randn(code.n, 3, 1)
    out = net(x, code.edge_index)
    assert out.shape == (2, code.n, 3, 1)
    for example in range(3):
        torch.testing.assert_close(out[:, :, example], net(x[:, example], code.edge_index))
    out.square().sum().backward()
    unused = {name for name, p in net.named_parameters() if p.grad is None}
    assert not unused


def test_number_of_rounds():
    code = bch_code(7, 4)
    x = torch.randn(code.n, 1)
    tied, untied = FactorGraphNet(1, 4, 2), FactorGraphNet(1, 4, 2, tied=False)
    assert tied(x, code.edge_index, num_rounds=5).shape == (5, code.n, 1)
    torch.testing.assert_close(tied(x, code.edge_index, num_rounds=5)[:2], tied(x, code.edge_index))
    with pytest.raises(ValueError, match="num_rounds is 5, but a network with tied=False has 2"):
        untied(x, code.edge_index, num_rounds=5)
    with pytest.raises(ValueError, match="rule is 'max', but must be one of 'sum-product', 'min-sum'"):
        BeliefPropagation(3, "max")
    with pytest.raises(ValueError, match="num_rounds"):
        FactorGraphNet(1, 4, 0)
