"""GatedGCN (Bresson and Laurent, 2017): residual gated graph convolution."""

from __future__ import annotations

from torch_geometric.nn import ResGatedGraphConv

from tgnn.models.data_shape import DataShape
from tgnn.models.graph_network import GraphNetwork
from tgnn.models.registration import register_model
from tgnn.nn.readout import Readout


@register_model(
    "gatedgcn",
    "graph",
    summary="Residual gated graph convolution",
    paper="Bresson and Laurent 2017, arXiv:1711.07553",
    uses=("edge features",),
)
def build_graph_gatedgcn(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, readout: str = "mean"
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``ResGatedGraphConv``. Its residual connections are those of the paper.

    Edge features enter the gates and the messages. They are not updated from layer to layer, unlike in Dwivedi et al.
    """
    edge_dim = None if shape.edge_features is None else hidden_channels
    layers = [ResGatedGraphConv(hidden_channels, hidden_channels, edge_dim=edge_dim) for _ in range(num_layers)]
    return GraphNetwork(
        shape, hidden_channels, layers, Readout(readout, hidden_channels), dropout, edge_inputs="features"
    )
