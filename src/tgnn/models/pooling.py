"""Models ``sum``, ``mean``, ``max`` and ``cp``: the same network with different poolings of the closed neighborhood.

They compare the CP layer with classical poolings, as in the appendix of Hua et al. (2022).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import SimpleConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.models.graph_network import GraphNetwork
from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.registration import ModelSize, PositiveInt, Probability, register_model
from tgnn.models.search_ranges import CP
from tgnn.nn import TGNNConv
from tgnn.nn.feature_maps import FeatureDropout, FeatureLinear

_PAPER = "Hua et al. 2022, arXiv:2205.11691"


class PoolConv(torch.nn.Module):
    r"""A linear transformation followed by a classical pooling of the closed neighborhood, with PyG's ``SimpleConv``:
    :math:`x'_v = \mathrm{pool}_{u \in S(v)} W^\top x_u`.
    """

    def __init__(self, in_channels: int, out_channels: int, pooling: str) -> None:
        super().__init__()
        self.lin, self.pool = FeatureLinear(in_channels, out_channels), SimpleConv(pooling, combine_root="self_loop")

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.pool(self.lin(x), edge_index)
        return out


def _make_layer(in_channels: int, out_channels: int, pooling: str, rank: int) -> torch.nn.Module:
    if pooling != "cp":
        return PoolConv(in_channels, out_channels, pooling)
    return TGNNConv(in_channels, out_channels, rank, low_order=None)


class PoolGNN(BasicGNN):
    """A PyG ``BasicGNN`` of layers with a given pooling. ``kwargs`` are ``pooling`` and ``rank``."""

    supports_edge_weight = False
    supports_edge_attr = False

    def __init__(self, *sizes: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(*sizes, dropout=dropout, **kwargs)
        self.dropout = FeatureDropout(dropout)

    def init_conv(self, in_channels: int, out_channels: int, pooling: str, rank: int) -> torch.nn.Module:
        return _make_layer(in_channels, out_channels, pooling, rank)


def _register_classical(pooling: str) -> None:
    """Register the model with ``sum``, ``mean`` or ``max`` pooling in its layers and its readout."""
    summary = f"{pooling.capitalize()} pooling of neighborhoods and graphs"

    @register_model(pooling, "node", summary=summary, paper=_PAPER)
    def build_node(size: ModelSize, *, input_dropout: Probability = 0.0) -> NodeNetwork:
        encoder = encode_input(size)
        gnn = PoolGNN(*size.channels, dropout=size.dropout, pooling=pooling, rank=0)
        return NodeNetwork(gnn, encoder, input_dropout=input_dropout)

    @register_model(pooling, "graph")
    def build_graph(size: ModelSize) -> GraphNetwork:
        return GraphNetwork(size, partial(_make_layer, size.hidden_channels, size.hidden_channels, pooling, 0), pooling)


for _pooling in ("sum", "mean", "max"):
    _register_classical(_pooling)


@register_model(
    "cp", "node", summary="CP pooling of neighborhoods and graphs, without a sum", paper=_PAPER, search_space=CP
)
def build_cp(size: ModelSize, *, rank: PositiveInt = 32, input_dropout: Probability = 0.0) -> NodeNetwork:
    """Build the network with CP layers only, Definition 1 of Hua et al."""
    encoder = encode_input(size)
    gnn = PoolGNN(*size.channels, dropout=size.dropout, pooling="cp", rank=rank)
    return NodeNetwork(gnn, encoder, input_dropout=input_dropout)


@register_model("cp", "graph")
def build_graph_cp(size: ModelSize, *, rank: PositiveInt = 32) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of CP layers and a CP readout."""
    return GraphNetwork(size, partial(_make_layer, size.hidden_channels, size.hidden_channels, "cp", rank), "cp", rank)
