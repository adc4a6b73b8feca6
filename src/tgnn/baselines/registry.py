"""All models, by name. A new one is one file and one line here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError

from tgnn.baselines.shape import Shape
from tgnn.baselines.tgnn import build_graph_tgnn, build_tgnn

Build = Callable[..., torch.nn.Module]
"""``build(shape, hidden, layers, dropout, **arguments)``; its keyword arguments are the model's own settings."""


@dataclass(frozen=True)
class Model:
    """A model that can be trained by name.

    Args:
        name: To call it by.
        idea: In one line.
        paper: Who proposed it, and where.
        node: Makes it for a task on nodes; ``None``: it has none.
        graph: The same for graphs.
    """

    name: str
    idea: str
    paper: str
    node: Build | None = None
    graph: Build | None = None

    def builder(self, level: str) -> Build | None:
        return self.node if level == "node" else self.graph


_ALL = (
    Model(
        "tgnn",
        "multiplies neighbours through a CP decomposition, and sums them",
        "Hua et al. 2022, arXiv:2205.11691",
        node=build_tgnn,
        graph=build_graph_tgnn,
    ),
)

MODELS: Mapping[str, Model] = {model.name: model for model in _ALL}


class WrongModel(ValueError):
    """A model that does not exist, or not for this task, or not with this argument; the text is for the user."""


def find_model(name: str) -> Model:
    """The model of that name, or an error that names the nearest."""
    if name not in MODELS:
        near = difflib.get_close_matches(name.lower(), MODELS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(MODELS)}"
        raise WrongModel(f"there is no model {name!r}: {hint}")
    return MODELS[name]


def build_model(
    name: str, shape: Shape, hidden: int, layers: int, dropout: float, arguments: Mapping[str, Any]
) -> torch.nn.Module:
    """Makes a model for some data.

    Args:
        name: Of the model.
        shape: Of the data.
        hidden: Width of hidden layers.
        layers: Number of layers.
        dropout: Share of hidden entries dropped.
        arguments: The model's own settings.
    """
    model = find_model(name)
    build = model.builder(shape.level)
    if build is None:
        able = [other.name for other in MODELS.values() if other.builder(shape.level) is not None]
        raise WrongModel(f"{name} is not made for {shape.level} tasks; {', '.join(able)} are")
    if shape.features is None:
        raise WrongModel(f"{name} needs node features, and this data has none")
    accepted = [
        p.name for p in inspect.signature(build).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for key in arguments:
        if key not in accepted:
            near = difflib.get_close_matches(key, [*accepted, "hidden", "layers", "dropout"], n=1)
            hint = f"did you mean model.{near[0]}?" if near else f"it has {', '.join(accepted)}"
            raise WrongModel(f"there is no setting model.{key} of {name}; {hint}")
    kinds = get_type_hints(build, include_extras=True)
    checked = {key: _checked(key, value, kinds[key]) for key, value in arguments.items()}
    return build(shape, hidden, layers, dropout, **checked)


def _checked(key: str, value: Any, kind: Any) -> Any:
    """The value as the model wants it, such as a number that was written as a word."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        words = error.errors()[0]["msg"]
        raise WrongModel(f"model.{key} is {value!r}: {words[0].lower()}{words[1:]}") from None
