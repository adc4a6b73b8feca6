"""Estimators of nodes: examples are the nodes of one graph."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import is_classifier
from torch import Tensor
from torch_geometric.data import Data

from tgnn.estimators.base import Estimator
from tgnn.estimators.examples import Examples, as_mask
from tgnn.estimators.inputs import as_graph, is_graph, unweighted_if_whole
from tgnn.estimators.targets import as_column, is_missing
from tgnn.estimators.task_types import Classifier, Regressor

Self = TypeVar("Self", bound="NodeEstimator")


class NodeEstimator(Estimator):
    """Examples are nodes: numbers of nodes of the parameter ``graph``, or all nodes of a graph given as ``X``.

    Args:
        graph: Where numbers of nodes count; ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or NetworkX. It is shared
            by clones, not copied, and never changed.
        parameters: As of :class:`~tgnn.estimators.base.Estimator`.
    """

    _level: ClassVar[str] = "node"

    def __init__(
        self,
        graph: Any = None,
        *,
        model: str = "tgnn",
        hidden: int | None = None,
        layers: int | None = None,
        rank: int | None = None,
        dropout: float | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        epochs: int | None = None,
        patience: int | None = None,
        batch_size: int | None = None,
        validation_fraction: float = 0.1,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        options: Any = None,
        x_attribute: Any = "x",
        y_attribute: str = "y",
        weight_attribute: str | None = None,
    ) -> None:
        super().__init__(
            model=model,
            hidden=hidden,
            layers=layers,
            rank=rank,
            dropout=dropout,
            lr=lr,
            weight_decay=weight_decay,
            epochs=epochs,
            patience=patience,
            batch_size=batch_size,
            validation_fraction=validation_fraction,
            device=device,
            random_state=random_state,
            verbose=verbose,
            options=options,
            x_attribute=x_attribute,
            y_attribute=y_attribute,
            weight_attribute=weight_attribute,
        )
        self.graph = graph

    def _data(self, X: Any) -> tuple[Data, np.ndarray]:
        data, places, _ = self._look(X)
        return data if self.shape_.edge_weights else unweighted_if_whole(data), places

    def _examples(self, X: Any, y: Any, validation: Any) -> Examples:
        data, places, own = self._look(X)
        if len(np.unique(places)) < len(places):
            raise ValueError("a node is there twice in X: each can be learned from once")
        y = _targets(y, own, places)
        used = ~self._is_missing(y)
        chosen = None if validation is None else as_mask(validation, len(places), "validation")
        if isinstance(X, Data):  # masks speak of whole graphs only: numbers of nodes say themselves what is meant
            chosen = _mask(X, "val_mask") if chosen is None else chosen
            if (train := _mask(X, "train_mask")) is not None:
                used &= train if chosen is None else train | chosen
            elif (test := _mask(X, "test_mask")) is not None:
                used &= ~test
        if chosen is not None and not (chosen & used).any():
            raise ValueError("validation has no labelled node: there is nothing to choose the epoch by")
        return Examples(unweighted_if_whole(data), places[used], y[used], None if chosen is None else chosen[used])

    def _truth(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        _, places, own = self._look(X)
        column = _targets(y, own, places)
        known = ~self._is_missing(column)
        if y is None and isinstance(X, Data) and (test := _mask(X, "test_mask")) is not None:
            known &= test
        return known, column[known]

    def _look(self, X: Any) -> tuple[Data, np.ndarray, Any]:
        """The graph, which of its nodes are meant, and all its targets."""
        given = is_graph(X)
        if not given and self.graph is None:
            name = type(self).__name__
            raise ValueError(
                f"X is neither a torch_geometric Data, (X, edge_index), (X, adjacency) nor a NetworkX graph, but "
                f"{type(X).__name__}; if it holds numbers of nodes, say of which graph: {name}(graph=...)"
            )
        data, own = as_graph(X if given else self.graph, self._names())
        if data.num_nodes == 0:
            raise ValueError("Found a graph with 0 node(s) while a minimum of 1 is required.")
        return data, np.arange(data.num_nodes) if given else as_nodes(X, int(data.num_nodes)), own

    def _is_missing(self, y: np.ndarray) -> np.ndarray:
        return is_missing(y, minus_one=is_classifier(self))

    def __sklearn_clone__(self: Self) -> Self:
        """A twin with the same graph: scikit-learn would copy it for each fold."""
        bare = copy.copy(self)
        bare.graph = None
        twin: Self = super(NodeEstimator, bare).__sklearn_clone__()
        twin.graph = self.graph
        return twin


def as_nodes(nodes: Any, num_nodes: int) -> np.ndarray:
    """Numbers of nodes, ``[n]`` or ``[n, 1]``, as int64 ``[n]``.

    Example:
        >>> as_nodes([[3], [0]], num_nodes=4)
        array([3, 0])
    """
    found = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError(
            f"X must be numbers of nodes, integers of shape [n] or [n, 1], got {found.dtype} {list(found.shape)}"
        )
    if found.size == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if found.min() < 0 or found.max() >= num_nodes:
        wrong = found.min() if found.min() < 0 else found.max()
        raise ValueError(f"X contains node {wrong}, but the {num_nodes} nodes of the graph are 0 to {num_nodes - 1}")
    return found.astype(np.int64)


def _targets(y: Any, own: Any, places: np.ndarray) -> np.ndarray:
    """Those given, or those of the graph."""
    if y is not None:
        return as_column(y, places)
    if own is None:
        raise ValueError("y is not given, and the graph has none: estimators learn from targets")
    column = as_column(own, own)
    if len(column) <= places.max():
        raise ValueError(f"the graph has {len(column)} targets, and node {places.max()} has none of them")
    chosen: np.ndarray = column[places]
    return chosen


def _mask(data: Data, name: str) -> np.ndarray | None:
    mask = data.get(name)
    if mask is None:
        return None
    if mask.dim() == 2:
        raise ValueError(f"{name} has {mask.size(1)} columns, one for each split: choose one of them")
    return as_mask(mask, int(data.num_nodes), name)


class NodeClassifier(Classifier, NodeEstimator):
    """Tells the class of each node of a graph.

    ``fit(graph)`` learns from the labelled nodes of a graph (``y`` of -1, NaN or ``None``: unlabelled) and ``predict``
    answers for all nodes of that or another graph. With ``NodeClassifier(graph=...)`` examples are numbers of nodes, so
    that scikit-learn can divide them: ``cross_val_score(NodeClassifier(graph=data), nodes, y)``.

    A ``Data`` that is given to ``fit`` is learned from within its ``train_mask``, and its ``val_mask`` chooses the
    epoch, where it has them; ``score(data)`` then reads its ``test_mask``.

    Args:
        graph: Where numbers of nodes count; ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or NetworkX. It is shared
            by clones, not copied, and never changed.
        parameters: As of :class:`~tgnn.estimators.base.Estimator`.

    Example:
        >>> from tgnn.data.build.embedded import karate
        >>> club = karate()
        >>> model = NodeClassifier(validation_fraction=0, epochs=5, random_state=0).fit(club)  # four labels in a mask
        >>> model.predict_proba(club).shape
        (34, 4)
        >>> model = NodeClassifier(graph=club, epochs=5, random_state=0).fit(range(30), club.y[:30])
        >>> model.predict([30, 31, 32, 33]).shape
        (4,)
    """


class NodeRegressor(Regressor, NodeEstimator):
    """Tells a number of each node of a graph, as :class:`NodeClassifier` tells classes (NaN or ``None``: unlabelled).

    Args:
        graph: Where numbers of nodes count, as of :class:`NodeClassifier`.
        parameters: As of :class:`~tgnn.estimators.base.Estimator`.

    Example:
        >>> x, edges = np.eye(6), np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> model = NodeRegressor(epochs=5, random_state=0).fit((x, edges), [0.0, 1.0, 2.0, 3.0, None, None])
        >>> model.predict((x, edges)).shape
        (6,)
    """
