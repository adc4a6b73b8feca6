"""Estimators for the nodes of a graph."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from torch import Tensor
from torch_geometric.data import Data

from tgnn.estimators.base import Classifier, Estimator, Regressor
from tgnn.estimators.inputs import drop_unit_weights, is_graph, to_data
from tgnn.estimators.parameters import document_parameters
from tgnn.estimators.targets import check_mask, is_missing, to_column

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


@dataclass(kw_only=True, eq=False, repr=False)
class NodeEstimator(Estimator):
    """Base class of node-level estimators.

    ``X`` is a whole graph, or an array of node indices of the parameter ``graph``.
    """

    _level: ClassVar[str] = "node"

    graph: Any = field(default=None, kw_only=False)

    def _data(self, X: Any) -> tuple[Data, np.ndarray]:
        data, nodes, _ = self._graph_and_nodes(X)
        return data if self.shape_.edge_weights else drop_unit_weights(data), nodes

    def _labeled(self, X: Any, y: Any, validation: Any) -> tuple[Data, np.ndarray, np.ndarray, np.ndarray | None]:
        data, nodes, graph_targets = self._graph_and_nodes(X)
        if len(np.unique(nodes)) < len(nodes):
            raise ValueError("X contains a node twice: each node index must be unique")
        y = _targets(y, graph_targets, nodes)
        used = ~self._is_missing(y)
        validation_mask = None if validation is None else check_mask(validation, len(nodes), "validation")
        if isinstance(X, Data):  # with node indices, X itself selects the nodes and masks are ignored
            validation_mask = _mask(X, "val_mask") if validation_mask is None else validation_mask
            if (train_mask := _mask(X, "train_mask")) is not None:
                used &= train_mask if validation_mask is None else train_mask | validation_mask
            elif (test_mask := _mask(X, "test_mask")) is not None:
                used &= ~test_mask
        if validation_mask is not None:
            validation_mask = validation_mask[used]
            if not validation_mask.any():
                raise ValueError("the validation mask selects no labeled node: it must select at least one")
        return drop_unit_weights(data), nodes[used], y[used], validation_mask

    def _known_targets(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        _, nodes, graph_targets = self._graph_and_nodes(X)
        column = _targets(y, graph_targets, nodes)
        known = ~self._is_missing(column)
        if y is None and isinstance(X, Data) and (test_mask := _mask(X, "test_mask")) is not None:
            known &= test_mask
        return known, column[known]

    def _graph_and_nodes(self, X: Any) -> tuple[Data, np.ndarray, Any]:
        """Return the graph, the indices of the selected nodes, and the targets stored in the graph."""
        is_whole_graph = is_graph(X)
        if not is_whole_graph and self.graph is None:
            raise ValueError(
                f"X must be a torch_geometric Data, (X, edge_index), (X, adjacency) or a NetworkX graph, got "
                f"{type(X).__name__}: for node indices, pass their graph as {type(self).__name__}(graph=...)"
            )
        data, graph_targets = to_data(X if is_whole_graph else self.graph, self._attribute_names())
        if data.num_nodes == 0:
            raise ValueError("Found a graph with 0 node(s) while a minimum of 1 is required.")
        nodes = np.arange(data.num_nodes) if is_whole_graph else check_nodes(X, int(data.num_nodes))
        return data, nodes, graph_targets

    def _is_missing(self, y: np.ndarray) -> np.ndarray:
        return is_missing(y, minus_one=is_classifier(self))

    def __sklearn_clone__(self) -> Self:
        """Clone the estimator, but share the graph, which scikit-learn would copy for each fold."""
        without_graph = copy.copy(self)
        without_graph.graph = None
        clone: Self = super(NodeEstimator, without_graph).__sklearn_clone__()
        clone.graph = self.graph
        return clone


def check_nodes(nodes: Any, num_nodes: int) -> np.ndarray:
    """Return node indices of shape ``[n]`` or ``[n, 1]`` as int64 ``[n]``, or raise a ``ValueError``.

    Example:
        >>> check_nodes([[3], [0]], num_nodes=4)
        array([3, 0])
    """
    indices = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
    if indices.ndim == 2 and indices.shape[1] == 1:
        indices = indices[:, 0]
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(
            f"X must be node indices, integers of shape [n] or [n, 1], got {indices.dtype} {list(indices.shape)}"
        )
    if indices.size == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if indices.min() < 0 or indices.max() >= num_nodes:
        node = indices.min() if indices.min() < 0 else indices.max()
        raise ValueError(f"X contains node {node}, but the graph has {num_nodes} nodes (0 to {num_nodes - 1})")
    return indices.astype(np.int64)


def _targets(y: Any, graph_targets: Any, nodes: np.ndarray) -> np.ndarray:
    """Return the targets of the nodes: ``y``, or those stored in the graph."""
    if y is not None:
        return to_column(y, nodes)
    if graph_targets is None:
        raise ValueError("the graph has no targets: pass y")
    column = to_column(graph_targets, graph_targets)
    if len(column) <= nodes.max():
        raise ValueError(f"the graph has only {len(column)} targets, so node {nodes.max()} has none")
    selected: np.ndarray = column[nodes]
    return selected


def _mask(data: Data, name: str) -> np.ndarray | None:
    mask = data.get(name)
    if mask is None:
        return None
    if mask.dim() == 2:
        raise ValueError(f"{name} has {mask.size(1)} columns, one for each split: select one column")
    return check_mask(mask, int(data.num_nodes), name)


@document_parameters
class NodeClassifier(Classifier, NodeEstimator):
    """Classifier for the nodes of a graph.

    ``fit(graph)`` trains on the labeled nodes of a graph. A label of -1, NaN or ``None`` means unlabeled. ``predict``
    predicts all nodes of the same or another graph. With ``NodeClassifier(graph=...)`` the examples are node indices,
    which scikit-learn can divide into folds: ``cross_val_score(NodeClassifier(graph=data), nodes, y)``.

    If the ``Data`` passed to ``fit`` has a ``train_mask``, only its nodes are trained on. A ``val_mask`` is the
    validation set that selects the epoch, and ``score(data)`` evaluates on the ``test_mask``.

    {parameters}

    Example:
        >>> from tgnn.data.catalog.embedded import karate
        >>> club = karate()
        >>> model = NodeClassifier(validation_fraction=0, epochs=5, random_state=0).fit(club)  # four labels in a mask
        >>> model.predict_proba(club).shape
        (34, 4)
        >>> model = NodeClassifier(graph=club, epochs=5, random_state=0).fit(range(30), club.y[:30])
        >>> model.predict([30, 31, 32, 33]).shape
        (4,)
    """


@document_parameters
class NodeRegressor(Regressor, NodeEstimator):
    """Regressor for the nodes of a graph.

    It is used as :class:`NodeClassifier`. A target of NaN or ``None`` means unlabeled.

    {parameters}

    Example:
        >>> x, edges = np.eye(6), np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> model = NodeRegressor(epochs=5, random_state=0).fit((x, edges), [0.0, 1.0, 2.0, 3.0, None, None])
        >>> model.predict((x, edges)).shape
        (6,)
    """
