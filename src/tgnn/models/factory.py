"""Build a model by name for a data set."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch

from tgnn.models.data_shape import DataShape
from tgnn.models.hyperparameters import validate_hyperparameters
from tgnn.models.registration import MODELS, Model, ModelError, get_model

logger = logging.getLogger("tgnn")


def build_model(
    name: str, shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, arguments: Mapping[str, Any]
) -> torch.nn.Module:
    """Build a model for data of a given shape.

    Args:
        name: Name of the model.
        shape: Sizes of the inputs and outputs.
        hidden_channels: Number of hidden channels.
        num_layers: Number of layers.
        dropout: Dropout probability of hidden activations.
        arguments: Other hyperparameters of the model. Those left out have their defaults.
    """
    build, hyperparameters = validate_hyperparameters(name, shape.level, arguments)
    _check_inputs(get_model(name), shape)
    return build(shape, hidden_channels, num_layers, dropout, **hyperparameters)


def _check_inputs(model: Model, shape: DataShape) -> None:
    """Raise if the data lacks an input that the model needs, and warn about edge inputs that the model ignores."""
    available = _available_inputs(shape)
    for required in model.needs:
        if required not in available:
            candidates = [other for other in MODELS.values() if other.builder(shape.level) is not None]
            names = [other.name for other in candidates if set(other.needs) <= available]
            hint = (
                f"Models that do not need {required}: {', '.join(names)}."
                if names
                else "Add them as columns of the data."
            )
            raise ModelError(f"{model.name} needs {required}, but this data has none. {hint}")
    unused = [
        name
        for name in ("edge features", "edge weights")
        if name in available and name not in (*model.uses(shape.level), *model.needs)
    ]
    if unused:
        logger.warning("%s does not use the %s of this data", model.name, " and the ".join(unused))


def _available_inputs(shape: DataShape) -> set[str]:
    inputs = {
        "node features": shape.features is not None,
        "edge features": shape.edge_features is not None,
        "edge weights": shape.edge_weights,
        "positions": shape.positions is not None,
    }
    return {name for name, available in inputs.items() if available}
