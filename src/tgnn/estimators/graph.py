"""Estimators for whole graphs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tgnn.data.graph_dataset import GraphDataset
from tgnn.estimators.base import Estimator
from tgnn.estimators.classifier_regressor import Classifier, Regressor
from tgnn.estimators.graph_list import to_graph_dataset
from tgnn.estimators.targets import is_missing, to_column
from tgnn.estimators.training_set import TrainingSet, check_mask


class GraphEstimator(Estimator):
    """Base class of graph-level estimators. ``X`` is a sequence of graphs or a ``GraphDataset``."""

    _level: ClassVar[str] = "graph"

    def _data(self, X: Any) -> tuple[GraphDataset, np.ndarray]:
        graphs, _ = to_graph_dataset(X, self._attribute_names())
        return graphs, np.arange(len(graphs))

    def _training_set(self, X: Any, y: Any, validation: Any) -> TrainingSet:
        graphs, graph_targets = to_graph_dataset(X, self._attribute_names())
        column = _targets(y, graph_targets, graphs)
        validation_mask = None if validation is None else check_mask(validation, len(graphs), "validation")
        if validation_mask is not None and not validation_mask.any():
            raise ValueError("the validation mask selects no graph: it must select at least one")
        return TrainingSet(graphs, np.arange(len(graphs)), column, validation_mask)

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


class GraphClassifier(Classifier, GraphEstimator):
    """Classifier for whole graphs.

    ``X`` is a sequence of graphs: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or NetworkX graphs, or a
    ``GraphDataset``. Every graph needs a target.

    Args:
        model: Name of the model, see ``tgnn models``.
        hidden: Number of hidden channels. ``None`` uses the default recipe of the model, here and for the parameters
            below.
        layers: Number of layers.
        rank: CP rank of the product branch. 0 removes the branch.
        dropout: Dropout probability of hidden channels.
        lr: Learning rate of the optimizer. That of the product branch is ``options={"optimizer.cp_lr": ...}``.
        weight_decay: Weight decay of the optimizer.
        epochs: Maximum number of epochs.
        patience: Stop after this many epochs without improvement on the validation set.
        batch_size: Number of graphs in a mini-batch.
        validation_fraction: Fraction of the labeled graphs to hold out for validation. 0 holds out none and selects the
            epoch on the training set.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.
        verbose: 0 prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.
        options: Any other option of ``tgnn train --set``, as ``{"section.key": value}``.
        x_attribute: Node attribute (or list of attributes) of NetworkX graphs with the features.
        y_attribute: Graph attribute of NetworkX graphs with the target.
        weight_attribute: Edge attribute of NetworkX graphs with the edge weight. ``None`` ignores weights.

    Attributes:
        classes_: Class labels, sorted.
        n_features_in_: Number of node features seen in :meth:`fit`.
        model_: Trained ``torch.nn.Module``, with the weights of the best epoch.
        history_: Losses and metrics of each epoch, as a list of dictionaries.
        n_iter_: Number of epochs that were run.
        best_epoch_: Epoch with the best validation score, from 0.
        config_: Resolved training configuration.

    Example:
        >>> from tgnn.data.build.embedded import digits_graphs
        >>> graphs = list(digits_graphs())[:100]  # each with its y
        >>> model = GraphClassifier(hidden=16, layers=2, epochs=2, random_state=0).fit(graphs)
        >>> model.predict_proba(graphs[:5]).shape
        (5, 10)
    """


class GraphRegressor(Regressor, GraphEstimator):
    """Regressor for whole graphs.

    ``X`` is a sequence of graphs: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or NetworkX graphs, or a
    ``GraphDataset``. Every graph needs a target.

    Args:
        model: Name of the model, see ``tgnn models``.
        hidden: Number of hidden channels. ``None`` uses the default recipe of the model, here and for the parameters
            below.
        layers: Number of layers.
        rank: CP rank of the product branch. 0 removes the branch.
        dropout: Dropout probability of hidden channels.
        lr: Learning rate of the optimizer. That of the product branch is ``options={"optimizer.cp_lr": ...}``.
        weight_decay: Weight decay of the optimizer.
        epochs: Maximum number of epochs.
        patience: Stop after this many epochs without improvement on the validation set.
        batch_size: Number of graphs in a mini-batch.
        validation_fraction: Fraction of the labeled graphs to hold out for validation. 0 holds out none and selects the
            epoch on the training set.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.
        verbose: 0 prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.
        options: Any other option of ``tgnn train --set``, as ``{"section.key": value}``.
        x_attribute: Node attribute (or list of attributes) of NetworkX graphs with the features.
        y_attribute: Graph attribute of NetworkX graphs with the target.
        weight_attribute: Edge attribute of NetworkX graphs with the edge weight. ``None`` ignores weights.

    Attributes:
        n_features_in_: Number of node features seen in :meth:`fit`.
        model_: Trained ``torch.nn.Module``, with the weights of the best epoch.
        history_: Losses and metrics of each epoch, as a list of dictionaries.
        n_iter_: Number of epochs that were run.
        best_epoch_: Epoch with the best validation score, from 0.
        config_: Resolved training configuration.

    Example:
        >>> import networkx
        >>> graphs = [networkx.star_graph(n) for n in range(1, 20)]
        >>> for graph in graphs:
        ...     networkx.set_node_attributes(graph, 1.0, "x")
        >>> model = GraphRegressor(epochs=2, random_state=0).fit(graphs, [len(graph) for graph in graphs])
        >>> model.predict(graphs[:3]).shape
        (3,)
    """
