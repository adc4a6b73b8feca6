"""Whether settings can be, before any data is read."""

from __future__ import annotations

import torch

from tgnn.models import build_model, get_model
from tgnn.models.data_shape import DataShape
from tgnn.training.config import Config, ModelConfig
from tgnn.training.log_forwarding import quietly

_ANY = {
    "node": DataShape("node", 4, None, 2, positions=2, nodes=4, degrees=(1, 1, 1, 1)),
    "graph": DataShape("graph", (4,), None, 2, positions=2, degrees=(1, 1, 1, 1)),
}
"""Some data of each kind: what a model says of its own settings hardly depends on it."""


def check_model(config: Config, level: str) -> None:
    """Makes the model once, for data of no importance: what it refuses is said before anything is loaded.

    Args:
        config: Of a run.
        level: ``"node"`` or ``"graph"``.
    """
    build_silently(config.model, _ANY[level])


def build_silently(settings: ModelConfig, shape: DataShape) -> torch.nn.Module:
    """The model, to be looked at and not to be trained: nothing is said of what it leaves unused, no seed is used up.

    Args:
        settings: Of the model.
        shape: Of some data.
    """
    with quietly(), torch.random.fork_rng([]):
        return build_model(
            settings.name, shape, settings.hidden_channels, settings.num_layers, settings.dropout, settings.arguments
        )


def lacks(settings: ModelConfig, learned: DataShape, found: DataShape) -> str | None:
    """What a trained model reads beside features, and new data has not: in a few words, or ``None``.

    Args:
        settings: Of the model.
        learned: Of the data it was trained on.
        found: Of the new data.

    Example:
        >>> weighted, plain = DataShape("node", 4, None, 2, edge_weights=True), DataShape("node", 4, None, 2)
        >>> lacks(ModelConfig(name="gcn"), weighted, plain), lacks(ModelConfig(name="gin"), weighted, plain)
        ('edge weights', None)
    """
    uses = get_model(settings.name).uses(learned.level)
    if "edge weights" in uses and learned.edge_weights and not found.edge_weights:
        return "edge weights"
    if settings.arguments.get("pseudo") == "position" and learned.positions != found.positions:
        return f"positions of {learned.positions} numbers"
    return None
