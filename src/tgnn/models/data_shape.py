"""Sizes of the inputs and outputs that a model is built for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class DataShape:
    """Sizes of the inputs and outputs of a model.

    Args:
        level: ``"node"`` or ``"graph"``.
        features: Number of numeric node features, or a tuple with the number of categories in each column if features
            are categorical. ``None`` if nodes have no features.
        edge_features: The same for edge features.
        outputs: Number of outputs per node or graph: the number of classes or of targets.
        edge_weights: Whether edges have weights.
        positions: Number of coordinates of node positions. ``None`` if nodes have no positions.
        nodes: Number of nodes of a single graph. ``None`` for a data set of many graphs.
        degrees: Histogram of in-degrees in the training data: the number of nodes with 0, 1, 2, ... incoming edges.
            It is needed only to initialize a model and is not stored.
    """

    level: str
    features: int | tuple[int, ...] | None
    edge_features: int | tuple[int, ...] | None
    outputs: int
    edge_weights: bool = False
    positions: int | None = None
    nodes: int | None = field(default=None, compare=False)
    degrees: tuple[int, ...] | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are stored with a trained model."""
        return {name: value for name, value in asdict(self).items() if name != "degrees"}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> DataShape:
        """Restore a shape from its stored fields. JSON has lists in place of tuples."""
        fields: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in stored.items()}
        return DataShape(**fields)
