"""Deep residual models: DeeperGCN (Li et al., 2020) and GCNII (Chen et al., 2020)."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import DeepGCNLayer, GCN2Conv, GENConv

from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.registration import ModelSize, NumLayers, Probability, register_model
from tgnn.nn.feature_maps import FeatureDropout, FeatureLinear, make_encoder


class DeeperGCN(torch.nn.Module):
    """Layers of PyG's ``GENConv`` in the pre-activation residual blocks ``"res+"`` of Li et al.

    A block applies normalization, ReLU, dropout and the layer, and adds its input. The first layer has no block around
    it. The last block is followed by normalization, ReLU, dropout and a linear layer.

    Args:
        size: Sizes of the network. Edge features are used if the data has them.
        mlp_layers: Number of layers of the MLP in each ``GENConv``.
    """

    def __init__(self, size: ModelSize, mlp_layers: int) -> None:
        super().__init__()
        hidden_channels, edge_features = size.hidden_channels, size.shape.edge_features
        self.encoder = FeatureLinear(size.in_channels, hidden_channels, bias=True)
        self.edge_encoder = None if edge_features is None else make_encoder(edge_features, hidden_channels, "edge_attr")
        kwargs = {"aggr": "softmax", "t": 1.0, "learn_t": True, "num_layers": mlp_layers, "norm": "layer"}
        self.first, *others = (GENConv(hidden_channels, hidden_channels, **kwargs) for _ in range(size.num_layers))
        self.blocks = torch.nn.ModuleList(
            DeepGCNLayer(conv, torch.nn.LayerNorm(hidden_channels), torch.nn.ReLU(), block="res+", dropout=size.dropout)
            for conv in others
        )
        self.norm, self.dropout = torch.nn.LayerNorm(hidden_channels), FeatureDropout(size.dropout)
        self.last = torch.nn.Linear(hidden_channels, size.out_channels)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> Tensor:
        edge_embedding = None if self.edge_encoder is None else self.edge_encoder(edge_attr)
        x = self.first(self.encoder(x), edge_index, edge_embedding)
        for block in self.blocks:
            x = block(x, edge_index, edge_embedding)
        out: Tensor = self.last(self.dropout(self.norm(x).relu()))
        return out


@register_model(
    "deepergcn",
    "node",
    summary="Deep residual layers with softmax aggregation and a learned temperature",
    paper="Li et al. 2020, arXiv:2006.07739",
    uses=("edge features",),
    search_space={"model.num_layers": (3, 7, 14)},
)
def build_deepergcn(size: ModelSize, *, mlp_layers: NumLayers = 2, input_dropout: Probability = 0.0) -> NodeNetwork:
    """Build :class:`DeeperGCN`, with edge features if the data has them."""
    encoder = encode_input(size)
    return NodeNetwork(DeeperGCN(size, mlp_layers), encoder, uses_edges=True, input_dropout=input_dropout)


class GCN2(torch.nn.Module):
    """A linear layer, layers of PyG's ``GCN2Conv``, Eq. (5) of Chen et al., and a linear layer, all without bias.

    Args:
        size: Sizes of the network. The first linear layer is left out if it would not change the number of channels.
        kwargs: Arguments of ``GCN2Conv``: ``alpha``, ``theta`` and ``shared_weights``.
    """

    def __init__(self, size: ModelSize, **kwargs: Any) -> None:
        super().__init__()
        in_channels, hidden_channels = size.in_channels, size.hidden_channels
        self.first = None if in_channels == hidden_channels else FeatureLinear(in_channels, hidden_channels)
        self.convs = torch.nn.ModuleList(
            GCN2Conv(hidden_channels, layer=number + 1, **kwargs) for number in range(size.num_layers)
        )
        self.last = torch.nn.Linear(hidden_channels, size.out_channels, bias=False)
        self.dropout = FeatureDropout(size.dropout)

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
    size: ModelSize,
    *,
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1,
    theta: Annotated[float, Field(gt=0)] = 0.5,
    shared_weights: bool = True,
    input_dropout: Probability = 0.0,
) -> NodeNetwork:
    """Build :class:`GCN2`, with 48,128 parameters on Cora at 32 hidden channels and 4,117,009 at 1,433.

    ``alpha`` is the weight of the initial residual. ``theta`` is the strength of the identity mapping: layer ``l`` has
    ``beta = log(theta / l + 1)``. Without ``shared_weights``, this is GCNII*.
    """
    encoder = encode_input(size)
    gnn = GCN2(size, alpha=alpha, theta=theta, shared_weights=shared_weights)
    takes_sparse = gnn.first is not None
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout, takes_sparse=takes_sparse)
