"""GAT (Veličković et al., 2018): attention-weighted sum of the neighbors."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GATConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.models.graph_network import GraphNetwork, check_multiple
from tgnn.models.node_network import NodeNetwork, Norm, accept_sparse, encode_input
from tgnn.models.propagation import PLAIN_PROPAGATE
from tgnn.models.registration import ModelSize, PositiveInt, Probability, register_model


class GAT(BasicGNN):
    """Layers of PyG's ``GATConv`` that concatenate their heads, Eq. (5), and a last layer that averages them, Eq. (6).

    PyG's own ``GAT`` does not average the heads and divides ``hidden_channels`` among them.

    Args:
        size: Sizes of the network, with the number of hidden channels of each head.
        heads: Number of attention heads of all layers but the last, which has ``out_heads``.
        out_heads: Number of attention heads of the last layer.
        kwargs: Other arguments of PyG's ``BasicGNN``, and ``separate``: whether source and target nodes have separate
            weights.
    """

    supports_edge_weight = False
    supports_edge_attr = False

    def __init__(self, size: ModelSize, heads: int, out_heads: int, **kwargs: Any) -> None:
        self.size, self.heads, self.out_heads = size, heads, out_heads
        in_channels, hidden_channels, num_layers, out_channels = size.channels
        kwargs |= {"act": "elu", "dropout": size.dropout}
        super().__init__(in_channels, hidden_channels * heads, num_layers, out_channels, **kwargs)

    def init_conv(self, in_channels: int, out_channels: int, separate: bool, **kwargs: Any) -> torch.nn.Module:
        conv = SeparateGATConv if separate else GATConv
        if len(self.convs) == self.num_layers - 1 and self.jk_mode is None:
            return conv(in_channels, self.size.out_channels, heads=self.out_heads, concat=False, **kwargs)
        return conv(in_channels, self.size.hidden_channels, heads=self.heads, **kwargs)


class SeparateGATConv(GATConv):
    """PyG's ``GATConv`` with separate weights for a node as the source and as the target of attention."""

    propagate = PLAIN_PROPAGATE

    def __init__(self, in_channels: int, *args: Any, **kwargs: Any) -> None:
        super().__init__((in_channels, in_channels), *args, **kwargs)

    def forward(self, x: Tensor, edge_index: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out: Tensor = super().forward((x, x), edge_index, *args, **kwargs)
        return out


@register_model(
    "gat",
    "node",
    summary="Attention-weighted sum of the neighbors",
    paper="Veličković et al. 2018, arXiv:1710.10903",
    search_space={"model.heads": (1, 4, 8), "model.attention_dropout": (0.0, 0.3, 0.6)},
)
def build_gat(
    size: ModelSize,
    *,
    heads: PositiveInt = 8,
    out_heads: PositiveInt | None = None,
    attention_dropout: Probability = 0.0,
    input_dropout: Probability = 0.0,
    separate: bool = False,
    bias: bool = False,
    norm: Norm | None = None,
    jk: str | None = None,
) -> NodeNetwork:
    """Build :class:`GAT`, where ``hidden_channels`` is the number of channels of each head.

    ``out_heads`` is the number of heads of the last layer, by default ``heads``. Veličković et al. use one on Cora and
    Citeseer and eight on Pubmed (Sect. 3.3).

    The 92,238 parameters on Cora with 32 hidden channels and one head, as in the efficiency table of Hua et al., need
    ``separate=True``: separate weights for source and target nodes. Their counts for 8 heads have 8 heads in the last
    layer as well.
    """
    encoder = encode_input(size)
    gnn = GAT(size, heads, out_heads or heads, norm=norm, jk=jk, separate=separate, bias=bias)
    for conv in gnn.convs:
        conv.dropout = attention_dropout
    return NodeNetwork(accept_sparse(gnn, size.in_channels), encoder, input_dropout=input_dropout)


@register_model("gat", "graph", uses=("edge features",))
def build_graph_gat(
    size: ModelSize, *, heads: PositiveInt = 8, readout: str = "mean", ffn: bool = False
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``GATConv``. ``hidden_channels`` is divided among the heads."""
    check_multiple(size, "heads", heads)
    channels = (size.hidden_channels, size.hidden_channels // heads)
    make_layer = partial(GATConv, *channels, heads=heads, edge_dim=size.edge_dim)
    return GraphNetwork(size, make_layer, readout, edge_inputs="features", ffn=ffn)
