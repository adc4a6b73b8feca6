"""GatedGCN: every edge has a gate for each entry of what comes through it."""

from __future__ import annotations

from torch_geometric.nn import ResGatedGraphConv

from tgnn.baselines.pooled import Pooled
from tgnn.baselines.readout import Readout
from tgnn.baselines.shape import Shape


def build_graph_gatedgcn(shape: Shape, hidden: int, layers: int, dropout: float, *, readout: str = "mean") -> Pooled:
    """PyG's ``ResGatedGraphConv`` in the common network, whose residuals are those of Bresson and Laurent.

    Features of edges go into gates and messages; in Dwivedi et al. they change from layer to layer, here they do not.
    """
    edge_dim = None if shape.edge_features is None else hidden
    stack = [ResGatedGraphConv(hidden, hidden, edge_dim=edge_dim) for _ in range(layers)]
    return Pooled(shape, hidden, stack, Readout(readout, hidden), dropout, edges="features")
