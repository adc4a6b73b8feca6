"""Aggregations: what makes one row of many."""

from tgnn.nn.aggr.cp import CPAggregation
from tgnn.nn.aggr.high_order import HighOrderAggregation

__all__ = ["CPAggregation", "HighOrderAggregation"]
