"""DeeperGCN: a softmax over neighbours whose temperature is learned, in many layers."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import DeepGCNLayer, GENConv

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, node_input
from tgnn.nn.linear import FeatureLinear
from tgnn.nn.models.encoder import make_encoder


class DeeperGCN(torch.nn.Module):
    """Layers of PyG's ``GENConv`` in ``"res+"`` blocks of Li et al.: normalization, ReLU, dropout and the layer, added
    to its input. Before the first layer there is nothing of this; the last is followed by all but a layer.

    Args:
        width: Of the features.
        hidden_channels: Width of rows.
        num_layers: Number of layers.
        outputs: Width of what comes out.
        dropout: Share of entries dropped before each layer but the first, and before the last map.
        edge_features: Width of the features of edges, or the categories in each column; ``None``: none.
        mlp_layers: Of the MLP in each layer.
    """

    def __init__(
        self,
        width: int,
        hidden_channels: int,
        num_layers: int,
        outputs: int,
        dropout: float,
        edge_features: int | tuple[int, ...] | None,
        mlp_layers: int,
    ) -> None:
        super().__init__()
        self.encoder = FeatureLinear(width, hidden_channels, bias=True)
        self.edge_encoder = None if edge_features is None else make_encoder(edge_features, hidden_channels, "edge_attr")
        settings = {"aggr": "softmax", "t": 1.0, "learn_t": True, "num_layers": mlp_layers, "norm": "layer"}
        self.first, *others = (GENConv(hidden_channels, hidden_channels, **settings) for _ in range(num_layers))
        self.blocks = torch.nn.ModuleList(
            DeepGCNLayer(conv, torch.nn.LayerNorm(hidden_channels), torch.nn.ReLU(), block="res+", dropout=dropout)
            for conv in others
        )
        self.norm, self.dropout = torch.nn.LayerNorm(hidden_channels), torch.nn.Dropout(dropout)
        self.last = torch.nn.Linear(hidden_channels, outputs)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> Tensor:
        edges = None if self.edge_encoder is None else self.edge_encoder(edge_attr)
        x = self.first(self.encoder(x), edge_index, edges)
        for block in self.blocks:
            x = block(x, edge_index, edges)
        out: Tensor = self.last(self.dropout(self.norm(x).relu()))
        return out


def build_deepergcn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    mlp_layers: Annotated[int, Field(ge=1)] = 2,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """:class:`DeeperGCN`, with the features of edges where there are any."""
    encoder, width = node_input(shape, hidden_channels)
    gnn = DeeperGCN(width, hidden_channels, num_layers, shape.outputs, dropout, shape.edge_features, mlp_layers)
    return NodeNetwork(gnn, encoder, uses_edges=True, input_dropout=input_dropout)
