"""SOPool: a graph is what its nodes' features are together, two by two."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.utils import scatter, to_dense_batch

from tgnn.models.data_shape import DataShape
from tgnn.models.gin import gin_layer
from tgnn.models.pooled import Pooled


class BilinearReadout(torch.nn.Module):
    r"""Second-order pooling of narrower rows, "SOPool-bimap" of Wang and Ji:
    :math:`\mathrm{flatten}((H W)^\top (H W))`, where :math:`H` has the rows of a graph's nodes.

    Args:
        width: Of a row.
        projection: Of a row after :math:`W`; the square of it comes out.
    """

    def __init__(self, width: int, projection: int) -> None:
        super().__init__()
        self.lin, self.width = torch.nn.Linear(width, projection, bias=False), projection**2

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        rows: Tensor = to_dense_batch(self.lin(x), batch, batch_size=size)[0]
        return (rows.transpose(1, 2) @ rows).flatten(1)


class AttentionalReadout(torch.nn.Module):
    r"""Nodes weighted by how well they fit a learned row, "SOPool-attn" of Wang and Ji: :math:`H^\top (H \mu)`.

    Args:
        width: Of a row.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mu, self.width = Parameter(torch.randn(width) / width**0.5), width

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        out: Tensor = scatter(x * (x @ self.mu).unsqueeze(1), batch, dim_size=size, reduce="sum")
        return out


def build_graph_soppool(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    kind: Literal["bimap", "attention"] = "bimap",
    projection: Annotated[int, Field(ge=1)] = 16,
    train_eps: bool = False,
) -> Pooled:
    """PyG's ``GINConv`` (``GINEConv`` where edges have features) in the common network, with second-order pooling of
    the last layer; ``projection`` is for ``bimap``.
    """
    stack = [gin_layer(shape, hidden_channels, train_eps) for _ in range(num_layers)]
    readout = BilinearReadout(hidden_channels, projection) if kind == "bimap" else AttentionalReadout(hidden_channels)
    return Pooled(shape, hidden_channels, stack, readout, dropout, edges="features")
