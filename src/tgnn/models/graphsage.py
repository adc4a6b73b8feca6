"""GraphSAGE: the mean of the neighbours, beside the node itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.nn import MessagePassing, SAGEConv
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import uniform
from torch_geometric.nn.models import GraphSAGE

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, Norm, accept_sparse, node_input
from tgnn.models.pooled import Pooled
from tgnn.models.propagation import only_sums
from tgnn.models.readout import Readout
from tgnn.ops import degrees, neighbor_sum

Pooling = Literal["mean", "max", "sum"]


def build_graphsage(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    pooling: Pooling = "mean",
    norm: Norm | None = None,
    jk: str | None = None,
) -> NodeNetwork:
    """PyG's ``GraphSAGE``, Algorithm 1 of Hamilton et al. without sampling and without rows of length 1 (line 7)."""
    encoder, width = node_input(shape, hidden_channels)
    if pooling == "max":
        gnn = GraphSAGE(
            width, hidden_channels, num_layers, shape.outputs, dropout=dropout, norm=norm, jk=jk, aggr=pooling
        )
        return NodeNetwork(gnn, encoder, input_dropout=input_dropout, takes_sparse=False)
    gnn = _MapFirst(width, hidden_channels, num_layers, shape.outputs, dropout=dropout, norm=norm, jk=jk, aggr=pooling)
    return NodeNetwork(accept_sparse(gnn, width), encoder, input_dropout=input_dropout)


class _MapFirst(GraphSAGE):
    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return MapFirstConv(in_channels, out_channels, **kwargs)


class MapFirstConv(MessagePassing):
    """PyG's ``SAGEConv`` in another order: means and sums commute with a linear map, which makes wide rows short first.

    Args:
        in_channels: Size of each input row.
        out_channels: Size of each output row.
        aggr: ``"mean"`` or ``"sum"``.
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
        mapped = self.lin_l(x)
        if only_sums(self, x, edge_index):
            pooled = neighbor_sum(mapped, edge_index)
            if self.aggr == "mean":
                pooled = pooled / degrees(edge_index, len(pooled)).clamp(min=1).unsqueeze(1)
        else:
            pooled = self.propagate(edge_index, x=mapped)
        out: Tensor = pooled + self.bias + self.lin_r(x)
        return out


def build_graph_graphsage(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    pooling: Pooling = "mean",
    readout: str = "mean",
) -> Pooled:
    """PyG's ``SAGEConv`` in the common network."""
    stack = [SAGEConv(hidden_channels, hidden_channels, aggr=pooling) for _ in range(num_layers)]
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout)
