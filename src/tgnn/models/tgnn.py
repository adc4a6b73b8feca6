"""Ours."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tgnn.models.data_shape import DataShape
from tgnn.models.network import GraphNetwork, NodeNetwork, Norm
from tgnn.nn import TGNN, GraphTGNN
from tgnn.nn.init import SMALLEST_SCALE
from tgnn.nn.models.encoder import CategoryEncoder


def build_tgnn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    rank: Annotated[int, Field(ge=0)] = 32,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    mix: str = "sum",
    low_order: str | None = "sum",
    factors: str = "plain",
    root_weight: bool = False,
    norm: Norm | None = None,
    jk: str | None = None,
    act: str = "relu",
) -> NodeNetwork:
    """:class:`tgnn.TGNN` for a task on nodes; arguments as there. Rank 0: sums only."""
    encoder, width = None, shape.features
    if isinstance(width, tuple):
        encoder, width = CategoryEncoder(width, hidden_channels), hidden_channels
    edges = shape.edge_features
    if isinstance(edges, tuple):
        raise ValueError(
            "tgnn takes categories of edges in graph tasks only; deepergcn would do, or set data.edge_features=false, "
            "or store numbers"
        )
    assert width is not None
    gnn = TGNN(
        width,
        hidden_channels,
        num_layers,
        shape.outputs,
        rank=rank,
        dropout=dropout,
        input_dropout=input_dropout,
        act=act,
        norm=norm,
        jk=jk,
        mix=mix,
        low_order=low_order,
        factors=factors,
        root_weight=root_weight,
        edge_dim=edges,
    )
    return NodeNetwork(gnn, encoder, uses_edges=True)


def build_graph_tgnn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    rank: Annotated[int, Field(ge=0)] = 32,
    readout: str = "sum+cp",
    readout_norm: bool = False,
    jk: Literal["cat"] | None = None,
    smallest_start: Annotated[float, Field(gt=0, le=1)] = SMALLEST_SCALE,
    head_layers: Annotated[int, Field(ge=1)] = 2,
    mix: str = "sum",
    low_order: str | None = "sum",
    factors: str = "plain",
    root_weight: bool = True,
    norm: Norm | None = "batch_norm",
    act: str = "relu",
) -> GraphNetwork:
    """:class:`tgnn.GraphTGNN` for a task on graphs; arguments as there. Rank 0: sums only."""
    readout = readout.partition("+")[0] if rank == 0 else readout
    options: dict[str, Any] = {"mix": mix, "low_order": low_order, "factors": factors, "root_weight": root_weight}
    assert shape.features is not None
    gnn = GraphTGNN(
        shape.features,
        hidden_channels,
        num_layers,
        shape.outputs,
        rank=rank,
        edge_dim=shape.edge_features,
        readout=readout,
        readout_norm=readout_norm,
        jk=jk,
        smallest_start=smallest_start,
        dropout=dropout,
        norm=norm,
        head_layers=head_layers,
        act=act,
        **options,
    )
    return GraphNetwork(gnn, uses_edges=shape.edge_features is not None)
