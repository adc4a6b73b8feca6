"""GIN (Xu et al., 2019): MLP of the sum of the neighbors."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.nn import GINConv, GINEConv, MessagePassing, SumAggregation
from torch_geometric.nn.models import GIN, MLP

from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.propagation import PLAIN_PROPAGATE, can_fuse
from tgnn.models.registration import ModelSize, PositiveInt, Probability, register_model
from tgnn.ops import neighbor_sum


class FusedGINConv(GINConv):
    """PyG's ``GINConv``, computed by :func:`~tgnn.ops.neighbor_sum` without a message per edge."""

    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        plain = isinstance(x, Tensor) and not args and not kwargs and isinstance(self.aggr_module, SumAggregation)
        if not plain or not can_fuse(self, x, edge_index):
            out: Tensor = super().forward(x, edge_index, *args, **kwargs)
            return out
        out = self.nn(neighbor_sum(x, edge_index) + (1 + self.eps) * x)
        return out


class FusedGIN(GIN):
    """PyG's ``GIN`` with layers of :class:`FusedGINConv`."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return FusedGINConv(super().init_conv(in_channels, out_channels, **kwargs).nn, **kwargs)


@register_model(
    "gin",
    "node",
    summary="MLP of the sum of the neighbors, as expressive as the Weisfeiler-Leman test",
    paper="Xu et al. 2019, arXiv:1810.00826",
)
def build_gin(size: ModelSize, *, input_dropout: Probability = 0.0, train_eps: bool = True) -> NodeNetwork:
    """Build PyG's ``GIN``, Eq. (4.1) of Xu et al."""
    encoder = encode_input(size)
    gnn = FusedGIN(*size.channels, dropout=size.dropout, train_eps=train_eps, norm="batch_norm")
    return NodeNetwork(gnn, encoder, input_dropout=input_dropout, takes_sparse=False)


@register_model("gin", "graph", uses=("edge features",))
def build_graph_gin(
    size: ModelSize,
    *,
    train_eps: bool = True,
    readout: str = "sum",
    jk: Literal["cat"] | None = "cat",
    readout_norm: bool = False,
    rank: PositiveInt = 32,
    ffn: bool = False,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``GINConv``, or of ``GINEConv`` if edges have features.

    By default the readouts of all layers are concatenated, Eq. (4.2). ``rank`` is that of a ``cp`` readout.
    """
    make_layer = partial(make_gin_layer, size, train_eps)
    options: dict[str, Any] = {"jk": jk, "readout_norm": readout_norm, "edge_inputs": "features", "ffn": ffn}
    return GraphNetwork(size, make_layer, readout, rank, **options)


def make_gin_layer(size: ModelSize, train_eps: bool) -> torch.nn.Module:
    """Make a layer of a :class:`GraphNetwork`: ``GINConv``, or ``GINEConv`` if edges have features."""
    mlp = MLP([size.hidden_channels] * 3, norm="batch_norm")
    conv: type[torch.nn.Module] = FusedGINConv if size.edge_dim is None else GINEConv
    return conv(mlp, train_eps=train_eps)
