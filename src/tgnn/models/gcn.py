"""GCN (Kipf and Welling, 2017), a symmetrically normalized sum, and GatedGCN (Bresson and Laurent, 2017)."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor
from torch_geometric.nn import GCNConv, MessagePassing, ResGatedGraphConv
from torch_geometric.nn.models import GCN

from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, Norm, accept_sparse, encode_input
from tgnn.models.propagation import PLAIN_PROPAGATE, can_propagate, propagate
from tgnn.models.registration import ModelSize, Probability, register_model
from tgnn.models.tgnn import GraphTGNNNetwork, make_graph_tgnn


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
    size: ModelSize,
    *,
    input_dropout: Probability = 0.0,
    bias: bool = False,
    norm: Norm | None = None,
    jk: str | None = None,
) -> NodeNetwork:
    """Build PyG's ``GCN``, Eq. (2) of Kipf and Welling, which has no bias.

    It has 46,080 parameters on Cora with 32 hidden channels.
    """
    encoder = encode_input(size)
    gnn = FusedGCN(*size.channels, dropout=size.dropout, norm=norm, jk=jk, bias=bias)
    return NodeNetwork(accept_sparse(gnn, size.in_channels), encoder, uses_weights=True, input_dropout=input_dropout)


@register_model("gcn", "graph", uses=("edge weights",))
def build_graph_gcn(size: ModelSize, *, readout: str = "mean", ffn: bool = False) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``GCNConv``, with edge weights if the data has them."""
    make_layer = partial(GCNConv, size.hidden_channels, size.hidden_channels)
    return GraphNetwork(size, make_layer, readout, edge_inputs="weights", ffn=ffn)


@register_model(
    "gatedgcn",
    "graph",
    summary="Residual gated graph convolution",
    paper="Bresson and Laurent 2017, arXiv:1711.07553",
    uses=("edge features",),
)
def build_graph_gatedgcn(
    size: ModelSize, *, readout: str = "mean", update_edges: bool = False, ffn: bool = False
) -> GraphNetwork | GraphTGNNNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``ResGatedGraphConv``. Its residual connections are those of the paper.

    Edge features enter the gates and the messages. With ``update_edges=True``, the network is that of Dwivedi et al.
    (2023): a gated mean of the neighbors, whose edge states enter the gates and are updated from layer to layer. It is
    a :class:`tgnn.GraphTGNN` without products.
    """
    if update_edges:
        return make_graph_tgnn(
            size,
            rank=0,
            readout=readout,
            head_layers=3,
            low_order="gated_mean",
            add_self_loops=False,
            root_weight=True,
            residual=True,
            ffn=ffn,
            update_edges=True,
        )
    make_layer = partial(ResGatedGraphConv, size.hidden_channels, size.hidden_channels, edge_dim=size.edge_dim)
    return GraphNetwork(size, make_layer, readout, edge_inputs="features", ffn=ffn)
