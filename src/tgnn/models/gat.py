"""GAT: neighbours weighted by attention."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import GATConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, Norm, accept_sparse, node_input
from tgnn.models.pooled import Pooled
from tgnn.models.propagation import PLAIN_PROPAGATE
from tgnn.models.readout import Readout


class GAT(BasicGNN):
    """Layers of PyG's ``GATConv``: heads side by side, and their mean in the last layer, Eq. (5) and (6) of
    Veličković et al. (PyG's own ``GAT`` has no mean, and divides the width among the heads.)
    """

    supports_edge_weight = False
    supports_edge_attr = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        outputs: int,
        heads: int,
        out_heads: int,
        **kwargs: Any,
    ) -> None:
        self.heads, self.out_heads = heads, out_heads
        self.hidden, self.outputs = hidden_channels, outputs
        super().__init__(in_channels, hidden_channels * heads, num_layers, outputs, act="elu", **kwargs)

    def init_conv(self, in_channels: int, out_channels: int, separate: bool, **kwargs: Any) -> torch.nn.Module:
        conv = _Separate if separate else GATConv
        if len(self.convs) == self.num_layers - 1 and self.jk_mode is None:
            return conv(in_channels, self.outputs, heads=self.out_heads, concat=False, **kwargs)
        return conv(in_channels, self.hidden, heads=self.heads, **kwargs)


class _Separate(GATConv):
    """With weights of their own for a node as the source and as the target of attention."""

    propagate = PLAIN_PROPAGATE

    def __init__(self, in_channels: int, *args: Any, **kwargs: Any) -> None:
        super().__init__((in_channels, in_channels), *args, **kwargs)

    def forward(self, x: Tensor, edge_index: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out: Tensor = super().forward((x, x), edge_index, *args, **kwargs)
        return out


def build_gat(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    heads: Annotated[int, Field(ge=1)] = 8,
    out_heads: Annotated[int, Field(ge=1)] | None = None,
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    separate: bool = False,
    bias: bool = False,
    norm: Norm | None = None,
    jk: str | None = None,
) -> NodeNetwork:
    """PyG's ``GATConv``; ``hidden_channels`` is the width of each head. ``out_heads`` are those of the last layer, by default as
    many as ``heads``; Veličković et al. have one on Cora and Citeseer, eight on Pubmed (Sect. 3.3).

    92,238 parameters on Cora at 32 hidden and one head, as in the paper's efficiency table, need ``separate=True``:
    weights of their own for source and target. Its counts for 8 heads have 8 in the last layer, too.
    """
    encoder, width = node_input(shape, hidden_channels)
    settings = {"dropout": dropout, "norm": norm, "jk": jk, "separate": separate, "bias": bias}
    gnn = GAT(width, hidden_channels, num_layers, shape.outputs, heads, out_heads or heads, **settings)
    for conv in gnn.convs:
        conv.dropout = attention_dropout
    return NodeNetwork(accept_sparse(gnn, width), encoder, input_dropout=input_dropout)


def build_graph_gat(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    heads: Annotated[int, Field(ge=1)] = 8,
    readout: str = "mean",
) -> Pooled:
    """PyG's ``GATConv`` in the common network; ``hidden_channels`` is divided among the heads."""
    if hidden_channels % heads:
        raise ValueError(f"model.hidden_channels is {hidden_channels}, but must be a multiple of model.heads, {heads}")
    edge_dim = None if shape.edge_features is None else hidden_channels
    stack = [
        GATConv(hidden_channels, hidden_channels // heads, heads=heads, edge_dim=edge_dim) for _ in range(num_layers)
    ]
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout, edges="features")
