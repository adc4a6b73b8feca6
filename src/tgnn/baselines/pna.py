"""PNA: several poolings side by side, scaled by degrees."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from tgnn.baselines.network import NodeNetwork, node_input
from tgnn.baselines.pna_conv import NodewisePNA, NodewisePNAConv
from tgnn.baselines.pooled import Pooled
from tgnn.baselines.readout import Readout
from tgnn.baselines.shape import Shape
from tgnn.nn.linear import FeatureLinear


def _degrees(shape: Shape) -> Tensor:
    """For the mean degree of the data to learn from; a trained model has it among its weights.

    Where no node has an edge, the mean is taken for 1: rows are divided by it.
    """
    counts = shape.degrees or (0,)
    return torch.tensor(counts if any(counts[1:]) else (0, 1))


def build_pna(
    shape: Shape,
    hidden: int,
    layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """PyG's ``PNA``, Eq. (8) of Corso et al., of features that are mapped to ``hidden`` first: it makes twelve rows of
    each, which wide features make very wide.
    """
    encoder, width = node_input(shape, hidden)
    gnn = NodewisePNA(hidden, hidden, layers, shape.outputs, dropout=dropout, deg=_degrees(shape))
    return NodeNetwork(gnn, encoder or FeatureLinear(width, hidden, bias=True), input_dropout=input_dropout)


def build_graph_pna(
    shape: Shape,
    hidden: int,
    layers: int,
    dropout: float,
    *,
    towers: Annotated[int, Field(ge=1)] = 5,
    readout: str = "sum",
    readout_norm: bool = False,
    rank: Annotated[int, Field(ge=1)] = 32,
) -> Pooled:
    """PyG's ``PNAConv`` in the common network."""
    if hidden % towers:
        raise ValueError(f"model.hidden is {hidden}, but must be a multiple of model.towers, {towers}")
    edge_dim = None if shape.edge_features is None else hidden
    settings = {"edge_dim": edge_dim, "towers": towers, "divide_input": True}
    stack = [NodewisePNAConv(hidden, hidden, _degrees(shape), **settings) for _ in range(layers)]
    read = Readout(readout, hidden, rank)
    return Pooled(shape, hidden, stack, read, dropout, readout_norm=readout_norm, edges="features")
