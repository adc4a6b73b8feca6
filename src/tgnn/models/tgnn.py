"""Build tGNN (Hua et al., 2022) for node and graph tasks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data

from tgnn.models.node_network import NodeNetwork, Norm, encode_input
from tgnn.models.registration import ModelSize, NumLayers, Probability, register_model
from tgnn.models.search_ranges import CP
from tgnn.nn import TGNN, GraphTGNN
from tgnn.nn.init import SMALLEST_SCALE

LowOrder = Literal["sum", "mean", "gcn", "gated_sum", "gated_mean"]
Factors = Literal["plain", "weighted", "tempered", "bounded"]
Bound = Annotated[float, Field(gt=0, lt=1)]
Exponent = Annotated[float, Field(ge=0, le=1)]
Scale = Annotated[float, Field(ge=0)]
Start = Annotated[float, Field(gt=0, le=1)]


class GraphTGNNNetwork(torch.nn.Module):
    """A :class:`tgnn.GraphTGNN` that is called with PyG's ``Batch``."""

    def __init__(self, gnn: GraphTGNN) -> None:
        super().__init__()
        self.gnn = gnn

    def forward(self, data: Data) -> Tensor:
        edge_attr = None if self.gnn.edge_encoder is None else data.get("edge_attr")
        edge_weight, size = data.get("edge_weight"), data.num_graphs
        out: Tensor = self.gnn(data.x, data.edge_index, data.batch, edge_attr, edge_weight, size)
        return out


@register_model(
    "tgnn",
    "node",
    summary="Product of the neighbors through a CP decomposition, plus their linear sum",
    paper="Hua et al. 2022, arXiv:2205.11691",
    uses=("edge features", "edge weights"),
    search_space={
        **CP,
        "model.factors": ("plain", "weighted", "tempered", "bounded"),
        "model.low_order": ("sum", "mean", "gcn", "gated_sum", "gated_mean"),
        "model.root_weight": (False, True),
        "model.mix": ("sum", "scalar"),
        "model.high_scale": (None, 0.01),
        "model.residual": (False, True),
        "model.ffn": (False, True),
        "model.readout": ("sum", "mean", "sum+cp"),
    },
)
def build_tgnn(
    size: ModelSize,
    *,
    rank: Annotated[int, Field(ge=0, le=1_000_000)] = 32,
    input_dropout: Probability = 0.0,
    mix: Literal["sum", "scalar", "node"] = "sum",
    low_order: LowOrder | None = "sum",
    factors: Factors = "plain",
    bound: Bound = 0.9,
    degree_exponent: Exponent = 0.0,
    two_ended: bool = False,
    high_scale: Scale | None = None,
    high_start: Start = 1.0,
    add_self_loops: bool | None = None,
    residual: bool = False,
    ffn: bool = False,
    update_edges: bool = False,
    root_weight: bool = False,
    norm: Norm | None = None,
    jk: str | None = None,
    act: str = "relu",
) -> NodeNetwork:
    """Build :class:`tgnn.TGNN`, which documents the hyperparameters. Rank 0 leaves out the product."""
    encoder = encode_input(size)
    if isinstance(size.shape.edge_features, tuple):
        raise ValueError(
            "tgnn does not support categorical edge features in node tasks. Use deepergcn, set "
            "data.edge_features=false, or store the edge features as floats."
        )
    gnn = TGNN(
        *size.channels,
        rank=rank,
        dropout=size.dropout,
        input_dropout=input_dropout,
        act=act,
        norm=norm,
        jk=jk,
        mix=mix,
        low_order=low_order,
        factors=factors,
        bound=bound,
        degree_exponent=degree_exponent,
        two_ended=two_ended,
        high_scale=high_scale,
        high_start=high_start,
        add_self_loops=add_self_loops,
        residual=residual,
        ffn=ffn,
        update_edges=update_edges,
        root_weight=root_weight,
        edge_dim=size.shape.edge_features,
    )
    return NodeNetwork(gnn, encoder, uses_edges=True)


@register_model("tgnn", "graph", uses=("edge features", "edge weights"))
def build_graph_tgnn(
    size: ModelSize,
    *,
    rank: Annotated[int, Field(ge=0, le=1_000_000)] = 32,
    readout: str = "sum+cp",
    readout_norm: bool = False,
    jk: Literal["cat"] | None = None,
    smallest_start: Start = SMALLEST_SCALE,
    head_layers: NumLayers = 2,
    mix: Literal["sum", "scalar", "node"] = "sum",
    low_order: LowOrder | None = "sum",
    factors: Factors = "plain",
    bound: Bound = 0.9,
    degree_exponent: Exponent = 0.0,
    two_ended: bool = False,
    high_scale: Scale | None = None,
    high_start: Start = 1.0,
    add_self_loops: bool | None = None,
    residual: bool = False,
    ffn: bool = False,
    update_edges: bool = False,
    root_weight: bool = True,
    norm: Norm | None = "batch_norm",
    act: str = "relu",
) -> GraphTGNNNetwork:
    """Build :class:`tgnn.GraphTGNN`, which documents the hyperparameters. Rank 0 leaves out the product."""
    return make_graph_tgnn(
        size,
        rank=rank,
        readout=readout.partition("+")[0] if rank == 0 else readout,
        readout_norm=readout_norm,
        jk=jk,
        smallest_start=smallest_start,
        norm=norm,
        head_layers=head_layers,
        act=act,
        mix=mix,
        low_order=low_order,
        factors=factors,
        bound=bound,
        degree_exponent=degree_exponent,
        two_ended=two_ended,
        high_scale=high_scale,
        high_start=high_start,
        add_self_loops=add_self_loops,
        residual=residual,
        ffn=ffn,
        update_edges=update_edges,
        root_weight=root_weight,
    )


def make_graph_tgnn(size: ModelSize, **hyperparameters: Any) -> GraphTGNNNetwork:
    """Build a :class:`tgnn.GraphTGNN` of some size that is called with PyG's ``Batch``."""
    shape = size.shape
    assert shape.features is not None
    sizes = (shape.features, size.hidden_channels, size.num_layers, size.out_channels)
    return GraphTGNNNetwork(GraphTGNN(*sizes, edge_dim=shape.edge_features, dropout=size.dropout, **hyperparameters))
