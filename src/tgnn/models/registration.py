"""Models by name: registration, hyperparameters, and :func:`build_model`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, TypeVar, get_type_hints

import torch
from pydantic import Field, NonNegativeInt, TypeAdapter, ValidationError

from tgnn.utils.read import STRICT
from tgnn.utils.suggest import closest_match

logger = logging.getLogger("tgnn")

PositiveInt = Annotated[int, Field(ge=1, le=1_000_000)]
"""Type of hyperparameters that are counts."""

NumLayers = Annotated[int, Field(ge=1, le=1000)]
"""Type of hyperparameters that are numbers of layers."""

Probability = Annotated[float, Field(ge=0, lt=1)]
"""Type of hyperparameters that are dropout probabilities."""

Builder = Callable[..., torch.nn.Module]
"""Called as ``build(size, **hyperparameters)``, where ``size`` is a :class:`ModelSize`. Its keyword-only arguments are
the hyperparameters of the model. It returns a module that maps PyG's ``Data`` or ``Batch`` to the outputs of all nodes
or graphs. A module with a loss besides that of the targets stores it in its attribute ``extra_loss`` in the forward
pass, and the training loop adds it."""

_AnyBuilder = TypeVar("_AnyBuilder", bound=Builder)


@dataclass(frozen=True)
class DataShape:
    """Sizes of the inputs and outputs that a model is built for.

    Args:
        level: ``"node"`` or ``"graph"``.
        features: Number of numeric node features, or a tuple with the number of categories in each column if features
            are categorical. Numeric columns after categorical ones have 0 categories. ``None`` if nodes have no
            features.
        edge_features: The same for edge features.
        outputs: Number of outputs per node or graph: the number of classes or of targets.
        edge_weights: Whether edges have weights.
        positions: Number of coordinates of node positions. ``None`` if nodes have no positions.
        nodes: Number of nodes of a single graph. ``None`` for a data set of many graphs.
        degrees: Histogram of in-degrees in the training data: the number of nodes with 0, 1, 2, ... incoming edges.
            It is needed only to initialize a model and is not stored.
    """

    __pydantic_config__ = STRICT

    level: Annotated[str, Field(pattern="^(node|graph)$")]
    features: NonNegativeInt | tuple[NonNegativeInt, ...] | None
    edge_features: NonNegativeInt | tuple[NonNegativeInt, ...] | None
    outputs: PositiveInt
    edge_weights: bool = False
    positions: PositiveInt | None = None
    nodes: NonNegativeInt | None = field(default=None, compare=False)
    degrees: tuple[int, ...] | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are stored with a trained model."""
        return {name: value for name, value in asdict(self).items() if name != "degrees"}

    def inputs(self) -> set[str]:
        """Return the inputs that the data has: node features, edge features, edge weights, positions."""
        inputs = {
            "node features": self.features is not None,
            "edge features": self.edge_features is not None,
            "edge weights": self.edge_weights,
            "positions": self.positions is not None,
        }
        return {name for name, available in inputs.items() if available}


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a network: those of the data, and the hyperparameters that all models have.

    Args:
        shape: Sizes of the inputs and outputs.
        hidden_channels: Number of hidden channels.
        num_layers: Number of layers.
        dropout: Dropout probability of hidden activations.
    """

    shape: DataShape
    hidden_channels: int
    num_layers: int
    dropout: float

    @property
    def in_channels(self) -> int:
        """Number of input channels of a GNN, after categorical features are embedded."""
        if isinstance(self.shape.features, tuple):
            return self.hidden_channels
        assert self.shape.features is not None
        return self.shape.features

    @property
    def out_channels(self) -> int:
        """Number of outputs per node or graph."""
        return self.shape.outputs

    @property
    def edge_dim(self) -> int | None:
        """Number of channels of encoded edge features. ``None`` if edges have no features."""
        return None if self.shape.edge_features is None else self.hidden_channels

    @property
    def channels(self) -> tuple[int, int, int, int]:
        """Input channels, hidden channels, layers and output channels: the first arguments of PyG's models."""
        return self.in_channels, self.hidden_channels, self.num_layers, self.out_channels


@dataclass(frozen=True)
class Model:
    """A model that can be trained by name.

    Args:
        name: Name of the model, as in ``tgnn train --model NAME``.
        summary: The operator of the model in one line.
        paper: Authors, year and arXiv identifier, e.g. ``"Kipf and Welling 2017, arXiv:1609.02907"``.
        node: Builder for node tasks, or ``None`` if the model does not support them.
        graph: Builder for graph tasks, or ``None`` if the model does not support them.
        node_uses: Optional inputs that the node model uses: ``"edge features"``, ``"edge weights"``.
        graph_uses: Optional inputs that the graph model uses.
        needs: Inputs that the model requires: ``"node features"``, ``"edge features"``, ``"positions"``.
        search_space: Values that ``tgnn tune`` tries for the hyperparameters of this model, by configuration key such
            as ``"model.heads"``. :func:`~tgnn.models.search_ranges.search_space` adds the ranges common to all models.
        preprocess: Adds attributes that the model reads to a loaded data set, in place. ``None`` adds nothing.
        hops: Computes the number of hops that a node's receptive field spans from the number of layers and the
            hyperparameters. ``None`` means one hop per layer. 0 hops means that the model cannot be trained on sampled
            neighborhoods.
    """

    name: str
    summary: str
    paper: str
    node: Builder | None = None
    graph: Builder | None = None
    node_uses: tuple[str, ...] = ()
    graph_uses: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("node features",)
    search_space: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    preprocess: Callable[[Any], None] | None = None
    hops: Callable[[int, Mapping[str, Any]], int] | None = None

    @property
    def year(self) -> int:
        """Year of the paper."""
        return int(next(word for word in self.paper.replace(",", " ").split() if word.isdigit() and len(word) == 4))

    def builder(self, level: str) -> Builder | None:
        """Return the builder for ``"node"`` or ``"graph"`` tasks."""
        return self.node if level == "node" else self.graph

    def uses(self, level: str) -> tuple[str, ...]:
        """Return the optional inputs that the model uses in ``"node"`` or ``"graph"`` tasks."""
        return self.node_uses if level == "node" else self.graph_uses


MODELS: dict[str, Model] = {}
"""All registered models by name, in the order in which ``tgnn models`` lists them."""


class ModelError(ValueError):
    """A model or a hyperparameter that does not exist, or that does not fit the task or the data."""


def register_model(
    name: str, level: str, *, uses: tuple[str, ...] = (), **properties: Any
) -> Callable[[_AnyBuilder], _AnyBuilder]:
    """Register the decorated builder under a name.

    A model for both node and graph tasks registers two builders under the same name. The properties are given once,
    with the first of them.

    Args:
        name: Name of the model.
        level: ``"node"`` or ``"graph"``.
        uses: Optional inputs that the model uses at this level: ``"edge features"``, ``"edge weights"``.
        properties: The other arguments of :class:`Model`: ``summary`` and ``paper``, and optionally ``needs``,
            ``search_space``, ``preprocess`` and ``hops``.

    Example:
        >>> @register_model("constant", "graph", summary="Predict zero", paper="Doe 2022")
        ... def build_constant(size):
        ...     return torch.nn.Identity()
        >>> MODELS.pop("constant").builder("graph") is build_constant
        True
    """
    if level not in ("node", "graph"):
        raise ValueError(f"The level of a model must be 'node' or 'graph', but is {level!r}.")

    def register(build: _AnyBuilder) -> _AnyBuilder:
        known = MODELS.get(name)
        if known is None:
            known = Model(name, **properties)
        elif properties or known.builder(level) is not None:
            raise ValueError(f"A model {name!r} is already registered.")
        if level == "node":
            MODELS[name] = replace(known, node=build, node_uses=uses)
        else:
            MODELS[name] = replace(known, graph=build, graph_uses=uses)
        return build

    return register


def get_model(name: str) -> Model:
    """Return the model of that name. An unknown name raises a :class:`ModelError` that suggests a similar one."""
    if name not in MODELS:
        similar = closest_match(name, MODELS)
        hint = f"did you mean {similar}?" if similar else f"choose one of {', '.join(MODELS)}"
        raise ModelError(f"unknown model {name!r}; {hint}")
    return MODELS[name]


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
    model, available = get_model(name), shape.inputs()
    for required in model.needs:
        if required not in available:
            names = [m.name for m in MODELS.values() if m.builder(shape.level) and set(m.needs) <= available]
            others = f"Models that do not need {required}: {', '.join(names)}."
            hint = others if names else "Add them as columns of the data."
            raise ModelError(f"{name} needs {required}, but this data has none. {hint}")
    used = (*model.uses(shape.level), *model.needs)
    unused = [key for key in ("edge features", "edge weights") if key in available and key not in used]
    if unused:
        logger.warning("%s does not use the %s of this data", name, " and the ".join(unused))
    return build(ModelSize(shape, hidden_channels, num_layers, dropout), **hyperparameters)


# ---- hyperparameters: the keyword-only arguments of a builder --------------------------------------------------


def model_options(build: Builder) -> dict[str, tuple[Any, Any]]:
    """Return the hyperparameters of a builder by name, each with its type and its default.

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
            known = [*options, "hidden_channels", "num_layers", "dropout"]
            similar = closest_match(key, known)
            hint = f"did you mean model.{similar}?" if similar else f"it has {', '.join(known)}"
            raise ModelError(f"unknown hyperparameter model.{key} of {name}; {hint}")
    return build, {key: _validate_option(key, value, options[key][0]) for key, value in arguments.items()}


def _validate_option(name: str, value: Any, type_hint: Any) -> Any:
    """Convert a value to the type of a hyperparameter, e.g. ``"8"`` to ``8``, and check its range."""
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

    Example:
        >>> count_hops("gcn", 2, {}), count_hops("mixhop", 2, {"powers": [0, 1, 3]})
        (2, 6)
    """
    model = MODELS.get(name)
    if model is None or model.node is None or model.hops is None:
        return num_layers
    hyperparameters = {
        key: _validate_option(key, arguments[key], type_hint) if key in arguments else default
        for key, (type_hint, default) in model_options(model.node).items()
    }
    return model.hops(num_layers, hyperparameters)
