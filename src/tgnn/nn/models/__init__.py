"""Whole networks."""

from .graph_tgnn import GraphTGNN
from .tgnn import TGNN

__all__ = ["TGNN", "GraphTGNN"]
