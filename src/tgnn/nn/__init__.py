"""Layers and models: PyG's contract, the paper's equations."""

from .aggr import CPAggregation
from .conv import TGNNConv
from .models import TGNN, GraphTGNN

__all__ = ["TGNN", "CPAggregation", "GraphTGNN", "TGNNConv"]
