"""GCN: a sum of neighbours, weighted by degrees."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch_geometric.nn import GCNConv

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, Norm, accept_sparse, node_input
from tgnn.models.pooled import Pooled
from tgnn.models.propagation import PropagatingGCN
from tgnn.models.readout import Readout


def build_gcn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    bias: bool = False,
    norm: Norm | None = None,
    jk: str | None = None,
) -> NodeNetwork:
    """PyG's ``GCN``, Eq. (2) of Kipf and Welling, which has no bias: 46,080 parameters on Cora at 32 hidden."""
    encoder, width = node_input(shape, hidden_channels)
    gnn = PropagatingGCN(
        width, hidden_channels, num_layers, shape.outputs, dropout=dropout, norm=norm, jk=jk, bias=bias
    )
    return NodeNetwork(accept_sparse(gnn, width), encoder, uses_weights=True, input_dropout=input_dropout)


def build_graph_gcn(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, readout: str = "mean"
) -> Pooled:
    """PyG's ``GCNConv`` in the common network, with the weights of edges where there are any."""
    stack = [GCNConv(hidden_channels, hidden_channels) for _ in range(num_layers)]
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout, edges="weights")
