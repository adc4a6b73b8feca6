"""Aggregations: what makes one row of many."""

from .cp import CPAggregation
from .high_order import HighOrderAggregation

__all__ = ["CPAggregation", "HighOrderAggregation"]
