"""Theorem 2: sum and mean of k vectors at rank F k."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from tgnn.theory import cp_mean, cp_sum, dense_tensor
from tgnn.theory.sums import LARGEST_K, riesz_nodes


def apply(layer: torch.nn.Module, x: Tensor) -> Tensor:
    """Apply a layer to many sets: ``[n, k, F]`` to ``[n, F]``."""
    n, k, F = x.shape
    return layer(x.reshape(-1, F), torch.arange(n).repeat_interleave(k)).detach()


def normal(n: int, k: int, F: int) -> Tensor:
    return torch.randn(n, k, F, generator=torch.Generator().manual_seed(k), dtype=torch.float64)


@pytest.mark.parametrize("F", [1, 3, 8])
@pytest.mark.parametrize("k", [*range(1, 13), 25, 40])
def test_sum_and_mean(F, k):
    x = normal(50, k, F)
    for make, expected in ((cp_sum, x.sum(1)), (cp_mean, x.mean(1))):
        layer = make(F, k)
        assert layer.rank == F * k
        assert layer.M.shape == (F, F * k)
        assert layer.W.shape == (F + 1, F * k)
        torch.testing.assert_close(apply(layer, x), expected, rtol=0, atol=1e-11)


def test_the_bound_holds_to_the_largest_k():
    k = LARGEST_K
    bound = 10 * k * 2.0**-53 * k**1.5 * math.e**0.5
    assert 0.8e-6 < bound < 1e-6
    x = normal(3, k, 1)
    alike = torch.ones(1, k, 1, dtype=torch.float64)
    one = torch.zeros(1, k, 1, dtype=torch.float64)
    one[0, 0] = k**0.5  # one vector has the whole norm
    for sets in (x / x.square().mean(1, keepdim=True).sqrt(), alike, one):
        torch.testing.assert_close(apply(cp_sum(1, k), sets), sets.sum(1), rtol=0, atol=bound)


def test_scale_is_the_size_of_the_inputs():
    x = 1e4 * normal(20, 12, 2)
    torch.testing.assert_close(apply(cp_sum(2, 12, scale=1e4), x), x.sum(1), rtol=0, atol=1e4 * 1e-11)
    assert (apply(cp_sum(2, 12), x) - x.sum(1)).abs().max() > 1  # the error without scale


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 12])
def test_the_weights_solve_the_vandermonde_system_exactly(k):
    # sum_j c_j s_j^n = [n = k - 1], for n = 0 ... k - 1: the divided difference. In fractions, so nothing is rounded.
    cos, sin, weights = riesz_nodes(k)
    nodes = [Fraction(c.item()) / Fraction(s.item()) for c, s in zip(cos, sin)]
    assert len(set(nodes)) == k
    assert float(sum(nodes)) == pytest.approx(0, abs=1e-13)
    for j, node in enumerate(nodes):
        exact = 1 / math.prod((node - other for other in nodes if other != node), start=Fraction(1))
        # Here the factor is s_j + x; in the layer it is sin theta_j times that.
        assert weights[j].item() * sin[j].item() ** k == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_the_tensor_is_that_of_the_proof(k):
    F = 2
    T = torch.zeros(*(F + 1,) * k, F, dtype=torch.float64)
    for j in range(F):
        for place in range(k):
            T[(*(F,) * place, j, *(F,) * (k - place - 1), j)] = 1
    torch.testing.assert_close(dense_tensor(cp_sum(F, k), k).detach(), T, rtol=0, atol=1e-13)
    torch.testing.assert_close(dense_tensor(cp_mean(F, k), k).detach(), T / k, rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", [cp_sum, cp_mean])
def test_wrong_input_is_named(make):
    with pytest.raises(ValueError, match="k is 0"):
        make(2, 0)
    with pytest.raises(ValueError, match="in_channels is 0"):
        make(0, 2)
    with pytest.raises(ValueError, match="k is 3001, .* up to k=3000; use torch_geometric"):
        make(2, 3001)
    for scale in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="scale is"):
            make(2, 2, scale=scale)
