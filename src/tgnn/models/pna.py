"""PNA: several poolings side by side, scaled by degrees."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, node_input
from tgnn.models.pna_conv import NodewisePNA, NodewisePNAConv
from tgnn.models.pooled import Pooled
from tgnn.models.readout import Readout
from tgnn.nn.linear import FeatureLinear


def _degrees(shape: DataShape) -> Tensor:
    """For the mean degree of the data to learn from; a trained model has it among its weights.

    Where no node has an edge, the mean is taken for 1: rows are divided by it.
    """
    counts = shape.degrees or (0,)
    return torch.tensor(counts if any(counts[1:]) else (0, 1))


def build_pna(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """PyG's ``PNA``, Eq. (8) of Corso et al., of features that are mapped to ``hidden_channels`` first: it makes twelve rows of
    each, which wide features make very wide.
    """
    encoder, width = node_input(shape, hidden_channels)
    gnn = NodewisePNA(hidden_channels, hidden_channels, num_layers, shape.outputs, dropout=dropout, deg=_degrees(shape))
    return NodeNetwork(gnn, encoder or FeatureLinear(width, hidden_channels, bias=True), input_dropout=input_dropout)


def build_graph_pna(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    towers: Annotated[int, Field(ge=1)] = 5,
    readout: str = "sum",
    readout_norm: bool = False,
    rank: Annotated[int, Field(ge=1)] = 32,
) -> Pooled:
    """PyG's ``PNAConv`` in the common network."""
    if hidden_channels % towers:
        raise ValueError(
            f"model.hidden_channels is {hidden_channels}, but must be a multiple of model.towers, {towers}"
        )
    edge_dim = None if shape.edge_features is None else hidden_channels
    settings = {"edge_dim": edge_dim, "towers": towers, "divide_input": True}
    stack = [NodewisePNAConv(hidden_channels, hidden_channels, _degrees(shape), **settings) for _ in range(num_layers)]
    read = Readout(readout, hidden_channels, rank)
    return Pooled(shape, hidden_channels, stack, read, dropout, readout_norm=readout_norm, edges="features")
