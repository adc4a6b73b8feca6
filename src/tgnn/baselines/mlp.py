"""No graph at all: what the features alone tell."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch_geometric.nn.models import MLP

from tgnn.baselines.network import NodeNetwork, accept_sparse, node_input
from tgnn.baselines.pooled import OnNodes, Pooled
from tgnn.baselines.readout import Readout
from tgnn.baselines.shape import Shape


def build_mlp(
    shape: Shape,
    hidden: int,
    layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """PyG's ``MLP`` of each node's features."""
    encoder, width = node_input(shape, hidden)
    widths = [width, *[hidden] * (layers - 1), shape.outputs]
    mlp = accept_sparse(MLP(widths, dropout=dropout, norm=None), width)
    return NodeNetwork(OnNodes(mlp), encoder, input_dropout=input_dropout)


def build_graph_mlp(shape: Shape, hidden: int, layers: int, dropout: float, *, readout: str = "mean") -> Pooled:
    """Layers of each node alone, and a readout."""
    stack = [OnNodes(torch.nn.Linear(hidden, hidden)) for _ in range(layers)]
    return Pooled(shape, hidden, stack, Readout(readout, hidden), dropout)
