"""Whole networks."""

from tgnn.nn.models.graph_tgnn import GraphTGNN
from tgnn.nn.models.tgnn import TGNN

__all__ = ["TGNN", "GraphTGNN"]
