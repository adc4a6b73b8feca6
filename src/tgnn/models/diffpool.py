"""DiffPool: nodes are pooled into clusters that are learned, level by level."""

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
from tgnn.nn.models.encoder import make_encoder


class DenseSAGE(torch.nn.Module):
    """Layers of PyG's ``DenseSAGEConv``, each followed by normalization over the nodes that there are, and ReLU.

    Args:
        width: Of rows.
        out: Of rows that come out.
        num_layers: How many.
        dropout: Share of entries dropped.
    """

    def __init__(self, width: int, out: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        widths = [width] * num_layers + [out]
        self.convs = torch.nn.ModuleList(DenseSAGEConv(*pair) for pair in pairwise(widths))
        self.norms = torch.nn.ModuleList(BatchNorm(size) for size in widths[1:])
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor) -> Tensor:
        padded = not bool(mask.all())
        for conv, norm in zip(self.convs, self.norms):
            x = conv(x, adj)
            rows = self.dropout(norm(x[mask] if padded else x.flatten(0, 1)).relu())
            x = rows.new_zeros(x.shape).index_put((mask,), rows) if padded else rows.view(x.shape)
        return x


class DiffPool(torch.nn.Module):
    """Eq. (3) to (6) of Ying et al., as PyG's ``dense_diff_pool`` has them, and the sum of what the last level has.

    While training, ``extra_loss`` is the paper's loss of links and entropy (Sect. 3.3), summed over levels, each as
    :func:`cluster_losses` has them.

    Args:
        shape: Of the data.
        hidden_channels: Width of rows.
        num_layers: Of each GNN; every level has one, and one more that assigns clusters.
        dropout: Share of entries dropped.
        clusters: Of each level of pooling.
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
        self.assigns = torch.nn.ModuleList(_Assign(hidden_channels, number, num_layers, dropout) for number in clusters)
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
            rows, s = embed(x, adj, mask), assign(x, adj, mask).softmax(-1) * mask.unsqueeze(-1)
            if self.training:
                losses += cluster_losses(adj, s, mask)
            x, adj = s.transpose(1, 2) @ rows, s.transpose(1, 2) @ adj @ s  # as PyG's dense_diff_pool
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        self.extra_loss = torch.stack(losses).sum() if self.training else None
        out: Tensor = self.head(self.embeds[-1](x, adj, mask).sum(1))
        return out


def cluster_losses(adj: Tensor, s: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    r"""The paper's losses of links, :math:`\Vert A - S S^\top \Vert_F`, and of entropy (Sect. 3.3), with the shares
    :math:`S`: the first divided by the number of pairs of nodes, as PyG does, the second a mean over nodes.

    PyG counts nodes that only pad as well: its losses change with the largest graph of a batch.

    Args:
        adj: Edges.
        s: Share of each cluster in each node, 0 where there is no node.
        mask: Which nodes there are.

    Shapes:
        - **input:** ``adj`` ``[B, N, N]``, ``s`` ``[B, N, C]``, ``mask`` ``[B, N]``
        - **output:** two numbers
    """
    nodes = mask.sum(1)
    links = torch.linalg.vector_norm(adj - s @ s.transpose(1, 2)) / nodes.square().sum()
    entropy = -(s * (s + 1e-15).log()).sum() / nodes.sum()
    return links, entropy


class _Assign(torch.nn.Module):
    """To which cluster a node belongs, before the softmax of Eq. (6)."""

    def __init__(self, width: int, clusters: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.gnn = DenseSAGE(width, width, num_layers, dropout)
        self.lin = torch.nn.Linear(width, clusters)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.lin(self.gnn(x, adj, mask))
        return out


def build_graph_diffpool(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    clusters: Annotated[int, Field(ge=1)] = 8,
    levels: Annotated[int, Field(ge=1, le=2)] = 1,
) -> DiffPool:
    """PyG's ``DenseSAGEConv``, pooled by clusters; a second level has a quarter of the ``clusters``."""
    return DiffPool(shape, hidden_channels, num_layers, dropout, (clusters, max(clusters // 4, 1))[:levels])
