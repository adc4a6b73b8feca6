"""No graph at all: what the features alone tell."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch_geometric.nn.models import MLP

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, accept_sparse, node_input
from tgnn.models.pooled import OnNodes, Pooled
from tgnn.models.readout import Readout


def build_mlp(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """PyG's ``MLP`` of each node's features."""
    encoder, width = node_input(shape, hidden_channels)
    widths = [width, *[hidden_channels] * (num_layers - 1), shape.outputs]
    mlp = accept_sparse(MLP(widths, dropout=dropout, norm=None), width)
    return NodeNetwork(OnNodes(mlp), encoder, input_dropout=input_dropout)


def build_graph_mlp(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, readout: str = "mean"
) -> Pooled:
    """Layers of each node alone, and a readout."""
    stack = [OnNodes(torch.nn.Linear(hidden_channels, hidden_channels)) for _ in range(num_layers)]
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout)
