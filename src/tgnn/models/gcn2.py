"""GCNII (Chen et al., 2020): deep GCN with initial residual and identity mapping."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import GCN2Conv

from tgnn.models.data_shape import DataShape
from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.registration import register_model
from tgnn.nn.linear import FeatureLinear


class GCN2(torch.nn.Module):
    """A linear layer, layers of PyG's ``GCN2Conv``, Eq. (5) of Chen et al., and a linear layer, all without bias.

    Args:
        in_channels: Number of input features. If it equals ``hidden_channels``, the first linear layer is left out.
        hidden_channels: Number of channels of the node embeddings.
        num_layers: Number of ``GCN2Conv`` layers.
        out_channels: Number of output channels.
        dropout: Dropout probability before each layer and before the output layer.
        alpha: Weight of the initial residual in each layer.
        theta: Strength of the identity mapping: layer ``l`` has ``beta = log(theta / l + 1)``.
        shared_weights: Whether the initial residual shares the weights of a layer. Without sharing, this is GCNII*.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        dropout: float,
        alpha: float,
        theta: float,
        shared_weights: bool,
    ) -> None:
        super().__init__()
        self.first = None if in_channels == hidden_channels else FeatureLinear(in_channels, hidden_channels)
        kwargs = {"alpha": alpha, "theta": theta, "shared_weights": shared_weights}
        self.convs = torch.nn.ModuleList(
            GCN2Conv(hidden_channels, layer=number + 1, **kwargs) for number in range(num_layers)
        )
        self.last = torch.nn.Linear(hidden_channels, out_channels, bias=False)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = x_0 = x if self.first is None else self.first(x).relu()
        for conv in self.convs:
            x = conv(self.dropout(x), x_0, edge_index, edge_weight).relu()
        out: Tensor = self.last(self.dropout(x))
        return out


@register_model(
    "gcn2",
    "node",
    summary="GCNII: deep GCN with initial residual and identity mapping",
    paper="Chen et al. 2020, arXiv:2007.02133",
    uses=("edge weights",),
    search_space={
        "model.num_layers": (4, 8, 16, 32),
        "model.alpha": (0.1, 0.2, 0.5),
        "model.theta": (0.5, 1.0, 1.5),
    },
)
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
    """Build :class:`GCN2`, with 48,128 parameters on Cora at 32 hidden channels and 4,117,009 at 1,433."""
    encoder, in_channels = encode_input(shape, hidden_channels)
    gnn = GCN2(in_channels, hidden_channels, num_layers, shape.outputs, dropout, alpha, theta, shared_weights)
    takes_sparse = gnn.first is not None
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout, takes_sparse=takes_sparse)
