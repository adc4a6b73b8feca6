"""Models that differ in how they pool the nodes of a graph.

DiffPool (Ying et al., 2018) pools into learned clusters, SOPool (Wang and Ji, 2020) by second-order statistics, and GMT
(Baek et al., 2021) by attention.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.data import Data
from torch_geometric.nn import DenseSAGEConv, GCNConv
from torch_geometric.nn.aggr import GraphMultisetTransformer
from torch_geometric.nn.models import MLP
from torch_geometric.nn.norm import BatchNorm
from torch_geometric.utils import scatter, to_dense_adj, to_dense_batch

from tgnn.models.gin import make_gin_layer
from tgnn.models.graph_network import GraphNetwork, check_multiple
from tgnn.models.registration import ModelSize, PositiveInt, Probability, register_model
from tgnn.nn.feature_maps import FeatureDropout, make_encoder


class DenseSAGE(torch.nn.Module):
    """Layers of PyG's ``DenseSAGEConv``, each followed by batch normalization over the nodes in the mask, and ReLU."""

    def __init__(self, channels: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(DenseSAGEConv(channels, channels) for _ in range(num_layers))
        self.norms = torch.nn.ModuleList(BatchNorm(channels) for _ in range(num_layers))
        self.dropout = FeatureDropout(dropout)

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

    A pooling level has one GNN of ``num_layers`` layers that embeds the nodes, and one that assigns them to clusters.
    ``clusters`` has the number of clusters of each level.
    """

    extra_loss: Tensor | None

    def __init__(self, size: ModelSize, clusters: tuple[int, ...]) -> None:
        super().__init__()
        hidden_channels, num_layers, dropout = size.hidden_channels, size.num_layers, size.dropout
        assert size.shape.features is not None
        self.encoder = make_encoder(size.shape.features, hidden_channels, "x")
        self.embeds = torch.nn.ModuleList(
            DenseSAGE(hidden_channels, num_layers, dropout) for _ in range(len(clusters) + 1)
        )
        self.assigns = torch.nn.ModuleList(
            ClusterAssignment(hidden_channels, number, num_layers, dropout) for number in clusters
        )
        widths = [hidden_channels, max(hidden_channels // 2, 1), max(hidden_channels // 4, 1), size.out_channels]
        self.head = MLP(widths, dropout=dropout, norm=None)
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
    """Cluster scores of each node, before the softmax of Eq. (6)."""

    def __init__(self, channels: int, clusters: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.gnn = DenseSAGE(channels, num_layers, dropout)
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
    size: ModelSize, *, clusters: PositiveInt = 8, levels: Annotated[int, Field(ge=1, le=2)] = 1
) -> DiffPool:
    """Build :class:`DiffPool`. A second pooling level has a quarter of the ``clusters``."""
    return DiffPool(size, (clusters, max(clusters // 4, 1))[:levels])


class BilinearReadout(torch.nn.Module):
    r"""Bilinear mapping second-order pooling, "SOPool-bimap" of Wang and Ji:
    :math:`\mathrm{flatten}((H W)^\top (H W))`, where :math:`H` are the node embeddings of a graph.

    Args:
        channels: Number of channels of the node embeddings.
        projection: Number of columns of :math:`W`. The graph embedding has ``projection ** 2`` channels.
    """

    def __init__(self, channels: int, projection: int) -> None:
        super().__init__()
        self.lin, self.width = torch.nn.Linear(channels, projection, bias=False), projection**2

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        projected: Tensor = to_dense_batch(self.lin(x), batch, batch_size=size)[0]
        return (projected.transpose(1, 2) @ projected).flatten(1)


class AttentionalReadout(torch.nn.Module):
    r"""Attentional second-order pooling, "SOPool-attn" of Wang and Ji: :math:`H^\top (H \mu)`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mu, self.width = Parameter(torch.randn(channels) / channels**0.5), channels

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        out: Tensor = scatter(x * (x @ self.mu).unsqueeze(1), batch, dim_size=size, reduce="sum")
        return out


@register_model(
    "soppool",
    "graph",
    summary="Second-order pooling: pairwise products of features",
    paper="Wang and Ji 2020, arXiv:2007.10467",
    uses=("edge features",),
    search_space={"model.kind": ("bimap", "attention")},
)
def build_graph_soppool(
    size: ModelSize,
    *,
    kind: Literal["bimap", "attention"] = "bimap",
    projection: PositiveInt = 16,
    train_eps: bool = False,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of GIN layers with second-order pooling of the last layer.

    ``projection`` is used by ``kind="bimap"`` only.
    """
    readouts: dict[str, Callable[[], torch.nn.Module]] = {
        "bimap": partial(BilinearReadout, size.hidden_channels, projection),
        "attention": partial(AttentionalReadout, size.hidden_channels),
    }
    return GraphNetwork(size, partial(make_gin_layer, size, train_eps), readouts[kind], edge_inputs="features")


class MultisetReadout(torch.nn.Module):
    """PyG's ``GraphMultisetTransformer`` as a readout. The nodes of a graph must be contiguous in ``batch``."""

    def __init__(self, channels: int, seeds: int, heads: int, norm: bool) -> None:
        super().__init__()
        self.pool, self.width = GraphMultisetTransformer(channels, seeds, heads=heads, layer_norm=norm), channels

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
    size: ModelSize,
    *,
    seeds: PositiveInt = 8,
    heads: PositiveInt = 4,
    norm: bool = False,
    head_dropout: Probability | None = None,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``GCNConv`` with :class:`MultisetReadout`.

    The readout pools the nodes into ``seeds`` vectors, applies self-attention, and pools these into one. The paper uses
    a quarter of the average number of nodes as ``seeds``, pools the concatenated embeddings of all layers, and computes
    keys and values by a GNN where PyG's readout has a linear layer.
    """
    check_multiple(size, "heads", heads)
    make_layer = partial(GCNConv, size.hidden_channels, size.hidden_channels)
    readout = partial(MultisetReadout, size.hidden_channels, seeds, heads, norm)
    return GraphNetwork(size, make_layer, readout, head_dropout=head_dropout)
