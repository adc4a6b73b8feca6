"""MLP of the node features, a baseline without the graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.models import MLP

from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, accept_sparse, encode_input
from tgnn.models.registration import DataShape, Probability, register_model


class NodewiseLayer(torch.nn.Module):
    """A layer that applies a module to each node on its own and ignores the edges."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.module(x)
        return out


@register_model("mlp", "node", summary="MLP of the node features, without the graph", paper="Rosenblatt 1958")
def build_mlp(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, input_dropout: Probability = 0.0
) -> NodeNetwork:
    """Build PyG's ``MLP`` of each node's features."""
    encoder, in_channels = encode_input(shape, hidden_channels)
    channels = [in_channels, *[hidden_channels] * (num_layers - 1), shape.outputs]
    mlp = accept_sparse(MLP(channels, dropout=dropout, norm=None), in_channels)
    return NodeNetwork(NodewiseLayer(mlp), encoder, input_dropout=input_dropout)


@register_model("mlp", "graph")
def build_graph_mlp(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, readout: str = "mean", ffn: bool = False
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of linear layers."""
    layers = [NodewiseLayer(torch.nn.Linear(hidden_channels, hidden_channels)) for _ in range(num_layers)]
    return GraphNetwork(shape, hidden_channels, layers, readout, dropout, ffn=ffn)
