"""All models, by name. A new one is one file and one line here."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError

from tgnn.models import (
    appnp,
    deepergcn,
    dgn,
    diffpool,
    gat,
    gatedgcn,
    gcn,
    gcn2,
    gin,
    gmt,
    gprgnn,
    graphsage,
    h2gcn,
    mixhop,
    mlp,
    monet,
    node2vec,
    phm_gnn,
    pna,
    pooling,
    soppool,
    tgnn,
)
from tgnn.models.data_shape import DataShape
from tgnn.models.eigenvector import add_eigenvectors
from tgnn.models.high_order import high_order
from tgnn.utils.suggest import closest_match

Build = Callable[..., torch.nn.Module]
"""``build(shape, hidden, layers, dropout, **arguments)``; its keyword arguments are the model's own settings."""

logger = logging.getLogger("tgnn")


@dataclass(frozen=True)
class Model:
    """A model that can be trained by name.

    Args:
        name: To call it by.
        idea: In one line.
        paper: Who proposed it, and where.
        node: Makes it for a task on nodes; ``None``: it has none.
        graph: The same for graphs.
        node_uses: What it uses of nodes' data beside features and edges: ``"edge features"``, ``"edge weights"``.
        graph_uses: The same for graphs.
        needs: What it cannot do without: ``"node features"``, ``"edge features"``, ``"positions"``.
        complete: Adds to data what the model reads beyond the files, once; without it that is done at every step.
        hops: How far a node sees, by the number of layers and the model's own settings; ``None``: one step for each
            layer. 0: it cannot learn from sampled neighbourhoods.
    """

    name: str
    idea: str
    paper: str
    node: Build | None = None
    graph: Build | None = None
    node_uses: tuple[str, ...] = ()
    graph_uses: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("node features",)
    complete: Callable[[Any], None] | None = None
    hops: Callable[[int, Mapping[str, Any]], int] | None = None

    @property
    def year(self) -> int:
        """When it was proposed."""
        return int(next(word for word in self.paper.replace(",", " ").split() if word.isdigit() and len(word) == 4))

    def uses(self, level: str) -> tuple[str, ...]:
        """What it uses beside features and edges."""
        return self.node_uses if level == "node" else self.graph_uses

    def builder(self, level: str) -> Build | None:
        return self.node if level == "node" else self.graph


_GCN = Model(
    "gcn",
    "sums neighbours, weighted by degrees",
    "Kipf and Welling 2017, arXiv:1609.02907",
    gcn.build_gcn,
    gcn.build_graph_gcn,
    node_uses=("edge weights",),
    graph_uses=("edge weights",),
)
_GAT = Model(
    "gat",
    "weights neighbours by attention",
    "Veličković et al. 2018, arXiv:1710.10903",
    gat.build_gat,
    gat.build_graph_gat,
    graph_uses=("edge features",),
)
_SAGE = Model(
    "graphsage",
    "the mean of the neighbours, beside the node itself",
    "Hamilton et al. 2017, arXiv:1706.02216",
    graphsage.build_graphsage,
    graphsage.build_graph_graphsage,
)
_GIN = Model(
    "gin",
    "sums neighbours into an MLP, as strong as the Weisfeiler-Leman test",
    "Xu et al. 2019, arXiv:1810.00826",
    gin.build_gin,
    gin.build_graph_gin,
    graph_uses=("edge features",),
)
_PNA = Model(
    "pna",
    "four poolings side by side, scaled by degrees",
    "Corso et al. 2020, arXiv:2004.05718",
    pna.build_pna,
    pna.build_graph_pna,
    graph_uses=("edge features",),
)
_POOLINGS = "Hua et al. 2022, arXiv:2205.11691"


def _with_cp(model: Model) -> Model:
    return Model(
        f"{model.name}+cp",
        f"{model.name} through with_cp: its layers multiply as well",
        _POOLINGS,
        None if model.node is None else high_order(model.node),
        None if model.graph is None else high_order(model.graph),
        model.node_uses,
        model.graph_uses,
    )


_ALL = (
    Model(
        "tgnn",
        "multiplies neighbours through a CP decomposition, and sums them",
        "Hua et al. 2022, arXiv:2205.11691",
        tgnn.build_tgnn,
        tgnn.build_graph_tgnn,
        node_uses=("edge features", "edge weights"),
        graph_uses=("edge features", "edge weights"),
    ),
    Model("mlp", "no graph: what the features alone tell", "Rosenblatt 1958", mlp.build_mlp, mlp.build_graph_mlp),
    _GCN,
    _GAT,
    _SAGE,
    _GIN,
    _PNA,
    Model(
        "monet",
        "weights neighbours by Gaussians of where they lie",
        "Monti et al. 2017, arXiv:1611.08402",
        graph=monet.build_graph_monet,
    ),
    Model(
        "gatedgcn",
        "gives every edge a gate",
        "Bresson and Laurent 2017, arXiv:1711.07553",
        graph=gatedgcn.build_graph_gatedgcn,
        graph_uses=("edge features",),
    ),
    Model(
        "diffpool",
        "pools nodes into clusters that are learned",
        "Ying et al. 2018, arXiv:1806.08804",
        graph=diffpool.build_graph_diffpool,
    ),
    Model(
        "soppool",
        "pools products of features, two by two",
        "Wang and Ji 2020, arXiv:2007.10467",
        graph=soppool.build_graph_soppool,
        graph_uses=("edge features",),
    ),
    Model(
        "phm-gnn",
        "shares weights by an algebra that is learned",
        "Le et al. 2021, arXiv:2103.16584",
        graph=phm_gnn.build_graph_phm_gnn,
        graph_uses=("edge features",),
    ),
    Model(
        "dgn",
        "weights neighbours along an eigenvector of the Laplacian",
        "Beaini et al. 2021, arXiv:2010.02863",
        graph=dgn.build_graph_dgn,
        graph_uses=("edge features",),
        complete=add_eigenvectors,
    ),
    Model(
        "gmt",
        "pools nodes by attention, and then what was pooled",
        "Baek et al. 2021, arXiv:2102.11533",
        graph=gmt.build_graph_gmt,
    ),
    Model(
        "appnp",
        "an MLP, then steps of a personalized PageRank",
        "Gasteiger et al. 2019, arXiv:1810.05997",
        appnp.build_appnp,
        node_uses=("edge weights",),
        hops=lambda num_layers, own: max(own["steps"], 1),
    ),
    Model(
        "mixhop",
        "neighbours at several distances side by side in every layer",
        "Abu-El-Haija et al. 2019, arXiv:1905.00067",
        mixhop.build_mixhop,
        node_uses=("edge weights",),
        hops=lambda num_layers, own: max(num_layers * max(own["powers"]), 1),
    ),
    Model(
        "deepergcn",
        "a softmax over neighbours, its temperature learned, in deep residual layers",
        "Li et al. 2020, arXiv:2006.07739",
        deepergcn.build_deepergcn,
        node_uses=("edge features",),
    ),
    Model(
        "gcn2",
        "GCNII: a deep GCN that keeps what it began with",
        "Chen et al. 2020, arXiv:2007.02133",
        gcn2.build_gcn2,
        node_uses=("edge weights",),
    ),
    Model(
        "gprgnn",
        "an MLP, then steps along edges whose weights are learned",
        "Chien et al. 2021, arXiv:2006.07988",
        gprgnn.build_gprgnn,
        node_uses=("edge weights",),
        hops=lambda num_layers, own: max(own["steps"], 1),
    ),
    Model(
        "h2gcn",
        "a node, its neighbours and their neighbours apart",
        "Zhu et al. 2020, arXiv:2006.11468",
        h2gcn.build_h2gcn,
        hops=lambda num_layers, own: 2 * num_layers,
    ),
    Model(
        "node2vec",
        "an embedding of each node from random walks, without features",
        "Grover and Leskovec 2016, arXiv:1607.00653",
        node2vec.build_node2vec,
        needs=(),
        hops=lambda num_layers, own: 0,
    ),
    *(
        Model(name, f"one network, pooled by {name} at every level", _POOLINGS, *pooling.classical(name))
        for name in ("sum", "mean", "max")
    ),
    Model("cp", "the same network, pooled by the CP layer alone", _POOLINGS, pooling.build_cp, pooling.build_graph_cp),
    *(_with_cp(model) for model in (_GCN, _GAT, _SAGE, _GIN, _PNA)),
)

MODELS: Mapping[str, Model] = {model.name: model for model in _ALL}


class ModelError(ValueError):
    """A model that does not exist, or not for this task, or not with this argument; the text is for the user."""


def get_model(name: str) -> Model:
    """The model of that name, or an error that names the nearest."""
    if name not in MODELS:
        near = closest_match(name, MODELS, cutoff=0.4)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(MODELS)}"
        raise ModelError(f"there is no model {name!r}: {hint}")
    return MODELS[name]


def model_options(build: Build) -> dict[str, tuple[Any, Any]]:
    """The settings of a model's own: their types and defaults.

    Example:
        >>> model_options(get_model("gcn").node)["bias"]
        (<class 'bool'>, False)
    """
    kinds = get_type_hints(build, include_extras=True)
    parameters = inspect.signature(build).parameters.values()
    return {p.name: (kinds[p.name], p.default) for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def count_hops(name: str, num_layers: int, arguments: Mapping[str, Any]) -> int:
    """How far a node sees in a model of nodes: so many numbers say how neighbourhoods are sampled.

    Args:
        name: Of the model.
        num_layers: Number of layers.
        arguments: The model's own settings, those that are not left as they are.

    Example:
        >>> count_hops("gcn", 2, {}), count_hops("mixhop", 2, {"powers": [0, 1, 3]})
        (2, 6)
    """
    model = MODELS.get(name)
    if model is None or model.node is None or model.hops is None:
        return num_layers
    kinds = model_options(model.node)
    own = {
        key: _checked(key, arguments[key], kind) if key in arguments else value for key, (kind, value) in kinds.items()
    }
    return model.hops(num_layers, own)


def build_model(
    name: str, shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, arguments: Mapping[str, Any]
) -> torch.nn.Module:
    """Makes a model for some data.

    Args:
        name: Of the model.
        shape: Of the data.
        hidden_channels: Width of hidden layers.
        num_layers: Number of layers.
        dropout: Share of hidden entries dropped.
        arguments: The model's own settings.
    """
    model = get_model(name)
    build = model.builder(shape.level)
    if build is None:
        able = [other.name for other in MODELS.values() if other.builder(shape.level) is not None]
        raise ModelError(f"{name} is not made for {shape.level} tasks; {', '.join(able)} are")
    _check_data(model, shape)
    settings = model_options(build)
    for key in arguments:
        if key not in settings:
            near = closest_match(key, [*settings, "hidden_channels", "num_layers", "dropout"])
            has = f"it has {', '.join(settings)}" if settings else "it has none of its own"
            raise ModelError(
                f"there is no setting model.{key} of {name}; {f'did you mean model.{near}?' if near else has}"
            )
    checked = {key: _checked(key, value, settings[key][0]) for key, value in arguments.items()}
    return build(shape, hidden_channels, num_layers, dropout, **checked)


def _check_data(model: Model, shape: DataShape) -> None:
    """What the model needs must be there; what it leaves unused is said."""
    there = _there(shape)
    for part in model.needs:
        if part not in there:
            others = (m for m in MODELS.values() if m.builder(shape.level) is not None and set(m.needs) <= there)
            able = [other.name for other in others]
            hint = f"{', '.join(able)} would do" if able else "give it some, as a column of the data"
            raise ModelError(f"{model.name} needs {part}, and this data has none; {hint}")
    unused = [
        part
        for part in ("edge features", "edge weights")
        if part in there and part not in (*model.uses(shape.level), *model.needs)
    ]
    if unused:
        logger.warning("%s does not use the %s of this data", model.name, " and the ".join(unused))


def _there(shape: DataShape) -> set[str]:
    there = {
        "node features": shape.features is not None,
        "edge features": shape.edge_features is not None,
        "edge weights": shape.edge_weights,
        "positions": shape.positions is not None,
    }
    return {part for part, has in there.items() if has}


def _checked(key: str, value: Any, kind: Any) -> Any:
    """The value as the model wants it, such as a number that was written as a word."""
    try:
        found = TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        words = error.errors()[0]["msg"]
        raise ModelError(f"model.{key} is {value!r}: {words[0].lower()}{words[1:]}") from None
    if isinstance(value, bool) and not isinstance(found, bool):
        raise ModelError(f"model.{key} is {value!r}: it is not a question of true or false")
    return found
