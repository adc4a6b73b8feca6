"""High-order pooling for graph neural networks: a node multiplies its neighbours, through a CP decomposition."""

from tgnn import nn, ops
from tgnn.nn import TGNN, CPAggregation, GraphTGNN, TGNNConv, with_cp

__version__ = "0.1.0"

__all__ = ["TGNN", "CPAggregation", "GraphTGNN", "TGNNConv", "nn", "ops", "with_cp"]
