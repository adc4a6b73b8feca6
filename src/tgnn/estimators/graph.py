"""Estimators for whole graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tgnn.data.graph_dataset import GraphDataset
from tgnn.estimators.base import Classifier, Estimator, Regressor
from tgnn.estimators.inputs import to_graph_dataset
from tgnn.estimators.preprocessing import Preprocessor


class GraphEstimator(Estimator):
    """Base class of graph-level estimators. ``X`` is a sequence of graphs or a ``GraphDataset``."""

    _level: ClassVar[str] = "graph"

    def _examples(self, X: Any, preprocessor: Preprocessor) -> tuple[GraphDataset, np.ndarray, Any]:
        graphs, graph_targets = to_graph_dataset(X, self._attribute_names(), preprocessor)
        return graphs, np.arange(len(graphs)), graph_targets


@dataclass(kw_only=True, eq=False, repr=False)
class GraphClassifier(Classifier, GraphEstimator):
    """Classifier for whole graphs.

    ``X`` is a sequence of graphs: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or NetworkX graphs, or a
    ``GraphDataset``. Every graph needs a target.

    Args:
        model: Name of the model, see ``tgnn models``.
        hidden: Number of hidden channels. ``None``: the value of the model's default recipe. The same holds for
            ``layers``, ``rank``, ``dropout``, ``lr``, ``weight_decay``, ``epochs``, ``patience`` and ``batch_size``.
        layers: Number of layers.
        rank: CP rank of the product branch. 0 removes the branch.
        dropout: Dropout probability of hidden channels.
        lr: Learning rate of the optimizer. That of the product branch is ``options={"optimizer.cp_lr": ...}``.
        weight_decay: Weight decay of the optimizer.
        epochs: Maximum number of epochs.
        patience: Stop after this many epochs without improvement on the validation set.
        batch_size: Number of graphs in a mini-batch.
        metric: Metric that selects the best epoch, such as ``"macro-f1"`` or ``"rmse"`` (see ``tgnn train --metric``).
        n_estimators: Number of networks with different seeds, which predict as one. :meth:`predict_std` returns the
            standard deviation over them.
        validation_fraction: Fraction of the graphs to hold out for validation. 0 holds out none and selects the
            epoch on the training set.
        class_weight: ``"balanced"`` weighs classes inversely to their frequencies in the training loss. A dictionary
            gives the weight of each class. ``None``: equal weights.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.
        verbose: 0 (default) prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.
        options: Any other option of ``tgnn train --set``, as ``{"section.key": value}``.
        x_attribute: Node attribute (or list of attributes) of NetworkX graphs with the features.
        y_attribute: Attribute of a NetworkX graph with its target.
        weight_attribute: Edge attribute of NetworkX graphs with the edge weight. ``None`` ignores weights.
        standardize: Whether to standardize numeric features of nodes and edges.
        undirected: Whether to add the reverse of every edge that does not have one.

    Attributes:
        classes_: Class labels, sorted.
        n_features_in_: Number of node features seen in :meth:`fit`.
        model_: Trained ``torch.nn.Module``, with the weights of the best epoch. An ensemble has ``members``.
        history_: Losses and metrics of each epoch, as a list of dictionaries, network after network.
        n_iter_: Number of epochs that were run, of the first network.
        best_epoch_: Epoch with the best validation score, from 0, of the first network.
        config_: Resolved training configuration.
        encoding_: Scales, categories and fill values of the features.
        shape_: Number and type of the features and outputs.
        task_: Task type, metric and prior correction.

    Example:
        >>> from tgnn.data.catalog.embedded import digits_graphs
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
        hidden: Number of hidden channels. ``None``: the value of the model's default recipe. The same holds for
            ``layers``, ``rank``, ``dropout``, ``lr``, ``weight_decay``, ``epochs``, ``patience`` and ``batch_size``.
        layers: Number of layers.
        rank: CP rank of the product branch. 0 removes the branch.
        dropout: Dropout probability of hidden channels.
        lr: Learning rate of the optimizer. That of the product branch is ``options={"optimizer.cp_lr": ...}``.
        weight_decay: Weight decay of the optimizer.
        epochs: Maximum number of epochs.
        patience: Stop after this many epochs without improvement on the validation set.
        batch_size: Number of graphs in a mini-batch.
        metric: Metric that selects the best epoch, such as ``"macro-f1"`` or ``"rmse"`` (see ``tgnn train --metric``).
        n_estimators: Number of networks with different seeds, which predict as one. :meth:`predict_std` returns the
            standard deviation over them.
        validation_fraction: Fraction of the graphs to hold out for validation. 0 holds out none and selects the
            epoch on the training set.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.
        verbose: 0 (default) prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.
        options: Any other option of ``tgnn train --set``, as ``{"section.key": value}``.
        x_attribute: Node attribute (or list of attributes) of NetworkX graphs with the features.
        y_attribute: Attribute of a NetworkX graph with its target.
        weight_attribute: Edge attribute of NetworkX graphs with the edge weight. ``None`` ignores weights.
        standardize: Whether to standardize numeric features of nodes and edges.
        undirected: Whether to add the reverse of every edge that does not have one.

    Attributes:
        n_features_in_: Number of node features seen in :meth:`fit`.
        model_: Trained ``torch.nn.Module``, with the weights of the best epoch. An ensemble has ``members``.
        history_: Losses and metrics of each epoch, as a list of dictionaries, network after network.
        n_iter_: Number of epochs that were run, of the first network.
        best_epoch_: Epoch with the best validation score, from 0, of the first network.
        config_: Resolved training configuration.
        encoding_: Scales, categories and fill values of the features.
        shape_: Number and type of the features and outputs.
        task_: Task type, metric and prior correction.

    Example:
        >>> import networkx
        >>> graphs = [networkx.star_graph(n) for n in range(1, 20)]
        >>> for graph in graphs:
        ...     networkx.set_node_attributes(graph, 1.0, "x")
        >>> model = GraphRegressor(epochs=2, random_state=0).fit(graphs, [len(graph) for graph in graphs])
        >>> model.predict(graphs[:3]).shape
        (3,)
    """
