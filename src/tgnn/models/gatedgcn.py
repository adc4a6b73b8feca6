"""GatedGCN: every edge has a gate for each entry of what comes through it."""

from __future__ import annotations

from torch_geometric.nn import ResGatedGraphConv

from tgnn.models.data_shape import DataShape
from tgnn.models.pooled import Pooled
from tgnn.models.readout import Readout


def build_graph_gatedgcn(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, readout: str = "mean"
) -> Pooled:
    """PyG's ``ResGatedGraphConv`` in the common network, whose residuals are those of Bresson and Laurent.

    Features of edges go into gates and messages; in Dwivedi et al. they change from layer to layer, here they do not.
    """
    edge_dim = None if shape.edge_features is None else hidden_channels
    stack = [ResGatedGraphConv(hidden_channels, hidden_channels, edge_dim=edge_dim) for _ in range(num_layers)]
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout, edges="features")
