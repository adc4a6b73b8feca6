"""GCN (Kipf and Welling, 2017): symmetrically normalized sum of the neighbors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from torch import Tensor
from torch_geometric.nn import GCNConv, MessagePassing
from torch_geometric.nn.models import GCN

from tgnn.models.data_shape import DataShape
from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, Norm, encode_input
from tgnn.models.propagation import PLAIN_PROPAGATE, can_propagate, propagate
from tgnn.models.registration import register_model
from tgnn.models.sparse_input import accept_sparse
from tgnn.nn.readout import Readout


class FusedGCNConv(GCNConv):
    """PyG's ``GCNConv``, computed by :func:`~tgnn.models.propagation.propagate` without a message per edge."""

    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if not can_propagate(self, x, edge_index, edge_weight):
            out: Tensor = super().forward(x, edge_index, edge_weight)
            return out
        out = propagate(self.lin(x), edge_index, edge_weight)
        return out if self.bias is None else out + self.bias


class FusedGCN(GCN):
    """PyG's ``GCN`` with layers of :class:`FusedGCNConv`."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return FusedGCNConv(in_channels, out_channels, **kwargs)


@register_model(
    "gcn",
    "node",
    summary="Symmetrically normalized sum of the neighbors",
    paper="Kipf and Welling 2017, arXiv:1609.02907",
    uses=("edge weights",),
)
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
    """Build PyG's ``GCN``, Eq. (2) of Kipf and Welling, which has no bias.

    It has 46,080 parameters on Cora with 32 hidden channels.
    """
    encoder, in_channels = encode_input(shape, hidden_channels)
    gnn = FusedGCN(
        in_channels, hidden_channels, num_layers, shape.outputs, dropout=dropout, norm=norm, jk=jk, bias=bias
    )
    return NodeNetwork(accept_sparse(gnn, in_channels), encoder, uses_weights=True, input_dropout=input_dropout)


@register_model("gcn", "graph", uses=("edge weights",))
def build_graph_gcn(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, readout: str = "mean"
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``GCNConv``, with edge weights if the data has them."""
    layers = [GCNConv(hidden_channels, hidden_channels) for _ in range(num_layers)]
    return GraphNetwork(
        shape, hidden_channels, layers, Readout(readout, hidden_channels), dropout, edge_inputs="weights"
    )
