"""scikit-learn estimators for graphs: ``fit``, ``predict``, ``score``, cross-validation, grid search and pipelines."""

from tgnn.estimators.graph import GraphClassifier, GraphRegressor
from tgnn.estimators.node import NodeClassifier, NodeRegressor

__all__ = ["GraphClassifier", "GraphRegressor", "NodeClassifier", "NodeRegressor"]
