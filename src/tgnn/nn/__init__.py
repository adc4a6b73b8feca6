"""Layers and models in the style of PyG: aggregations, convolutions, networks and ``with_cp``."""

from tgnn.nn.aggr import CPAggregation, HighOrderAggregation
from tgnn.nn.block import TGNNBlock
from tgnn.nn.conv import TGNNConv
from tgnn.nn.models import TGNN, BeliefPropagation, FactorGraphNet, GraphTGNN
from tgnn.nn.with_cp import with_cp

__all__ = [
    "TGNN",
    "BeliefPropagation",
    "CPAggregation",
    "FactorGraphNet",
    "GraphTGNN",
    "HighOrderAggregation",
    "TGNNBlock",
    "TGNNConv",
    "with_cp",
]
