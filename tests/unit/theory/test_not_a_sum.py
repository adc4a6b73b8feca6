"""Theorem 3: a random layer is not a function of the sum, by counterexamples and by second derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import MeanAggregation, SumAggregation

from tests.unit.theory.conftest import LINEAR, apply, random_layer, random_sets
from tgnn.nn import CPAggregation
from tgnn.theory import (
    cp_from_polynomial,
    cp_mean,
    cp_sum,
    dense_tensor,
    equal_sums_differ,
    hessian_blocks,
    hessian_gap,
    mixed_derivative,
)


def check(layer: CPAggregation, k: int) -> None:
    found = equal_sums_differ(layer, k)
    x, y = found.first, found.second
    assert x.shape == y.shape == (k, layer.in_channels)
    assert torch.equal(x.sum(0), y.sum(0))
    assert torch.equal(x.float().double(), x)  # integers, which float32 represents exactly
    a, b = apply(layer, torch.stack([x, y]).to(layer.M)).double()
    assert (a - b).abs().max() > 1e-4 * torch.stack([a, b]).abs().max()


@pytest.mark.parametrize("options", [{"act": "tanh", "act_out": "relu"}, LINEAR], ids=["tanh-relu", "linear"])
def test_found_for_each_of_1000_random_layers(options):
    generator = torch.Generator().manual_seed(0)
    for seed in range(1000):
        F, d, R, k = (int(torch.randint(1, 6, (), generator=generator)) for _ in range(4))
        check(random_layer(F, d, R, seed, **options), k + 1)


@pytest.mark.parametrize(
    "options",
    [{}, {"scaled": True}, {"factor_act": "tanh", "act": None}, {"act": "sigmoid"}, {"act": "relu", "act_out": "elu"}],
    ids=str,
)
def test_found_for_layers_as_they_start(options):
    for seed in range(50):
        torch.manual_seed(seed)
        check(CPAggregation(4, 3, rank=8, **options), k=2 + seed % 10)


def test_the_layer_is_not_changed():
    layer = CPAggregation(2, 2, rank=2)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    equal_sums_differ(layer)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize(
    ("layer", "k"),
    [
        (cp_sum(3, 2), 2),
        (cp_mean(2, 5), 5),
        (cp_sum(1, 12), 12),
        (cp_from_polynomial({(): 1.0}, 3, 4), 4),
        (cp_from_polynomial({(): 2.0, (0,): 1.0, (1,): -3.0}, 2, 3), 3),
    ],
)
def test_none_is_found_where_there_is_none(layer, k):
    with pytest.raises(ValueError, match=f"no two sets of k={k} vectors"):
        equal_sums_differ(layer, k)


def test_blocks_of_a_linear_layer_come_from_its_tensor():
    layer, x = random_layer(3, 2, 4), random_sets(1, 3, 3)[0]
    blocks = hessian_blocks(layer, x)
    assert blocks.shape == (2, 3, 3, 3, 3)
    assert all(blocks[:, i, i].eq(0).all() for i in range(3))  # linear in each vector alone
    third = torch.cat([x[2], x.new_ones(1)])
    expected = torch.einsum("abco,c->oab", dense_tensor(layer, 3).detach(), third)[:, :3, :3]
    torch.testing.assert_close(blocks[:, 0, 1], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mixed_derivative(layer, x), expected, rtol=0, atol=1e-12)
    assert expected.abs().min() > 1e-6


@pytest.mark.parametrize("options", [{"act": "tanh", "act_out": None}, {"factor_act": "tanh", **LINEAR}], ids=str)
def test_blocks_against_differences(options):
    torch.manual_seed(0)
    layer = CPAggregation(2, 2, rank=3, **options).double()
    x, h = torch.randn(3, 2, dtype=torch.float64), 1e-4
    blocks = hessian_blocks(layer, x)

    def moved(*steps: tuple[int, int, float]) -> Tensor:
        y = x.clone()
        for i, a, size in steps:
            y[i, a] += size
        return apply(layer, y.unsqueeze(0))[0]

    for i, a, j, b in [(0, 0, 1, 1), (2, 1, 0, 0), (1, 0, 1, 0), (1, 0, 1, 1)]:
        corners = [s * t * moved((i, a, s * h), (j, b, t * h)) for s in (1, -1) for t in (1, -1)]
        torch.testing.assert_close(blocks[:, i, j, a, b], sum(corners) / (4 * h * h), rtol=1e-4, atol=1e-6)


def test_every_function_of_the_sum_has_equal_blocks():
    torch.manual_seed(0)
    W, M = torch.randn(3, 5, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    x = torch.randn(4, 3, dtype=torch.float64)

    def pooled(x: Tensor, index: Tensor) -> Tensor:  # the function of Theorem 3
        return torch.sigmoid(torch.tanh(SumAggregation()(x @ W, index)) @ M)

    assert hessian_blocks(pooled, x).abs().max() > 1e-3  # it is curved
    assert hessian_gap(pooled, x) < 1e-12
    assert hessian_gap(MeanAggregation(), x) == 0
    assert hessian_gap(cp_sum(3, 4), x) < 1e-11


def test_no_random_layer_has_equal_blocks():
    for seed in range(25):
        layer = random_layer(3, 2, 4, seed)
        assert hessian_gap(layer, torch.randn(3, 3, dtype=torch.float64)) > 0.1


LAYER, X = random_layer(3, 2, 4), random_sets(1, 2, 3)[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: equal_sums_differ(LAYER, 1), "k is 1, .* equals its sum"),
        (lambda: equal_sums_differ(CPAggregation(-1, 2, rank=2)), "run it once first"),
        (lambda: mixed_derivative(LAYER, X, 0, 2), "no vector 2; x has the vectors 0 ... 1"),
        (lambda: hessian_blocks(LAYER, X[0]), r"shape \(3,\), but must be a set"),
        (lambda: hessian_blocks(LAYER, X.long()), "torch.int64"),
        (lambda: hessian_blocks(lambda x, index: x.sum(0), X), r"returned shape \(3,\), but must return \[1, d\]"),
    ],
)
def test_invalid_inputs(call, message):
    with pytest.raises(ValueError, match=message):
        call()
