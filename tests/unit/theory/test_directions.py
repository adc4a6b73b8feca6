"""The basis of Theorem 1: it spans, it is well conditioned, and it is isometric."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tgnn.theory.directions import indices, multiplicities, powers, spanning_directions


@pytest.mark.parametrize(("variables", "order"), [(2, 1), (2, 5), (3, 4), (5, 3)])
def test_inner_products_are_those_of_the_full_tensors(variables, order):
    v, w = np.random.default_rng(0).normal(size=(2, variables))
    a, b = powers(np.stack([v, w]), order).T
    assert a @ b == pytest.approx((v @ w) ** order)


@pytest.mark.parametrize(("variables", "order"), [(2, 3), (4, 2)])
def test_every_entry_is_counted(variables, order):
    assert len(indices(variables, order)) == math.comb(variables + order - 1, order)
    assert multiplicities(variables, order).sum() == variables**order


@pytest.mark.parametrize(("variables", "order"), [(2, 1), (2, 10), (3, 5), (5, 5), (11, 2)])
def test_the_powers_are_a_good_basis(variables, order):
    directions, least = spanning_directions(variables, order)
    assert np.allclose(np.linalg.norm(directions, axis=1), 1)
    square = powers(directions, order)
    assert square.shape[0] == square.shape[1]
    assert least == pytest.approx(1 / np.linalg.norm(np.linalg.inv(square), 2))
    assert least > 0.01
