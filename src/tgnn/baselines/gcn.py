"""GCN: a sum of neighbours, weighted by degrees."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch_geometric.nn import GCNConv

from tgnn.baselines.network import NodeNetwork, Norm, accept_sparse, node_input
from tgnn.baselines.pooled import Pooled
from tgnn.baselines.propagation import PropagatingGCN
from tgnn.baselines.readout import Readout
from tgnn.baselines.shape import Shape


def build_gcn(
    shape: Shape,
    hidden: int,
    layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    bias: bool = False,
    norm: Norm | None = None,
    jk: str | None = None,
) -> NodeNetwork:
    """PyG's ``GCN``, Eq. (2) of Kipf and Welling, which has no bias: 46,080 parameters on Cora at 32 hidden."""
    encoder, width = node_input(shape, hidden)
    gnn = PropagatingGCN(width, hidden, layers, shape.outputs, dropout=dropout, norm=norm, jk=jk, bias=bias)
    return NodeNetwork(accept_sparse(gnn, width), encoder, uses_weights=True, input_dropout=input_dropout)


def build_graph_gcn(shape: Shape, hidden: int, layers: int, dropout: float, *, readout: str = "mean") -> Pooled:
    """PyG's ``GCNConv`` in the common network, with the weights of edges where there are any."""
    stack = [GCNConv(hidden, hidden) for _ in range(layers)]
    return Pooled(shape, hidden, stack, Readout(readout, hidden), dropout, edges="weights")
