"""Theorem 1: polynomials become layers. The oracle sums every monomial, in another way than the layer does."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
import torch
from torch import Tensor

from tgnn.theory import cp_from_polynomial, dense_tensor

SIZES = [(1, 1, 1), (1, 6, 2), (2, 2, 3), (2, 3, 1), (3, 4, 2), (4, 3, 5), (4, 5, 2), (5, 1, 3)]


def symmetric_tensor(F: int, k: int, d: int, seed: int = 0) -> Tensor:
    """Normal entries, one for each sorted index."""
    generator = torch.Generator().manual_seed(seed)
    entries = {
        index: torch.randn(d, generator=generator, dtype=torch.float64)
        for index in combinations_with_replacement(range(F + 1), k)
    }
    T = torch.empty(*(F + 1,) * k, d, dtype=torch.float64)
    for index in product(range(F + 1), repeat=k):
        T[index] = entries[tuple(sorted(index))]
    return T


def contract(T: Tensor, x: Tensor) -> Tensor:
    """T times [x_i; 1] in each mode, one vector after the other."""
    for row in x:
        T = torch.tensordot(torch.cat([row, row.new_ones(1)]), T, dims=1)
    return T


def apply(layer: torch.nn.Module, x: Tensor) -> Tensor:
    return layer(x, torch.zeros(x.size(0), dtype=torch.long))[0].detach()


def sets(F: int, k: int, count: int = 10) -> Tensor:
    return torch.randn(count, k, F, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(("F", "k", "d"), SIZES)
def test_a_tensor_becomes_a_layer(F, k, d):
    T = symmetric_tensor(F, k, d)
    layer = cp_from_polynomial(T)
    assert (layer.in_channels, layer.out_channels, layer.rank) == (F, d, math.comb(F + k, k))
    assert layer.M.dtype == torch.float64
    assert layer.act is None
    assert layer.act_out is None
    assert not layer.fuses_tanh
    for x in sets(F, k):
        torch.testing.assert_close(apply(layer, x), contract(T, x), rtol=0, atol=1e-10)
    torch.testing.assert_close(dense_tensor(layer, k).detach(), T, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("F", "k"), [(1, 20), (2, 12), (3, 8), (8, 3)])
def test_larger_sizes_hold_relative_to_the_polynomials_size(F, k):
    generator = torch.Generator().manual_seed(0)
    # A product of equal linear forms has a short formula, and all its coefficients are there.
    form = torch.randn(F + 1, generator=generator, dtype=torch.float64)
    terms = {
        index[: sum(i < F for i in index)]: math.prod(form[i].item() for i in index)
        for index in combinations_with_replacement(range(F + 1), k)
    }
    layer = cp_from_polynomial(terms, F, k)
    x = sets(F, k, 50)
    expected = (x @ form[:-1] + form[-1]).prod(1, keepdim=True)
    error = torch.stack([apply(layer, row) for row in x]) - expected
    assert error.abs().max() < 1e-10 * expected.abs().max()


def test_what_each_term_means():
    x, y, z = (torch.tensor(v, dtype=torch.float64) for v in ([2.0, 3.0], [5.0, 7.0], [11.0, 13.0]))
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
            out = apply(cp_from_polynomial({order: 1.0}, in_channels=2, k=3), torch.stack([x, y, z]))
            assert out.item() == pytest.approx(float(value), abs=1e-9)


def test_terms_are_the_tensors_entries():
    T = symmetric_tensor(3, 3, 2)
    terms = {tuple(i for i in index if i < 3): T[index] for index in combinations_with_replacement(range(4), 3)}
    by_terms, by_tensor = cp_from_polynomial(terms, 3, 3), cp_from_polynomial(T)
    torch.testing.assert_close(by_terms.M, by_tensor.M, rtol=0, atol=1e-12)


def test_a_coefficient_for_each_output():
    layer = cp_from_polynomial({(0,): [1.0, 0.0], (0, 0): [0.0, 3.0]}, 1, 2)
    out = apply(layer, torch.tensor([[2.0], [5.0]], dtype=torch.float64))
    torch.testing.assert_close(out, torch.tensor([7.0, 30.0], dtype=torch.float64), rtol=0, atol=1e-12)


def test_numpy_and_single_precision_tensors_are_taken():
    T = symmetric_tensor(2, 3, 1)
    assert torch.equal(cp_from_polynomial(T.numpy()).M, cp_from_polynomial(T).M)
    rounded = T.float() * torch.linspace(1, 1 + 2e-6, T.numel()).view(T.shape)  # symmetric up to rounding
    torch.testing.assert_close(cp_from_polynomial(rounded).M, cp_from_polynomial(T).M, rtol=0, atol=1e-4)


def test_symmetrize_averages_over_all_orders():
    T = torch.randn(3, 3, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    average = sum(T.permute(*order, 3) for order in permutations(range(3))) / 6
    layer = cp_from_polynomial(T, symmetrize=True)
    torch.testing.assert_close(dense_tensor(layer, 3).detach(), average, rtol=0, atol=1e-12)


def test_two_entries_that_differ_are_named():
    T = symmetric_tensor(1, 2, 2)
    T[0, 1, 1], T[1, 0, 1] = 7.0, 9.5
    with pytest.raises(ValueError, match=r"T\[0, 1, 1\] = 7 but T\[1, 0, 1\] = 9.5.*symmetrize=True"):
        cp_from_polynomial(T)


def test_random_numbers_are_left_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    cp_from_polynomial({(0,): 1.0}, 2, 2)
    assert torch.equal(torch.rand(3), expected)


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
    ],
)
def test_wrong_input_is_named(polynomial, sizes, error, message):
    with pytest.raises(error, match=message):
        cp_from_polynomial(polynomial, *sizes)
