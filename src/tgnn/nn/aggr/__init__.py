"""Aggregations: the CP layer, and the CP layer added to another aggregation."""

from tgnn.nn.aggr.cp import CPAggregation
from tgnn.nn.aggr.high_order import HighOrderAggregation

__all__ = ["CPAggregation", "HighOrderAggregation"]
