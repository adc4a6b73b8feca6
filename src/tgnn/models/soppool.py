"""SOPool (Wang and Ji, 2020): second-order pooling of node embeddings."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.utils import scatter, to_dense_batch

from tgnn.models.data_shape import DataShape
from tgnn.models.gin import make_gin_layer
from tgnn.models.graph_network import GraphNetwork
from tgnn.models.registration import register_model


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
    r"""Attentional second-order pooling, "SOPool-attn" of Wang and Ji: :math:`H^\top (H \mu)`.

    Args:
        channels: Number of channels of the node embeddings and of the graph embedding.
    """

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
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    kind: Literal["bimap", "attention"] = "bimap",
    projection: Annotated[int, Field(ge=1)] = 16,
    train_eps: bool = False,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of GIN layers with second-order pooling of the last layer.

    ``projection`` is used by ``kind="bimap"`` only.
    """
    layers = [make_gin_layer(shape, hidden_channels, train_eps) for _ in range(num_layers)]
    readout = BilinearReadout(hidden_channels, projection) if kind == "bimap" else AttentionalReadout(hidden_channels)
    return GraphNetwork(shape, hidden_channels, layers, readout, dropout, edge_inputs="features")
