"""Aggregations: what makes one row of many."""

from .cp import CPAggregation

__all__ = ["CPAggregation"]
