"""Check a model before any data is loaded: build it for placeholder data, without side effects."""

from __future__ import annotations

import torch

from tgnn.models import DataShape, build_model
from tgnn.training.config import Config, ModelConfig
from tgnn.training.log_forwarding import mute_logs

_PLACEHOLDERS = {
    "node": DataShape("node", 4, None, 2, positions=2, nodes=4, degrees=(1, 1, 1, 1)),
    "graph": DataShape("graph", (4,), None, 2, positions=2, degrees=(1, 1, 1, 1)),
}
"""A small shape of each task level. Whether hyperparameters are valid hardly depends on the data."""


def check_model(config: Config, level: str) -> None:
    """Build a model for placeholder data, so that invalid hyperparameters raise before data is loaded.

    Args:
        config: Configuration of a run.
        level: ``"node"`` or ``"graph"``.
    """
    build_silently(config.model, _PLACEHOLDERS[level])


def build_silently(config: ModelConfig, shape: DataShape) -> torch.nn.Module:
    """Build a model without log messages and without changing the random state.

    Args:
        config: Configuration of the model.
        shape: Shape of the data.
    """
    with mute_logs(), torch.random.fork_rng([]):
        return build_model(
            config.name, shape, config.hidden_channels, config.num_layers, config.dropout, config.arguments
        )
