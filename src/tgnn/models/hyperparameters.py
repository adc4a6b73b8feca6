"""Hyperparameters of a model: the keyword-only arguments of its builder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from tgnn.models.registration import MODELS, Builder, ModelError, get_model
from tgnn.utils.suggest import closest_match


def model_options(build: Builder) -> dict[str, tuple[Any, Any]]:
    """Return the hyperparameters of a builder by name, each with its type and its default.

    Args:
        build: Builder of a model, see :attr:`Model.node` and :attr:`Model.graph`.

    Example:
        >>> from tgnn.models import get_model
        >>> model_options(get_model("gcn").node)["bias"]
        (<class 'bool'>, False)
    """
    types = get_type_hints(build, include_extras=True)
    parameters = inspect.signature(build).parameters.values()
    return {p.name: (types[p.name], p.default) for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def validate_hyperparameters(name: str, level: str, arguments: Mapping[str, Any]) -> tuple[Builder, dict[str, Any]]:
    """Check the names and types of hyperparameters against the builder of a model, without building the model.

    Args:
        name: Name of the model.
        level: ``"node"`` or ``"graph"``.
        arguments: Hyperparameters beside width, depth and dropout.

    Returns:
        The builder, and the hyperparameters converted to its types.

    Example:
        >>> validate_hyperparameters("tgnn", "node", {"rank": "8"})[1]
        {'rank': 8}
    """
    build = get_model(name).builder(level)
    if build is None:
        supported = [other.name for other in MODELS.values() if other.builder(level) is not None]
        raise ModelError(f"{name} does not support {level} tasks. Models that do: {', '.join(supported)}.")
    options = model_options(build)
    for key in arguments:
        if key not in options:
            raise ModelError(f"unknown hyperparameter model.{key} of {name}; {_hint(key, list(options))}")
    return build, {key: validate_option(key, value, options[key][0]) for key, value in arguments.items()}


def _hint(key: str, options: list[str]) -> str:
    similar = closest_match(key, [*options, "hidden_channels", "num_layers", "dropout"])
    if similar:
        return f"did you mean model.{similar}?"
    return f"it has {', '.join([*options, 'hidden_channels', 'num_layers', 'dropout'])}"


def validate_option(name: str, value: Any, type_hint: Any) -> Any:
    """Convert a value to the type of a hyperparameter, e.g. ``"8"`` to ``8``, and check its range.

    Args:
        name: Name of the hyperparameter, for the error message.
        value: Value from a recipe, a command or a call.
        type_hint: Type of the hyperparameter, see :func:`model_options`.
    """
    try:
        converted = TypeAdapter(type_hint).validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ModelError(f"model.{name} is {value!r}: {reason[0].lower()}{reason[1:]}") from None
    if isinstance(value, bool) and not isinstance(converted, bool):
        raise ModelError(f"model.{name} is {value!r}: input should not be true or false")
    return converted


def count_hops(name: str, num_layers: int, arguments: Mapping[str, Any]) -> int:
    """Return the number of hops that a node's receptive field spans, the length of ``train.num_neighbors``.

    Args:
        name: Name of the model.
        num_layers: Number of layers.
        arguments: Hyperparameters that differ from their defaults.

    Example:
        >>> count_hops("gcn", 2, {}), count_hops("mixhop", 2, {"powers": [0, 1, 3]})
        (2, 6)
    """
    model = MODELS.get(name)
    if model is None or model.node is None or model.hops is None:
        return num_layers
    hyperparameters = {
        key: validate_option(key, arguments[key], type_hint) if key in arguments else default
        for key, (type_hint, default) in model_options(model.node).items()
    }
    return model.hops(num_layers, hyperparameters)
