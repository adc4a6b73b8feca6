"""Registration of models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from tgnn.utils.suggest import closest_match

Builder = Callable[..., torch.nn.Module]
"""Called as ``build(shape, hidden_channels, num_layers, dropout, **hyperparameters)``, where ``shape`` is a
:class:`~tgnn.models.data_shape.DataShape`. Its keyword-only arguments are the hyperparameters of the model. It returns
a module that maps PyG's ``Data`` or ``Batch`` to the outputs of all nodes or graphs. A module with a loss besides that
of the targets stores it in its attribute ``extra_loss`` in the forward pass, and the training loop adds it."""

_AnyBuilder = TypeVar("_AnyBuilder", bound=Builder)


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
        ... def build_constant(shape, hidden_channels, num_layers, dropout):
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
    """Return the model of that name.

    Args:
        name: Name of the model. An unknown name raises a :class:`ModelError` that suggests the most similar one.
    """
    if name not in MODELS:
        similar = closest_match(name, MODELS, cutoff=0.4)
        hint = f"did you mean {similar}?" if similar else f"choose one of {', '.join(MODELS)}"
        raise ModelError(f"unknown model {name!r}; {hint}")
    return MODELS[name]
