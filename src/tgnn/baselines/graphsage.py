"""GraphSAGE: the mean of the neighbours, beside the node itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from torch_geometric.nn import SAGEConv
from torch_geometric.nn.models import GraphSAGE

from tgnn.baselines.network import NodeNetwork, node_input
from tgnn.baselines.pooled import Pooled
from tgnn.baselines.readout import Readout
from tgnn.baselines.shape import Shape

Pooling = Literal["mean", "max", "sum"]


def build_graphsage(
    shape: Shape,
    hidden: int,
    layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    pooling: Pooling = "mean",
) -> NodeNetwork:
    """PyG's ``GraphSAGE``, Algorithm 1 of Hamilton et al. without sampling and without rows of length 1 (line 7)."""
    encoder, width = node_input(shape, hidden)
    gnn = GraphSAGE(width, hidden, layers, shape.outputs, dropout=dropout, aggr=pooling)
    return NodeNetwork(gnn, encoder, input_dropout=input_dropout, takes_sparse=False)


def build_graph_graphsage(
    shape: Shape, hidden: int, layers: int, dropout: float, *, pooling: Pooling = "mean", readout: str = "mean"
) -> Pooled:
    """PyG's ``SAGEConv`` in the common network."""
    stack = [SAGEConv(hidden, hidden, aggr=pooling) for _ in range(layers)]
    return Pooled(shape, hidden, stack, Readout(readout, hidden), dropout)
