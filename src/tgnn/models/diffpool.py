"""DiffPool (Ying et al., 2018): hierarchical pooling with learned soft clusters."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import DenseSAGEConv
from torch_geometric.nn.models import MLP
from torch_geometric.nn.norm import BatchNorm
from torch_geometric.utils import to_dense_adj, to_dense_batch

from tgnn.models.data_shape import DataShape
from tgnn.models.registration import register_model
from tgnn.nn.models.encoder import make_encoder


class DenseSAGE(torch.nn.Module):
    """Layers of PyG's ``DenseSAGEConv``, each followed by batch normalization over the nodes in the mask, and ReLU.

    Args:
        in_channels: Number of input channels and of hidden channels.
        out_channels: Number of output channels.
        num_layers: Number of layers.
        dropout: Dropout probability.
    """

    def __init__(self, in_channels: int, out_channels: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        channels = [in_channels] * num_layers + [out_channels]
        self.convs = torch.nn.ModuleList(DenseSAGEConv(*pair) for pair in pairwise(channels))
        self.norms = torch.nn.ModuleList(BatchNorm(size) for size in channels[1:])
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor) -> Tensor:
        padded = not bool(mask.all())
        for conv, norm in zip(self.convs, self.norms):
            x = conv(x, adj)
            nodes = self.dropout(norm(x[mask] if padded else x.flatten(0, 1)).relu())
            x = nodes.new_zeros(x.shape).index_put((mask,), nodes) if padded else nodes.view(x.shape)
        return x


class DiffPool(torch.nn.Module):
    """Eq. (3) to (6) of Ying et al., as in PyG's ``dense_diff_pool``, with a sum readout of the last level.

    During training, ``extra_loss`` is the sum of the link prediction and entropy losses of all levels (Sect. 3.3), see
    :func:`cluster_losses`.

    Args:
        shape: Sizes of the inputs and outputs.
        hidden_channels: Number of channels of the node embeddings.
        num_layers: Number of layers of each GNN. A pooling level has one GNN that embeds and one that assigns clusters.
        dropout: Dropout probability.
        clusters: Number of clusters of each pooling level.
    """

    extra_loss: Tensor | None

    def __init__(
        self, shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, clusters: tuple[int, ...]
    ) -> None:
        super().__init__()
        assert shape.features is not None
        self.encoder = make_encoder(shape.features, hidden_channels, "x")
        self.embeds = torch.nn.ModuleList(
            DenseSAGE(hidden_channels, hidden_channels, num_layers, dropout) for _ in range(len(clusters) + 1)
        )
        self.assigns = torch.nn.ModuleList(
            ClusterAssignment(hidden_channels, number, num_layers, dropout) for number in clusters
        )
        self.head = MLP(
            [hidden_channels, max(hidden_channels // 2, 1), max(hidden_channels // 4, 1), shape.outputs],
            dropout=dropout,
            norm=None,
        )
        self.extra_loss = None

    def forward(self, data: Data) -> Tensor:
        size = data.num_graphs
        x, mask = to_dense_batch(self.encoder(data.x), data.batch, batch_size=size)
        adj = to_dense_adj(data.edge_index, data.batch, max_num_nodes=x.size(1), batch_size=size).transpose(1, 2)
        losses: list[Tensor] = []
        for embed, assign in zip(self.embeds, self.assigns):
            z, s = embed(x, adj, mask), assign(x, adj, mask).softmax(-1) * mask.unsqueeze(-1)
            if self.training:
                losses += cluster_losses(adj, s, mask)
            x, adj = s.transpose(1, 2) @ z, s.transpose(1, 2) @ adj @ s  # Eq. (3) and (4)
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        self.extra_loss = torch.stack(losses).sum() if self.training else None
        out: Tensor = self.head(self.embeds[-1](x, adj, mask).sum(1))
        return out


class ClusterAssignment(torch.nn.Module):
    """Cluster scores of each node, before the softmax of Eq. (6).

    Args:
        channels: Number of channels of the node embeddings.
        clusters: Number of clusters.
        num_layers: Number of layers.
        dropout: Dropout probability.
    """

    def __init__(self, channels: int, clusters: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.gnn = DenseSAGE(channels, channels, num_layers, dropout)
        self.lin = torch.nn.Linear(channels, clusters)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.lin(self.gnn(x, adj, mask))
        return out


def cluster_losses(adj: Tensor, s: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the link prediction loss :math:`\Vert A - S S^\top \Vert_F` and the entropy loss (Sect. 3.3).

    The first is divided by the number of pairs of nodes, as in PyG. The second is averaged over the nodes. PyG's
    ``dense_diff_pool`` also counts padding, so that its losses depend on the largest graph of a batch.

    Args:
        adj: Adjacency matrices :math:`A`.
        s: Cluster assignments :math:`S`, 0 for padding.
        mask: Mask of the nodes, false for padding.

    Shapes:
        - **input:** ``adj`` ``[B, N, N]``, ``s`` ``[B, N, C]``, ``mask`` ``[B, N]``
        - **output:** two scalars
    """
    num_nodes = mask.sum(1)
    link_loss = torch.linalg.vector_norm(adj - s @ s.transpose(1, 2)) / num_nodes.square().sum()
    entropy = -(s * (s + 1e-15).log()).sum() / num_nodes.sum()
    return link_loss, entropy


@register_model(
    "diffpool",
    "graph",
    summary="Hierarchical pooling with learned soft clusters",
    paper="Ying et al. 2018, arXiv:1806.08804",
    search_space={"model.clusters": (4, 8, 16)},
)
def build_graph_diffpool(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    clusters: Annotated[int, Field(ge=1)] = 8,
    levels: Annotated[int, Field(ge=1, le=2)] = 1,
) -> DiffPool:
    """Build :class:`DiffPool`. A second pooling level has a quarter of the ``clusters``."""
    return DiffPool(shape, hidden_channels, num_layers, dropout, (clusters, max(clusters // 4, 1))[:levels])
