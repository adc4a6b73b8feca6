"""Layers and models: PyG's contract, the paper's equations."""

from .aggr import CPAggregation, HighOrderAggregation
from .conv import TGNNConv
from .models import TGNN, GraphTGNN
from .surgery import with_cp

__all__ = ["TGNN", "CPAggregation", "GraphTGNN", "HighOrderAggregation", "TGNNConv", "with_cp"]
