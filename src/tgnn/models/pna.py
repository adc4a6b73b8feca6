"""PNA (Corso et al., 2020): several aggregations with degree scalers."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from tgnn.models.data_shape import DataShape
from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.pna_conv import NodewisePNA, NodewisePNAConv
from tgnn.models.registration import register_model
from tgnn.nn.linear import FeatureLinear
from tgnn.nn.readout import Readout


@register_model(
    "pna",
    "node",
    summary="Mean, min, max and std of the neighbors with degree scalers",
    paper="Corso et al. 2020, arXiv:2004.05718",
)
def build_pna(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """Build PyG's ``PNA``, Eq. (8) of Corso et al., after a linear layer.

    PNA concatenates twelve aggregations, which would be very wide if the input features were aggregated.
    """
    encoder, in_channels = encode_input(shape, hidden_channels)
    deg = _degree_histogram(shape)
    gnn = NodewisePNA(hidden_channels, hidden_channels, num_layers, shape.outputs, dropout=dropout, deg=deg)
    encoder_or_linear = encoder or FeatureLinear(in_channels, hidden_channels, bias=True)
    return NodeNetwork(gnn, encoder_or_linear, input_dropout=input_dropout)


@register_model("pna", "graph", uses=("edge features",))
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
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``PNAConv``. ``rank`` is that of a ``cp`` readout."""
    if hidden_channels % towers:
        raise ValueError(
            f"model.hidden_channels is {hidden_channels}, but must be a multiple of model.towers, {towers}."
        )
    edge_dim = None if shape.edge_features is None else hidden_channels
    kwargs = {"edge_dim": edge_dim, "towers": towers, "divide_input": True}
    deg = _degree_histogram(shape)
    layers = [NodewisePNAConv(hidden_channels, hidden_channels, deg, **kwargs) for _ in range(num_layers)]
    return GraphNetwork(
        shape,
        hidden_channels,
        layers,
        Readout(readout, hidden_channels, rank),
        dropout,
        readout_norm=readout_norm,
        edge_inputs="features",
    )


def _degree_histogram(shape: DataShape) -> Tensor:
    """Return the degree histogram of the training data. A trained model stores the mean degree with its weights.

    The mean degree is a divisor. If no node has an edge, the histogram has a mean of 1.
    """
    counts = shape.degrees or (0,)
    return torch.tensor(counts if any(counts[1:]) else (0, 1))
