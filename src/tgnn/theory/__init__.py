"""Theorems 1-3 of the paper as functions that build CP layers or counterexamples."""

from tgnn.theory.dense import dense_tensor
from tgnn.theory.not_a_sum import EqualSums, equal_sums_differ, hessian_blocks, hessian_gap, mixed_derivative
from tgnn.theory.polynomial import cp_from_polynomial
from tgnn.theory.sums import cp_mean, cp_sum

__all__ = [
    "EqualSums",
    "cp_from_polynomial",
    "cp_mean",
    "cp_sum",
    "dense_tensor",
    "equal_sums_differ",
    "hessian_blocks",
    "hessian_gap",
    "mixed_derivative",
]
