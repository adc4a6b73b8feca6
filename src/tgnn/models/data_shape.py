"""What a model must know of data to be made for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class DataShape:
    """Sizes of inputs and outputs.

    Args:
        level: ``"node"`` or ``"graph"``.
        features: Width of numeric node features, or the number of categories in each column; ``None``: no features.
        edge_features: The same for edges.
        outputs: Numbers that come out, for a node or a graph.
        edge_weights: Whether edges have weights.
        positions: Width of the positions of nodes; ``None``: no positions.
        nodes: Nodes of the one graph; ``None``: there are many graphs.
        degrees: How many nodes have 0, 1, 2, ... edges into them, where models are trained; it is not stored.
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
        """To be stored beside a trained model."""
        return {name: value for name, value in asdict(self).items() if name != "degrees"}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> DataShape:
        """From what was stored; a file has lists."""
        known: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in stored.items()}
        return DataShape(**known)
