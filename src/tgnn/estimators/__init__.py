"""Models with scikit-learn's manners: ``fit``, ``predict``, ``score``, cross-validation, grid search, pipelines."""

from .graph import GraphClassifier, GraphRegressor
from .node import NodeClassifier, NodeRegressor

__all__ = ["GraphClassifier", "GraphRegressor", "NodeClassifier", "NodeRegressor"]
