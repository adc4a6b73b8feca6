"""Whether settings can be, before any data is read."""

from __future__ import annotations

import logging

import torch

from tgnn.baselines import build_model
from tgnn.baselines.shape import Shape
from tgnn.training.config import Config

_ANY = {
    "node": Shape("node", 4, None, 2, positions=2, nodes=4, degrees=(1, 1, 1, 1)),
    "graph": Shape("graph", (4,), None, 2, positions=2, degrees=(1, 1, 1, 1)),
}
"""Some data of each kind: what a model says of its own settings hardly depends on it."""


def check_model(config: Config, level: str) -> None:
    """Makes the model once, for data of no importance: what it refuses is said before anything is loaded.

    Args:
        config: Of a run.
        level: ``"node"`` or ``"graph"``.
    """
    settings, logger = config.model, logging.getLogger("tgnn")
    before, logger.disabled = logger.disabled, True  # what it leaves unused is no news of this data
    try:
        with torch.random.fork_rng([]):
            build_model(
                settings.name, _ANY[level], settings.hidden, settings.layers, settings.dropout, settings.arguments
            )
    finally:
        logger.disabled = before
