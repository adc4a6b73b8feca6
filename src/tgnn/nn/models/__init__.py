"""Models: tGNN for node tasks and for graph tasks, and message passing on factor graphs."""

from tgnn.nn.models.belief_propagation import BeliefPropagation
from tgnn.nn.models.factor_graph_net import FactorGraphNet
from tgnn.nn.models.graph_tgnn import GraphTGNN
from tgnn.nn.models.tgnn import TGNN

__all__ = ["TGNN", "BeliefPropagation", "FactorGraphNet", "GraphTGNN"]
