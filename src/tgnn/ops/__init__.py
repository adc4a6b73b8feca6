"""The neighbourhood product: what a node computes when it multiplies its neighbours instead of summing them."""

from .dispatch import available_backends, use_backend
from .product import neighbor_product, segment_product

__all__ = ["available_backends", "neighbor_product", "segment_product", "use_backend"]
