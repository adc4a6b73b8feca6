"""GCNII: a deep GCN that keeps what it began with."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import GCN2Conv

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, node_input
from tgnn.nn.linear import FeatureLinear


class GCN2(torch.nn.Module):
    """A linear map, layers of PyG's ``GCN2Conv``, Eq. (5) of Chen et al., and a linear map; no biases.

    Args:
        width: Of the features; where it is ``hidden_channels``, there is no first map.
        hidden_channels: Width of rows.
        num_layers: Number of layers.
        outputs: Width of what comes out.
        dropout: Share of entries dropped before each layer and the last map.
        alpha: Share of the first rows in each layer.
        theta: How far layers are from the identity: ``log(theta / l + 1)`` in layer ``l``.
        shared: Whether the first rows share the weights of a layer; without, this is GCNII*.
    """

    def __init__(
        self,
        width: int,
        hidden_channels: int,
        num_layers: int,
        outputs: int,
        dropout: float,
        alpha: float,
        theta: float,
        shared: bool,
    ) -> None:
        super().__init__()
        self.first = None if width == hidden_channels else FeatureLinear(width, hidden_channels)
        settings = {"alpha": alpha, "theta": theta, "shared_weights": shared}
        self.convs = torch.nn.ModuleList(
            GCN2Conv(hidden_channels, layer=number + 1, **settings) for number in range(num_layers)
        )
        self.last = torch.nn.Linear(hidden_channels, outputs, bias=False)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = first = x if self.first is None else self.first(x).relu()
        for conv in self.convs:
            x = conv(self.dropout(x), first, edge_index, edge_weight).relu()
        out: Tensor = self.last(self.dropout(x))
        return out


def build_gcn2(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1,
    theta: Annotated[float, Field(gt=0)] = 0.5,
    shared_weights: bool = True,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """:class:`GCN2`: 48,128 parameters on Cora at 32 hidden, 4,117,009 at 1,433 hidden."""
    encoder, width = node_input(shape, hidden_channels)
    gnn = GCN2(width, hidden_channels, num_layers, shape.outputs, dropout, alpha, theta, shared_weights)
    sparse = gnn.first is not None
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout, takes_sparse=sparse)
