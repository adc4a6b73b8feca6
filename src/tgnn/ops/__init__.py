"""The neighbourhood product: what a node computes when it multiplies its neighbours instead of summing them."""

from .dispatch import available_backends, use_backend
from .product import neighbor_product, segment_product
from .sum import closed_edges, degrees, neighbor_sum, sparse_matmul

__all__ = [
    "available_backends",
    "closed_edges",
    "degrees",
    "neighbor_product",
    "neighbor_sum",
    "segment_product",
    "sparse_matmul",
    "use_backend",
]
