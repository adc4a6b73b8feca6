"""MLP of the node features, a baseline without the graph."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, encode_input, make_mlp
from tgnn.models.registration import ModelSize, Probability, register_model


class NodewiseLayer(torch.nn.Module):
    """A layer that applies a module to each node on its own and ignores the edges."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.module(x)
        return out


@register_model("mlp", "node", summary="MLP of the node features, without the graph", paper="Rosenblatt 1958")
def build_mlp(size: ModelSize, *, input_dropout: Probability = 0.0) -> NodeNetwork:
    """Build PyG's ``MLP`` of each node's features."""
    encoder = encode_input(size)
    return NodeNetwork(NodewiseLayer(make_mlp(size)), encoder, input_dropout=input_dropout)


@register_model("mlp", "graph")
def build_graph_mlp(size: ModelSize, *, readout: str = "mean", ffn: bool = False) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of linear layers."""

    def make_layer() -> torch.nn.Module:
        return NodewiseLayer(torch.nn.Linear(size.hidden_channels, size.hidden_channels))

    return GraphNetwork(size, make_layer, readout, ffn=ffn)
