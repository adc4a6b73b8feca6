"""Training set of an estimator: labeled nodes or graphs, divided into training and validation examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.dataset_info import DEFAULT_METRICS, DatasetInfo
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.splits import Split
from tgnn.estimators.holdout import draw_holdout
from tgnn.training.config import DataConfig
from tgnn.training.metrics import make_task
from tgnn.training.prepare import HeldOutLabels, Prepared, infer_shape, transform_features


@dataclass(frozen=True)
class TrainingSet:
    """Labeled nodes of one graph, or labeled graphs.

    Args:
        data: The graph or graphs. They are a copy that may be changed.
        indices: Indices of the labeled nodes or graphs.
        y: Targets of the labeled nodes or graphs, as given by the user.
        validation_mask: Which of the labeled examples are for validation. ``None`` draws them at random.
    """

    data: Data | GraphDataset
    indices: np.ndarray
    y: np.ndarray
    validation_mask: np.ndarray | None


def check_mask(mask: Any, size: int, name: str) -> np.ndarray:
    """Return a mask as a boolean array, or raise a ``ValueError`` if its type or size is wrong.

    Args:
        mask: Array, tensor or list of booleans.
        size: Required number of entries.
        name: Name of the mask in the error message.

    Example:
        >>> check_mask([True, False], 2, "validation")
        array([ True, False])
    """
    array = mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (size,):
        raise ValueError(f"{name} must be a boolean array of shape [{size}], got {array.dtype} {list(array.shape)}")
    return array


def prepare_training(
    training_set: TrainingSet,
    targets: Tensor,
    classes: np.ndarray | None,
    validation_fraction: float,
    seed: int,
    config: DataConfig,
) -> Prepared:
    """Return the data, split and task for the training loop. Targets of unlabeled examples are masked.

    Args:
        training_set: The labeled examples.
        targets: Their targets: class indices, or numbers for a regression.
        classes: The classes. ``None`` for a regression.
        validation_fraction: Fraction of the labeled examples to hold out if ``training_set`` has no validation mask.
        seed: Random seed of the hold-out.
        config: Options of the features.
    """
    target_type, num_outputs = ("number", 1) if classes is None else ("classes", len(classes))
    validation_mask = training_set.validation_mask
    if validation_mask is None:
        strata = targets.numpy() if classes is not None else np.zeros(len(targets))
        validation_mask = draw_holdout(strata, validation_fraction, seed)
    if validation_mask.all():
        raise ValueError("all labeled examples are in the validation set: leave some for training")
    if isinstance(training_set.data, GraphDataset) and (~validation_mask).sum() < 2:
        raise ValueError("only one graph is left for training, but batch normalization needs two: give more graphs")
    is_train, indices = torch.from_numpy(~validation_mask), torch.from_numpy(training_set.indices)
    data = prepare_features(training_set.data, target_type, num_outputs, config)
    data.y = torch.full((num_examples(data),), float("nan") if classes is None else -1, dtype=targets.dtype)
    data.y[indices] = targets
    empty = torch.empty(0, dtype=torch.int64)
    split = Split("hold-out", seed, num_examples(data), indices[is_train], indices[~is_train], empty)
    task = make_task(target_type, DEFAULT_METRICS[target_type], targets[is_train])
    return Prepared(data, split, task, infer_shape(data, split.train), HeldOutLabels(empty), data_hash="")


def prepare_features(
    data: Data | GraphDataset, target_type: str, num_outputs: int, config: DataConfig
) -> Data | GraphDataset:
    """Transform the features as configured, and attach the ``DatasetInfo`` that the training code reads.

    Args:
        data: The graph or graphs.
        target_type: ``"classes"`` or ``"number"``.
        num_outputs: Number of outputs of the model.
        config: Options of the features.
    """
    level = "graph" if isinstance(data, GraphDataset) else "node"
    data.info = DatasetInfo("", level, target_type, DEFAULT_METRICS[target_type], num_outputs, "memory")
    return transform_features(data, config)


def num_examples(data: Data | GraphDataset) -> int:
    """Return the number of nodes of one graph, or the number of graphs."""
    return len(data) if isinstance(data, GraphDataset) else int(data.num_nodes)
