"""One network, several poolings: the paper's study of classical poolings (appendix), at both levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import SimpleConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, node_input
from tgnn.models.pooled import Pooled
from tgnn.models.readout import Readout
from tgnn.nn import TGNNConv
from tgnn.nn.linear import FeatureDropout, FeatureLinear


class PoolConv(torch.nn.Module):
    r"""A linear map and a classical pooling over the closed neighbourhood:
    :math:`x'_v = \mathrm{pool}_{u \in S(v)} W^\top x_u`, with PyG's ``SimpleConv``.

    Args:
        in_channels: Size of each input row.
        out_channels: Size of each output row.
        pooling: ``"sum"``, ``"mean"`` or ``"max"``.
    """

    def __init__(self, in_channels: int, out_channels: int, pooling: str) -> None:
        super().__init__()
        self.lin, self.pool = FeatureLinear(in_channels, out_channels), SimpleConv(pooling, combine_root="self_loop")

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.pool(self.lin(x), edge_index)
        return out


def _layer(width: int, out: int, pooling: str, rank: int) -> torch.nn.Module:
    if pooling != "cp":
        return PoolConv(width, out, pooling)
    return TGNNConv(width, out, rank, low_order=None, act_high=None)


class _Stack(BasicGNN):
    """The same layers as PyG's ``GCN``, with a pooling to choose."""

    supports_edge_weight = False
    supports_edge_attr = False

    def __init__(self, *sizes: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(*sizes, dropout=dropout, **kwargs)
        self.dropout = FeatureDropout(dropout)

    def init_conv(self, in_channels: int, out_channels: int, pooling: str, rank: int) -> torch.nn.Module:
        return _layer(in_channels, out_channels, pooling, rank)


def classical(pooling: str) -> tuple[Callable[..., NodeNetwork], Callable[..., Pooled]]:
    """Builders of the network with ``sum``, ``mean`` or ``max``, for nodes and for graphs."""

    def node(
        shape: DataShape,
        hidden_channels: int,
        num_layers: int,
        dropout: float,
        *,
        input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    ) -> NodeNetwork:
        encoder, width = node_input(shape, hidden_channels)
        gnn = _Stack(width, hidden_channels, num_layers, shape.outputs, dropout=dropout, pooling=pooling, rank=0)
        return NodeNetwork(gnn, encoder, input_dropout=input_dropout)

    def graph(shape: DataShape, hidden_channels: int, num_layers: int, dropout: float) -> Pooled:
        stack = [_layer(hidden_channels, hidden_channels, pooling, 0) for _ in range(num_layers)]
        return Pooled(shape, hidden_channels, stack, Readout(pooling, hidden_channels), dropout)

    return node, graph


def build_cp(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    rank: Annotated[int, Field(ge=1)] = 32,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """The same network with the CP layer alone, Definition 1 of the paper."""
    encoder, width = node_input(shape, hidden_channels)
    gnn = _Stack(width, hidden_channels, num_layers, shape.outputs, dropout=dropout, pooling="cp", rank=rank)
    return NodeNetwork(gnn, encoder, input_dropout=input_dropout)


def build_graph_cp(
    shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, rank: Annotated[int, Field(ge=1)] = 32
) -> Pooled:
    """The same for graphs."""
    stack = [_layer(hidden_channels, hidden_channels, "cp", rank) for _ in range(num_layers)]
    return Pooled(shape, hidden_channels, stack, Readout("cp", hidden_channels, rank), dropout)
