"""What a model must know of data to be made for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Sizes of inputs and outputs.

    Args:
        level: ``"node"`` or ``"graph"``.
        features: Width of numeric node features, or the number of categories in each column; ``None``: no features.
        edge_features: The same for edges.
        outputs: Numbers that come out, for a node or a graph.
    """

    level: str
    features: int | tuple[int, ...] | None
    edge_features: int | tuple[int, ...] | None
    outputs: int
