"""Estimators of graphs: examples are whole graphs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tgnn.data.graph_dataset import GraphDataset
from tgnn.estimators.base import Estimator
from tgnn.estimators.examples import Examples, as_mask
from tgnn.estimators.graph_inputs import as_graphs
from tgnn.estimators.targets import as_column, is_missing
from tgnn.estimators.task_types import Classifier, Regressor


class GraphEstimator(Estimator):
    """Examples are graphs: a sequence of ``Data``, ``(X, edge_index)`` or NetworkX graphs, or ``GraphDataset``."""

    _level: ClassVar[str] = "graph"

    def _data(self, X: Any) -> tuple[GraphDataset, np.ndarray]:
        graphs, _ = as_graphs(X, self._names())
        return graphs, np.arange(len(graphs))

    def _examples(self, X: Any, y: Any, validation: Any) -> Examples:
        graphs, own = as_graphs(X, self._names())
        column = _targets(y, own, graphs)
        held = None if validation is None else as_mask(validation, len(graphs), "validation")
        if held is not None and not held.any():
            raise ValueError("validation has no graph: there is nothing to choose the epoch by")
        return Examples(graphs, np.arange(len(graphs)), column, held)

    def _truth(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        column = _targets(y, as_graphs(X, self._names())[1] if y is None else None, X)
        return np.ones(len(column), dtype=bool), column


def _targets(y: Any, own: Any, graphs: Any) -> np.ndarray:
    """Those given, or those of the graphs; each must have one."""
    if y is None and own is None:
        raise ValueError("y is not given, and the graphs have none: estimators learn from targets")
    column = as_column(own if y is None else y, graphs)
    missing = is_missing(column, minus_one=False)
    if missing.any():
        raise ValueError(
            f"Input y contains NaN or None: graph {missing.argmax()} has no target, and each must have one"
        )
    return column


class GraphClassifier(Classifier, GraphEstimator):
    """Tells the class of each graph.

    Args:
        parameters: As of :class:`~tgnn.estimators.base.Estimator`.

    Example:
        >>> from tgnn.data.build.embedded import digits_graphs
        >>> graphs = list(digits_graphs())[:100]  # each with its y
        >>> model = GraphClassifier(hidden=16, layers=2, epochs=2, random_state=0).fit(graphs)
        >>> model.predict_proba(graphs[:5]).shape
        (5, 10)
    """


class GraphRegressor(Regressor, GraphEstimator):
    """Tells a number of each graph.

    Args:
        parameters: As of :class:`~tgnn.estimators.base.Estimator`.

    Example:
        >>> import networkx
        >>> graphs = [networkx.star_graph(n) for n in range(1, 20)]
        >>> for graph in graphs:
        ...     networkx.set_node_attributes(graph, 1.0, "x")
        >>> model = GraphRegressor(epochs=2, random_state=0).fit(graphs, [len(graph) for graph in graphs])
        >>> model.predict(graphs[:3]).shape
        (3,)
    """
