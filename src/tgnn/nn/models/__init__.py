"""Models: tGNN for node tasks and for graph tasks."""

from tgnn.nn.models.graph_tgnn import GraphTGNN
from tgnn.nn.models.tgnn import TGNN

__all__ = ["TGNN", "GraphTGNN"]
