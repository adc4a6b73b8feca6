"""Estimators for whole graphs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tgnn.data.graph_dataset import GraphDataset
from tgnn.estimators.base import Classifier, Estimator, Regressor
from tgnn.estimators.inputs import to_graph_dataset
from tgnn.estimators.parameters import document_parameters
from tgnn.estimators.targets import check_mask, is_missing, to_column


class GraphEstimator(Estimator):
    """Base class of graph-level estimators. ``X`` is a sequence of graphs or a ``GraphDataset``."""

    _level: ClassVar[str] = "graph"

    def _data(self, X: Any) -> tuple[GraphDataset, np.ndarray]:
        graphs, _ = to_graph_dataset(X, self._attribute_names())
        return graphs, np.arange(len(graphs))

    def _labeled(
        self, X: Any, y: Any, validation: Any
    ) -> tuple[GraphDataset, np.ndarray, np.ndarray, np.ndarray | None]:
        graphs, graph_targets = to_graph_dataset(X, self._attribute_names())
        column = _targets(y, graph_targets, graphs)
        validation_mask = None if validation is None else check_mask(validation, len(graphs), "validation")
        if validation_mask is not None and not validation_mask.any():
            raise ValueError("the validation mask selects no graph: it must select at least one")
        return graphs, np.arange(len(graphs)), column, validation_mask

    def _known_targets(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        graph_targets = to_graph_dataset(X, self._attribute_names())[1] if y is None else None
        column = _targets(y, graph_targets, X)
        return np.ones(len(column), dtype=bool), column


def _targets(y: Any, graph_targets: Any, graphs: Any) -> np.ndarray:
    """Return the targets of the graphs: ``y``, or those stored in the graphs. Every graph needs one."""
    if y is None and graph_targets is None:
        raise ValueError("the graphs have no targets: pass y")
    column = to_column(graph_targets if y is None else y, graphs)
    missing = is_missing(column, minus_one=False)
    if missing.any():
        raise ValueError(
            f"Input y contains NaN or None: graph {missing.argmax()} has no target, but every graph needs one"
        )
    return column


@document_parameters
class GraphClassifier(Classifier, GraphEstimator):
    """Classifier for whole graphs.

    ``X`` is a sequence of graphs: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or NetworkX graphs, or a
    ``GraphDataset``. Every graph needs a target.

    {parameters}

    Example:
        >>> from tgnn.data.catalog.embedded import digits_graphs
        >>> graphs = list(digits_graphs())[:100]  # each with its y
        >>> model = GraphClassifier(hidden=16, layers=2, epochs=2, random_state=0).fit(graphs)
        >>> model.predict_proba(graphs[:5]).shape
        (5, 10)
    """


@document_parameters
class GraphRegressor(Regressor, GraphEstimator):
    """Regressor for whole graphs.

    ``X`` is a sequence of graphs: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or NetworkX graphs, or a
    ``GraphDataset``. Every graph needs a target.

    {parameters}

    Example:
        >>> import networkx
        >>> graphs = [networkx.star_graph(n) for n in range(1, 20)]
        >>> for graph in graphs:
        ...     networkx.set_node_attributes(graph, 1.0, "x")
        >>> model = GraphRegressor(epochs=2, random_state=0).fit(graphs, [len(graph) for graph in graphs])
        >>> model.predict(graphs[:3]).shape
        (3,)
    """
