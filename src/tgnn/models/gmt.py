"""GMT: nodes are pooled by attention, into a few that attend to each other, and then into one."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import GraphMultisetTransformer

from tgnn.models.data_shape import DataShape
from tgnn.models.pooled import Pooled


class MultisetReadout(torch.nn.Module):
    """PyG's ``GraphMultisetTransformer``. Nodes of a graph stand side by side in ``batch``, as PyG's batches have them.

    Args:
        width: Of a row.
        seeds: How many rows a graph is pooled into first.
        heads: Of attention.
        norm: Whether rows are normalized after attention, each alone.
    """

    def __init__(self, width: int, seeds: int, heads: int, norm: bool) -> None:
        super().__init__()
        self.pool, self.width = GraphMultisetTransformer(width, seeds, heads=heads, layer_norm=norm), width

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        out: Tensor = self.pool(x, batch, dim_size=size)
        return out


def build_graph_gmt(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    seeds: Annotated[int, Field(ge=1)] = 8,
    heads: Annotated[int, Field(ge=1)] = 4,
    norm: bool = False,
    head_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None,
) -> Pooled:
    """PyG's ``GCNConv`` in the common network, with the readout of Baek et al.: pooling to ``seeds`` rows, attention
    among them, pooling to one. The paper has as many seeds as a quarter of the nodes of a graph of middle size, pools
    the rows of all layers side by side, and has a GNN where PyG's readout has a linear map of keys and values.
    """
    if hidden_channels % heads:
        raise ValueError(f"model.hidden_channels is {hidden_channels}, but must be a multiple of model.heads, {heads}")
    stack = [GCNConv(hidden_channels, hidden_channels) for _ in range(num_layers)]
    readout = MultisetReadout(hidden_channels, seeds, heads, norm)
    return Pooled(shape, hidden_channels, stack, readout, dropout, head_dropout=head_dropout)
