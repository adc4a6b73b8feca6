"""GraphSAGE (Hamilton et al., 2017): mean of the neighbors, plus a root weight."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.nn import MessagePassing, SAGEConv
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import uniform
from torch_geometric.nn.models import GraphSAGE

from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, Norm, accept_sparse, encode_input
from tgnn.models.propagation import can_fuse
from tgnn.models.registration import ModelSize, Probability, register_model
from tgnn.ops import degrees, neighbor_sum

Pooling = Literal["mean", "max", "sum"]


class TransformFirstSAGEConv(MessagePassing):
    """PyG's ``SAGEConv`` that applies the linear transformation before it aggregates.

    Mean and sum commute with a linear transformation. Aggregating afterwards is cheaper because the transformed
    features are narrow, and the input features may be sparse.
    """

    def __init__(self, in_channels: int, out_channels: int, aggr: str) -> None:
        super().__init__(aggr)
        self.lin_l = Linear(in_channels, out_channels, bias=False)
        self.lin_r = Linear(in_channels, out_channels, bias=False)
        self.bias = Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.lin_l.reset_parameters()
        self.lin_r.reset_parameters()
        uniform(self.lin_l.in_channels, self.bias)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        transformed = self.lin_l(x)
        if can_fuse(self, x, edge_index):
            aggregated = neighbor_sum(transformed, edge_index)
            if self.aggr == "mean":
                aggregated = aggregated / degrees(edge_index, len(aggregated)).clamp(min=1).unsqueeze(1)
        else:
            aggregated = self.propagate(edge_index, x=transformed)
        out: Tensor = aggregated + self.bias + self.lin_r(x)
        return out


class TransformFirstGraphSAGE(GraphSAGE):
    """PyG's ``GraphSAGE`` with layers of :class:`TransformFirstSAGEConv`."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return TransformFirstSAGEConv(in_channels, out_channels, **kwargs)


@register_model(
    "graphsage",
    "node",
    summary="Mean of the neighbors, plus a root weight",
    paper="Hamilton et al. 2017, arXiv:1706.02216",
    search_space={"model.pooling": ("mean", "max")},
)
def build_graphsage(
    size: ModelSize,
    *,
    input_dropout: Probability = 0.0,
    pooling: Pooling = "mean",
    norm: Norm | None = None,
    jk: str | None = None,
) -> NodeNetwork:
    """Build PyG's ``GraphSAGE``, Algorithm 1 of Hamilton et al. without the L2 normalization of line 7."""
    encoder = encode_input(size)
    kwargs = {"dropout": size.dropout, "norm": norm, "jk": jk, "aggr": pooling}
    if pooling == "max":  # does not commute with a linear transformation
        gnn = GraphSAGE(*size.channels, **kwargs)
        return NodeNetwork(gnn, encoder, input_dropout=input_dropout, takes_sparse=False)
    gnn = TransformFirstGraphSAGE(*size.channels, **kwargs)
    return NodeNetwork(accept_sparse(gnn, size.in_channels), encoder, input_dropout=input_dropout)


@register_model("graphsage", "graph")
def build_graph_graphsage(size: ModelSize, *, pooling: Pooling = "mean", readout: str = "mean") -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``SAGEConv``."""
    return GraphNetwork(size, partial(SAGEConv, size.hidden_channels, size.hidden_channels, aggr=pooling), readout)
