"""GMT (Baek et al., 2021): graph multiset transformer, pooling by attention."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import GraphMultisetTransformer

from tgnn.models.data_shape import DataShape
from tgnn.models.graph_network import GraphNetwork
from tgnn.models.registration import register_model


class MultisetReadout(torch.nn.Module):
    """PyG's ``GraphMultisetTransformer`` as a readout. The nodes of a graph must be contiguous in ``batch``.

    Args:
        width: Number of channels of the node embeddings and of the graph embedding.
        seeds: Number of seed vectors, into which a graph is pooled first.
        heads: Number of attention heads.
        norm: Whether to apply layer normalization after attention.
    """

    def __init__(self, width: int, seeds: int, heads: int, norm: bool) -> None:
        super().__init__()
        self.pool, self.width = GraphMultisetTransformer(width, seeds, heads=heads, layer_norm=norm), width

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        out: Tensor = self.pool(x, batch, dim_size=size)
        return out


@register_model(
    "gmt",
    "graph",
    summary="Multi-head attention pooling of nodes into seed vectors",
    paper="Baek et al. 2021, arXiv:2102.11533",
    search_space={"model.seeds": (4, 8, 16)},
)
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
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``GCNConv`` with :class:`MultisetReadout`.

    The readout pools the nodes into ``seeds`` vectors, applies self-attention, and pools these into one. The paper uses
    a quarter of the average number of nodes as ``seeds``, pools the concatenated embeddings of all layers, and computes
    keys and values by a GNN where PyG's readout has a linear layer.
    """
    if hidden_channels % heads:
        raise ValueError(f"model.hidden_channels is {hidden_channels}, but must be a multiple of model.heads, {heads}.")
    layers = [GCNConv(hidden_channels, hidden_channels) for _ in range(num_layers)]
    readout = MultisetReadout(hidden_channels, seeds, heads, norm)
    return GraphNetwork(shape, hidden_channels, layers, readout, dropout, head_dropout=head_dropout)
