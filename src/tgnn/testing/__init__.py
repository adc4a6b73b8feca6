"""Assertions for tests of layers: permutation invariance, gradients, and the equations of the paper."""

from tgnn.testing.assertions import assert_gradients, assert_permutation_equivariant, assert_permutation_invariant
from tgnn.testing.oracle import assert_matches_oracle, cp_oracle, tgnn_conv_oracle

__all__ = [
    "assert_gradients",
    "assert_matches_oracle",
    "assert_permutation_equivariant",
    "assert_permutation_invariant",
    "cp_oracle",
    "tgnn_conv_oracle",
]
