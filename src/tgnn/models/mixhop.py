"""MixHop: powers of the adjacency matrix side by side in every layer."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import MixHopConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.norm import BatchNorm

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, accept_sparse, node_input
from tgnn.models.propagation import PLAIN_PROPAGATE, propagate, propagates

_POWERS = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class MapFirst(MixHopConv):
    r"""PyG's ``MixHopConv`` in another order: :math:`\hat{A}^p (X W_p)`, not :math:`(\hat{A}^p X) W_p`. The outputs are
    the same; mapped rows are narrow, and features may be sparse.
    """

    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        plain = propagates(self, x, edge_index, edge_weight)
        if not plain:
            edge_index, edge_weight = gcn_norm(
                edge_index, edge_weight, x.size(0), False, self.add_self_loops, self.flow
            )
        rows: list[Tensor] = []
        for power in range(max(self.powers), -1, -1):  # all that have steps left take the next together
            if power in self.powers:
                rows.insert(0, self.lins[power](x))
            if power > 0:
                wide = torch.cat(rows, dim=-1)
                if plain:
                    rows = [propagate(wide, edge_index, edge_weight)]
                else:
                    rows = [self.propagate(edge_index, x=wide, edge_weight=edge_weight)]
        out = torch.cat(rows, dim=-1)
        return out if self.bias is None else out + self.bias


class MixHop(torch.nn.Module):
    r"""Layers of Abu-El-Haija et al., :math:`H' = \Vert_{p \in P} \sigma(\hat{A}^p H W_p)`, and their output layer: the
    last layer says something for each power, and a softmax weighs the powers.

    Args:
        width: Of the features.
        hidden_channels: Width of rows for each power.
        num_layers: Number of layers.
        outputs: Width of what comes out.
        powers: :math:`P`, rising.
        dropout: Share of entries dropped before each layer but the first.
    """

    def __init__(
        self, width: int, hidden_channels: int, num_layers: int, outputs: int, powers: tuple[int, ...], dropout: float
    ) -> None:
        super().__init__()
        wide = hidden_channels * len(powers)
        widths = [width, *[wide] * (num_layers - 1)]
        sizes = [*[hidden_channels] * (num_layers - 1), outputs]
        self.convs = torch.nn.ModuleList(MapFirst(i, o, list(powers), bias=False) for i, o in zip(widths, sizes))
        self.norms = torch.nn.ModuleList(BatchNorm(wide) for _ in range(num_layers - 1))
        self.dropout = torch.nn.Dropout(dropout)
        self.weights = torch.nn.Parameter(torch.zeros(len(powers)))
        self.bias = torch.nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        *inner, last = self.convs
        for conv, norm in zip(inner, self.norms):
            x = self.dropout(norm(conv(x, edge_index, edge_weight)).relu())
        said = last(x, edge_index, edge_weight).view(x.size(0), len(self.weights), -1)
        return torch.einsum("npc,p->nc", said, self.weights.softmax(0)) + self.bias


def build_mixhop(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    powers: _POWERS = (0, 1, 2),
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """PyG's ``MixHopConv``; ``hidden_channels`` is the width for each power. Rows are normalized over all nodes between layers,
    as in the authors' code.
    """
    encoder, width = node_input(shape, hidden_channels)
    gnn = MixHop(width, hidden_channels, num_layers, shape.outputs, tuple(sorted(set(powers))), dropout)
    return NodeNetwork(accept_sparse(gnn, width), encoder, uses_weights=True, input_dropout=input_dropout)
