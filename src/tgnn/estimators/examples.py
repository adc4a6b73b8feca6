"""What an estimator learns from: examples with a target, and which of them choose the epoch."""

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
from tgnn.training.metrics import for_target
from tgnn.training.prepare import HeldOutLabels, Prepared, infer_shape, transform_features


@dataclass(frozen=True)
class Examples:
    """Labelled nodes of one graph, or labelled graphs.

    Args:
        data: The graph or graphs, of our own: they may be changed.
        places: Numbers of the labelled ones.
        y: Their targets, as the user has them.
        held: Which of them choose the epoch, if that is given; ``None``: they are to be drawn.
    """

    data: Data | GraphDataset
    places: np.ndarray
    y: np.ndarray
    held: np.ndarray | None


def as_mask(mask: Any, size: int, what: str) -> np.ndarray:
    """One true or false for each of so many.

    Example:
        >>> as_mask([True, False], 2, "validation")
        array([ True, False])
    """
    found = mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    if found.dtype != np.bool_ or found.shape != (size,):
        raise ValueError(f"{what} must be a boolean array of shape [{size}], got {found.dtype} {list(found.shape)}")
    return found


def prepare_examples(
    examples: Examples, codes: Tensor, classes: np.ndarray | None, fraction: float, seed: int, settings: DataConfig
) -> Prepared:
    """What the training loop takes. Targets that are not among the examples are not in it.

    Args:
        examples: What to learn from.
        codes: Their targets, as numbers of classes or as numbers.
        classes: The classes; ``None``: targets are numbers.
        fraction: Share that is held out, where the examples do not say which.
        seed: Of the draw.
        settings: How features are used.
    """
    target, outputs = ("number", 1) if classes is None else ("classes", len(classes))
    held = examples.held
    if held is None:
        held = draw_holdout(codes.numpy() if classes is not None else np.zeros(len(codes)), fraction, seed)
    if held.all():
        raise ValueError("every labelled example is held out for validation: there is nothing to learn from")
    if isinstance(examples.data, GraphDataset) and (~held).sum() < 2:
        raise ValueError("one graph is left to learn from, and batch normalization needs two: give more graphs")
    learned, places = torch.from_numpy(~held), torch.from_numpy(examples.places)
    data = ready(examples.data, target, outputs, settings)
    data.y = torch.full((count(data),), float("nan") if classes is None else -1, dtype=codes.dtype)
    data.y[places] = codes
    none = torch.empty(0, dtype=torch.int64)
    split = Split("hold-out", seed, count(data), places[learned], places[~learned], none)
    task = for_target(target, DEFAULT_METRICS[target], codes[learned])
    return Prepared(data, split, task, infer_shape(data, split.train), HeldOutLabels(none), data_hash="")


def ready(data: Data | GraphDataset, target: str, outputs: int, settings: DataConfig) -> Data | GraphDataset:
    """Data with features as the settings want them, and with what the training code asks of data."""
    level = "graph" if isinstance(data, GraphDataset) else "node"
    data.info = DatasetInfo("", level, target, DEFAULT_METRICS[target], outputs, "memory")
    return transform_features(data, settings)


def count(data: Data | GraphDataset) -> int:
    """How many nodes or graphs."""
    return len(data) if isinstance(data, GraphDataset) else int(data.num_nodes)


def columns(width: int | tuple[int, ...] | None) -> int:
    """How many features are meant by a width as :class:`~tgnn.models.data_shape.DataShape` has it.

    Example:
        >>> columns(64), columns((28, 4)), columns(None)
        (64, 2, 0)
    """
    return 0 if width is None else len(width) if isinstance(width, tuple) else width
