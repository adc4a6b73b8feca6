"""GIN: a sum of neighbours, and an MLP of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import GINConv, GINEConv, MessagePassing, SumAggregation
from torch_geometric.nn.models import GIN, MLP

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, node_input
from tgnn.models.pooled import Pooled
from tgnn.models.propagation import PLAIN_PROPAGATE, only_sums
from tgnn.models.readout import Readout
from tgnn.ops import neighbor_sum


class SummingConv(GINConv):
    """PyG's ``GINConv``, whose sum has no row for each edge."""

    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        plain = isinstance(x, Tensor) and not args and not kwargs and isinstance(self.aggr_module, SumAggregation)
        if not plain or not only_sums(self, x, edge_index):
            out: Tensor = super().forward(x, edge_index, *args, **kwargs)
            return out
        out = self.nn(neighbor_sum(x, edge_index) + (1 + self.eps) * x)
        return out


class SummingGIN(GIN):
    """PyG's ``GIN`` of such layers."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return SummingConv(super().init_conv(in_channels, out_channels, **kwargs).nn, **kwargs)


def build_gin(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    train_eps: bool = True,
) -> NodeNetwork:
    """PyG's ``GIN``, Eq. (4.1) of Xu et al."""
    encoder, width = node_input(shape, hidden_channels)
    gnn = SummingGIN(
        width, hidden_channels, num_layers, shape.outputs, dropout=dropout, train_eps=train_eps, norm="batch_norm"
    )
    return NodeNetwork(gnn, encoder, input_dropout=input_dropout, takes_sparse=False)


def build_graph_gin(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    train_eps: bool = True,
    readout: str = "sum",
    jk: Literal["cat"] | None = "cat",
    readout_norm: bool = False,
    rank: Annotated[int, Field(ge=1)] = 32,
) -> Pooled:
    """PyG's ``GINConv`` in the common network, or ``GINEConv`` where edges have features; the readouts of all layers
    side by side, Eq. (4.2).
    """
    stack = [gin_layer(shape, hidden_channels, train_eps) for _ in range(num_layers)]
    read = Readout(readout, hidden_channels, rank)
    return Pooled(shape, hidden_channels, stack, read, dropout, jk=jk, readout_norm=readout_norm, edges="features")


def gin_layer(shape: DataShape, hidden_channels: int, train_eps: bool) -> torch.nn.Module:
    """One layer of the common network, which uses the features of edges where there are any."""
    mlp = MLP([hidden_channels, hidden_channels, hidden_channels], norm="batch_norm")
    kind: type[torch.nn.Module] = SummingConv if shape.edge_features is None else GINEConv
    return kind(mlp, train_eps=train_eps)
