"""Neighborhood products and sums: operators without parameters, with C++, Triton, torch and reference backends."""

from tgnn.ops.dispatch import available_backends, use_backend
from tgnn.ops.product import exclusive_product, neighbor_product, segment_product
from tgnn.ops.sum import degrees, edges_with_self_loops, exclusive_sum, gated_sum, neighbor_sum, sparse_matmul

__all__ = [
    "available_backends",
    "degrees",
    "edges_with_self_loops",
    "exclusive_product",
    "exclusive_sum",
    "gated_sum",
    "neighbor_product",
    "neighbor_sum",
    "segment_product",
    "sparse_matmul",
    "use_backend",
]
