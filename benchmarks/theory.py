"""Accuracy of the layers of ``tgnn.theory``: the tables of docs/theory.md."""

from __future__ import annotations

import math

import torch

from tgnn.experiments.theorems import random_polynomial
from tgnn.theory import cp_from_polynomial, cp_mean, cp_sum

SIZES = [(2, 3), (3, 4), (4, 5), (4, 8), (10, 3), (50, 2), (1, 20)]
COUNTS = [3, 5, 8, 12, 20, 40, 100, 1000, 3000]


def polynomial_error(features: int, k: int) -> tuple[float, float]:
    """Return the largest value of a random polynomial and the largest error of its layer, over 20 sets."""
    terms, sets, truth = random_polynomial(features, k)
    layer = cp_from_polynomial(terms, in_channels=features, k=k)
    out = layer(sets.reshape(-1, features), torch.arange(20).repeat_interleave(k))
    return float(truth.abs().max()), float((out - truth).abs().max())


def sum_errors(k: int) -> tuple[float, float]:
    """Return the largest errors of ``cp_sum`` and ``cp_mean`` over 20 sets of k normal vectors in R^3."""
    x = torch.randn(20, k, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows, index = x.reshape(-1, 3), torch.arange(20).repeat_interleave(k)
    total = (cp_sum(3, k)(rows, index) - x.sum(1)).abs().max()
    mean = (cp_mean(3, k)(rows, index) - x.mean(1)).abs().max()
    return float(total), float(mean)


def tables() -> tuple[list[list[str]], list[list[str]]]:
    polynomials = []
    for features, k in SIZES:
        largest, error = polynomial_error(features, k)
        rank = str(math.comb(features + k, k))
        polynomials.append([str(features), str(k), rank, f"{largest:.0e}", f"{error:.0e}", f"{error / largest:.0e}"])
    sums = [[str(k), *(f"{error:.0e}" for error in sum_errors(k))] for k in COUNTS]
    return polynomials, sums
