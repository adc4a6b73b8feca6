"""Estimators for the nodes of a graph."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from tgnn.estimators.base import Classifier, Estimator, Regressor
from tgnn.estimators.inputs import is_graph, to_data
from tgnn.estimators.preprocessing import Preprocessor

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


@dataclass(kw_only=True, eq=False, repr=False)
class NodeEstimator(Estimator):
    """Base class of node-level estimators.

    ``X`` is a whole graph, or an array of node indices of the parameter ``graph``.
    """

    _level: ClassVar[str] = "node"

    graph: Any = field(default=None, kw_only=False)

    def _examples(self, X: Any, preprocessor: Preprocessor) -> tuple[Data, np.ndarray, Any]:
        is_whole_graph = is_graph(X)
        if not is_whole_graph and self.graph is None:
            raise ValueError(
                f"X must be a torch_geometric Data, (X, edge_index), (X, adjacency) or a NetworkX graph, got "
                f"{type(X).__name__}: for node indices, pass their graph as {type(self).__name__}(graph=...)"
            )
        data, graph_targets = to_data(X if is_whole_graph else self.graph, self._attribute_names(), preprocessor)
        if data.num_nodes == 0:
            raise ValueError("Found a graph with 0 node(s) while a minimum of 1 is required.")
        nodes = np.arange(data.num_nodes) if is_whole_graph else check_nodes(X, int(data.num_nodes))
        return data, nodes, graph_targets

    def __sklearn_clone__(self) -> Self:
        """Clone the estimator, but share the graph, which scikit-learn would copy for each fold."""
        without_graph = copy.copy(self)
        without_graph.graph = None
        clone: Self = super(NodeEstimator, without_graph).__sklearn_clone__()
        clone.graph = self.graph
        return clone


def check_nodes(nodes: Any, num_nodes: int) -> np.ndarray:
    """Return node indices of shape ``[n]`` or ``[n, 1]`` as int64 ``[n]``, or raise a ``ValueError``."""
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


@dataclass(kw_only=True, eq=False, repr=False)
class NodeClassifier(Classifier, NodeEstimator):
    """Classifier for the nodes of a graph.

    ``fit(graph)`` trains on the labeled nodes of a graph. A label of -1, NaN or ``None`` means unlabeled. ``predict``
    predicts all nodes of the same or another graph. With ``NodeClassifier(graph=...)`` the examples are node indices,
    which scikit-learn can divide into folds: ``cross_val_score(NodeClassifier(graph=data), nodes, y)``.

    If the ``Data`` passed to ``fit`` has a ``train_mask``, only its nodes are trained on. A ``val_mask`` is the
    validation set that selects the epoch, and ``score(data)`` evaluates on the ``test_mask``.

    Args:
        graph: Graph that node indices refer to: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or a NetworkX graph.
            Clones share it, and it is never changed. ``None`` if whole graphs are passed to :meth:`fit`.
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
        batch_size: Number of nodes in a mini-batch, which needs ``options={"train.num_neighbors": ...}``. By default,
            the model is trained on the whole graph.
        metric: Metric that selects the best epoch, such as ``"macro-f1"`` or ``"rmse"`` (see ``tgnn train --metric``).
        n_estimators: Number of networks with different seeds, which predict as one. :meth:`predict_std` returns the
            standard deviation over them.
        validation_fraction: Fraction of the labeled nodes to hold out for validation. 0 holds out none and selects the
            epoch on the training set.
        class_weight: ``"balanced"`` weighs classes inversely to their frequencies in the training loss. A dictionary
            gives the weight of each class. ``None``: equal weights.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.
        verbose: 0 (default) prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.
        options: Any other option of ``tgnn train --set``, as ``{"section.key": value}``.
        x_attribute: Node attribute (or list of attributes) of NetworkX graphs with the features.
        y_attribute: Attribute of each node of NetworkX graphs with the target.
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
        >>> from tgnn.data.catalog.embedded import karate
        >>> club = karate()
        >>> model = NodeClassifier(validation_fraction=0, epochs=5, random_state=0).fit(club)  # four labels in a mask
        >>> model.predict_proba(club).shape
        (34, 4)
        >>> model = NodeClassifier(graph=club, epochs=5, random_state=0).fit(range(30), club.y[:30])
        >>> model.predict([30, 31, 32, 33]).shape
        (4,)
    """


class NodeRegressor(Regressor, NodeEstimator):
    """Regressor for the nodes of a graph.

    It is used as :class:`NodeClassifier`. A target of NaN or ``None`` means unlabeled.

    Args:
        graph: Graph that node indices refer to: ``Data``, ``(X, edge_index)``, ``(X, adjacency)`` or a NetworkX graph.
            Clones share it, and it is never changed. ``None`` if whole graphs are passed to :meth:`fit`.
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
        batch_size: Number of nodes in a mini-batch, which needs ``options={"train.num_neighbors": ...}``. By default,
            the model is trained on the whole graph.
        metric: Metric that selects the best epoch, such as ``"macro-f1"`` or ``"rmse"`` (see ``tgnn train --metric``).
        n_estimators: Number of networks with different seeds, which predict as one. :meth:`predict_std` returns the
            standard deviation over them.
        validation_fraction: Fraction of the labeled nodes to hold out for validation. 0 holds out none and selects the
            epoch on the training set.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.
        verbose: 0 (default) prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.
        options: Any other option of ``tgnn train --set``, as ``{"section.key": value}``.
        x_attribute: Node attribute (or list of attributes) of NetworkX graphs with the features.
        y_attribute: Attribute of each node of NetworkX graphs with the target.
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
        >>> x, edges = np.eye(6), np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> model = NodeRegressor(epochs=5, random_state=0).fit((x, edges), [0.0, 1.0, 2.0, 3.0, None, None])
        >>> model.predict((x, edges)).shape
        (6,)
    """
