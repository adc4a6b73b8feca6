"""Theorems 1 and 2: polynomials, sums and means become layers, and a layer has a dense tensor.

The oracles sum every monomial, contract the tensor, or use tensorly, in another way than the layer does.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
import tensorly
import torch
from torch import Tensor

from tests.unit.theory.conftest import apply, random_layer, random_sets
from tgnn.nn import CPAggregation
from tgnn.theory import cp_from_polynomial, cp_mean, cp_sum, dense_tensor
from tgnn.theory.sums import LARGEST_K, riesz_nodes

SIZES = [(1, 1, 1), (1, 6, 2), (2, 2, 3), (2, 3, 1), (3, 4, 2), (4, 3, 5), (4, 5, 2), (5, 1, 3)]


def symmetric_tensor(F: int, k: int, d: int) -> Tensor:
    """Normal entries, one for each sorted index."""
    generator = torch.Generator().manual_seed(0)
    entries = {
        index: torch.randn(d, generator=generator, dtype=torch.float64)
        for index in combinations_with_replacement(range(F + 1), k)
    }
    T = torch.empty(*(F + 1,) * k, d, dtype=torch.float64)
    for index in product(range(F + 1), repeat=k):
        T[index] = entries[tuple(sorted(index))]
    return T


def contract(T: Tensor, sets: Tensor) -> Tensor:
    """T times [x_i; 1] in each mode, one vector after the other, for each set."""
    outputs = []
    for x in sets:
        output = T
        for row in x:
            output = torch.tensordot(torch.cat([row, row.new_ones(1)]), output, dims=1)
        outputs.append(output)
    return torch.stack(outputs)


def assert_close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found.detach(), expected, rtol=0, atol=tolerance)


# ---- Theorem 1: polynomials -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("F", "k", "d"), SIZES)
def test_a_tensor_becomes_a_layer(F, k, d):
    T = symmetric_tensor(F, k, d)
    layer = cp_from_polynomial(T)
    assert (layer.in_channels, layer.out_channels, layer.rank) == (F, d, math.comb(F + k, k))
    assert (layer.M.dtype, layer.act, layer.act_out, layer.fuses_tanh) == (torch.float64, None, None, False)
    sets = random_sets(10, k, F)
    assert_close(apply(layer, sets), contract(T, sets), 1e-10)
    assert_close(dense_tensor(layer, k), T, 1e-11)


@pytest.mark.parametrize(("F", "k"), [(1, 20), (2, 12), (3, 8), (8, 3)])
def test_larger_sizes_hold_relative_to_the_polynomials_size(F, k):
    # A product of equal linear forms has a short formula, and all its coefficients are there.
    form = torch.randn(F + 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    terms = {
        index[: sum(i < F for i in index)]: math.prod(form[i].item() for i in index)
        for index in combinations_with_replacement(range(F + 1), k)
    }
    x = random_sets(50, k, F)
    expected = (x @ form[:-1] + form[-1]).prod(1, keepdim=True)
    assert_close(apply(cp_from_polynomial(terms, F, k), x), expected, 1e-10 * expected.abs().max().item())


def test_the_meaning_of_each_term():
    x, y, z = vectors = torch.tensor([[2.0, 3.0], [5.0, 7.0], [11.0, 13.0]], dtype=torch.float64)
    meaning = {
        (): 1.0,
        (0,): x[0] + y[0] + z[0],
        (1,): x[1] + y[1] + z[1],
        (0, 0): x[0] * y[0] + x[0] * z[0] + y[0] * z[0],
        (0, 1): x[0] * y[1] + x[1] * y[0] + x[0] * z[1] + x[1] * z[0] + y[0] * z[1] + y[1] * z[0],
        (1, 1, 1): x[1] * y[1] * z[1],
        (0, 1, 1): x[0] * y[1] * z[1] + x[1] * y[0] * z[1] + x[1] * y[1] * z[0],
    }
    for term, value in meaning.items():
        for order in permutations(term):  # the order of the factors has no effect
            out = apply(cp_from_polynomial({order: [1.0, -3.0]}, in_channels=2, k=3), vectors.unsqueeze(0))
            assert out[0].tolist() == pytest.approx([float(value), -3 * float(value)], abs=1e-9)


def test_every_form_of_a_polynomial():
    T = symmetric_tensor(3, 3, 2)
    terms = {tuple(i for i in index if i < 3): T[index] for index in combinations_with_replacement(range(4), 3)}
    rounded = T.float() * torch.linspace(1, 1 + 2e-6, T.numel()).view(T.shape)  # symmetric up to rounding
    expected = cp_from_polynomial(T).M.detach()
    assert_close(cp_from_polynomial(terms, 3, 3).M, expected, 1e-12)
    assert_close(cp_from_polynomial(T.numpy()).M, expected, 0)
    assert_close(cp_from_polynomial(rounded).M, expected, 1e-4)
    T = torch.randn(3, 3, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    average = sum(T.permute(*order, 3) for order in permutations(range(3))) / 6
    assert_close(dense_tensor(cp_from_polynomial(T, symmetrize=True), 3), average, 1e-12)


def test_random_numbers_are_left_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    cp_from_polynomial({(0,): 1.0}, 2, 2)
    assert torch.equal(torch.rand(3), expected)


UNEQUAL = symmetric_tensor(1, 2, 2)
UNEQUAL[0, 1, 1], UNEQUAL[1, 0, 1] = 7.0, 9.5


@pytest.mark.parametrize(
    ("polynomial", "sizes", "error", "message"),
    [
        ({(0,): 1.0}, (None, 2), ValueError, "pass in_channels and k"),
        ({(0,): 1.0}, (2, 0), ValueError, "k is 0"),
        ({(0,): 1.0}, (0, 2), ValueError, "in_channels is 0"),
        ({}, (2, 2), ValueError, "no terms"),
        ({(2,): 1.0}, (2, 2), ValueError, r"\(2,\) has a feature outside 0 ... 1"),
        ({(-1,): 1.0}, (2, 2), ValueError, r"\(-1,\) has a feature"),
        ({(0, 0, 0): 1.0}, (2, 2), ValueError, "has 3 factors, but there are only k=2"),
        ({(0, 1): 1.0, (1, 0): 2.0}, (2, 2), ValueError, r"\(1, 0\) and \(0, 1\) are the same term"),
        ({(0,): 1.0, (1,): [1.0, 2.0]}, (2, 2), ValueError, r"\(1,\) has 2 entries, but those before it have 1"),
        ({(0,): [[1.0]]}, (2, 2), ValueError, r"shape \(1, 1\)"),
        ({(0,): float("nan")}, (2, 2), ValueError, "NaN or infinite"),
        ({0: 1.0}, (2, 2), TypeError, "tuple of feature indices"),
        ({(0.5,): 1.0}, (2, 2), TypeError, "tuple of feature indices"),
        ({(0,): 1.0}, (4, 12), ValueError, "needs rank 1820, more than the maximum of 1500"),
        ({(0,): 1.0}, (1, 60), ValueError, "k=60 .* above the maximum of 1e-08"),
        (torch.zeros(3, 2, 1), (None, None), ValueError, r"shape \(3, 2, 1\)"),
        (torch.zeros(3), (None, None), ValueError, r"shape \(3,\)"),
        (torch.zeros(1, 1, 1), (None, None), ValueError, r"shape \(1, 1, 1\)"),
        (torch.zeros(3, 3, 1), (3, None), ValueError, "in_channels is 3, but .* in_channels=2"),
        (torch.zeros(3, 3, 1), (None, 3), ValueError, "k is 3, but .* k=2"),
        (torch.zeros(3, 3, 1, dtype=torch.complex64), (None, None), TypeError, "complex64"),
        (np.full((2, 2, 1), np.inf), (None, None), ValueError, "NaN or infinite"),
        (UNEQUAL, (None, None), ValueError, r"T\[0, 1, 1\] = 7 but T\[1, 0, 1\] = 9.5.*symmetrize=True"),
    ],
)
def test_invalid_polynomials(polynomial, sizes, error, message):
    with pytest.raises(error, match=message):
        cp_from_polynomial(polynomial, *sizes)


# ---- Theorem 2: sum and mean ------------------------------------------------------------------------------------


@pytest.mark.parametrize("F", [1, 3, 8])
@pytest.mark.parametrize("k", [*range(1, 13), 25, 40])
def test_sum_and_mean(F, k):
    x = random_sets(50, k, F)
    for make, expected in ((cp_sum, x.sum(1)), (cp_mean, x.mean(1))):
        layer = make(F, k)
        assert (layer.rank, layer.M.shape, layer.W.shape) == (F * k, (F, F * k), (F + 1, F * k))
        assert_close(apply(layer, x), expected, 1e-11)


def test_the_bound_holds_to_the_largest_k():
    k = LARGEST_K
    bound = 10 * k * 2.0**-53 * k**1.5 * math.e**0.5
    assert 0.8e-6 < bound < 1e-6
    x = random_sets(3, k, 1)
    alike = torch.ones(1, k, 1, dtype=torch.float64)
    one = torch.zeros(1, k, 1, dtype=torch.float64)
    one[0, 0] = k**0.5  # one vector has the whole norm
    for sets in (x / x.square().mean(1, keepdim=True).sqrt(), alike, one):
        assert_close(apply(cp_sum(1, k), sets), sets.sum(1), bound)


def test_scale_is_the_size_of_the_inputs():
    x = 1e4 * random_sets(20, 12, 2)
    assert_close(apply(cp_sum(2, 12, scale=1e4), x), x.sum(1), 1e4 * 1e-11)
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
    assert_close(dense_tensor(cp_sum(F, k), k), T, 1e-13)
    assert_close(dense_tensor(cp_mean(F, k), k), T / k, 1e-13)


# ---- the dense tensor of a layer --------------------------------------------------------------------------------


@pytest.mark.parametrize(("F", "d", "R", "k"), [(1, 1, 1, 1), (2, 3, 4, 2), (3, 2, 5, 3), (2, 1, 2, 5)])
def test_the_tensor_against_tensorly(F, d, R, k):
    layer = random_layer(F, d, R)
    W, M = layer.W.detach().numpy(), layer.M.detach().numpy()
    T = dense_tensor(layer, k)
    assert T.shape == (F + 1,) * k + (d,)
    assert_close(T, torch.from_numpy(tensorly.cp_to_tensor((None, [*[W] * k, M]))), 1e-12)
    T.square().sum().backward()
    assert layer.M.grad.abs().min() > 0
    assert layer.lin.weight.grad.abs().min() > 0


@pytest.mark.parametrize("options", [{}, {"scaled": True}, {"act_out": "tanh"}])
def test_contracting_the_tensor_is_calling_the_layer(options):
    layer, sets = random_layer(3, 2, 5, **options), random_sets(5, 4, 3)
    expected = contract(dense_tensor(layer, 4).detach(), sets)
    assert_close(apply(layer, sets), expected.tanh() if "act_out" in options else expected, 1e-11)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cp_sum(2, 0), "k is 0"),
        (lambda: cp_mean(0, 2), "in_channels is 0"),
        (lambda: cp_sum(2, 3001), "k is 3001, .* up to k=3000; use torch_geometric"),
        *((lambda scale=scale: cp_mean(2, 2, scale=scale), "scale is") for scale in (0.0, -1.0, math.inf, math.nan)),
        (lambda: dense_tensor(random_layer(2, 1, 1), 0), "k is 0"),
        (lambda: dense_tensor(random_layer(2, 1, 1, factor_act="tanh"), 2), "factor_act=Tanh"),
        (lambda: dense_tensor(random_layer(2, 1, 1), 30), "k=30 with 2 features .* needs .* call the layer"),
        (lambda: dense_tensor(CPAggregation(-1, 2, rank=3), 2), "run it once first"),
    ],
)
def test_invalid_sizes_and_layers(call, message):
    with pytest.raises(ValueError, match=message):
        call()
