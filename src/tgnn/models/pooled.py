"""The network in which all models of graphs are compared: only the layers, and at times the readout, differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models import MLP

from tgnn.models.data_shape import DataShape
from tgnn.nn.models.encoder import make_encoder
from tgnn.nn.models.row_norm import RowNorm


class Pooled(torch.nn.Module):
    """Encoder, layers, readout and head, as in Dwivedi et al., "Benchmarking Graph Neural Networks" (JMLR 2023).

    Each layer is followed by normalization, ReLU and dropout, and added to its input.

    Args:
        shape: Of the data.
        hidden_channels: Width of rows between layers.
        layers: Each called as ``layer(x, edge_index)``, or ``layer(x, edge_index, edge_attr)`` with something of edges.
        readout: A :class:`Readout` or the like: ``readout(x, batch, size)``, with its ``width``.
        dropout: Share of entries dropped.
        norm: Whether rows are normalized over the batch.
        residual: Whether a layer's input is added to its output.
        jk: Jumping knowledge. ``"cat"`` concatenates the readouts of all layers; ``None`` reads the last layer only.
        readout_norm: Whether the row of a graph is normalized over the batch, before the head.
        head_layers: Layers of the head, each half as wide as the one before.
        head_dropout: Share of entries dropped in the head; ``None``: as ``dropout``.
        edges: What layers are told of edges: ``"features"`` (mapped to ``hidden_channels``, where there are any), ``"weights"``
            (where there are any), ``None``, or a function of the data.
    """

    def __init__(
        self,
        shape: DataShape,
        hidden_channels: int,
        layers: Iterable[torch.nn.Module],
        readout: torch.nn.Module,
        dropout: float = 0.0,
        norm: bool = True,
        residual: bool = True,
        jk: Literal["cat"] | None = None,
        readout_norm: bool = False,
        head_layers: int = 3,
        head_dropout: float | None = None,
        edges: str | Callable[[Data], Tensor] | None = None,
    ) -> None:
        super().__init__()
        assert shape.features is not None
        self.encoder = make_encoder(shape.features, hidden_channels, "x")
        self.edge_encoder = None
        if edges == "features" and shape.edge_features is not None:
            self.edge_encoder = make_encoder(shape.edge_features, hidden_channels, "edge_attr")
        self.told = edges if callable(edges) else None
        self.weighted = edges == "weights" and shape.edge_weights
        self.layers = torch.nn.ModuleList(layers)
        self.norms = torch.nn.ModuleList(
            torch.nn.BatchNorm1d(hidden_channels) if norm else torch.nn.Identity() for _ in self.layers
        )
        self.dropout, self.residual, self.jk, self.readout = torch.nn.Dropout(dropout), residual, jk, readout
        width = int(readout.width) * (len(self.layers) if jk == "cat" else 1)  # type: ignore[arg-type]
        self.readout_norm = RowNorm(width) if readout_norm else torch.nn.Identity()
        widths = [width] + [max(hidden_channels // 2**i, 1) for i in range(1, head_layers)] + [shape.outputs]
        self.head = MLP(widths, dropout=dropout if head_dropout is None else head_dropout, norm=None)

    def forward(self, data: Data) -> Tensor:
        x, told = self.encoder(data.x), self._of_edges(data)
        rows = []
        for layer, norm in zip(self.layers, self.norms):
            new = norm(layer(x, data.edge_index, *told)).relu()
            x = self.dropout(new + x if self.residual else new)
            rows.append(x)
        size = data.num_graphs
        pooled = self.readout(x, data.batch, size)
        if self.jk == "cat":
            pooled = torch.cat([*(self.readout(row, data.batch, size) for row in rows[:-1]), pooled], dim=-1)
        out: Tensor = self.head(self.readout_norm(pooled))
        return out

    def _of_edges(self, data: Data) -> tuple[Tensor | None, ...]:
        if self.told is not None:
            return (self.told(data),)
        if self.weighted:
            return (data.get("edge_weight"),)
        if self.edge_encoder is None:
            return ()
        return (self.edge_encoder(data.edge_attr),)


class OnNodes(torch.nn.Module):
    """A module that looks at each node alone, as a layer.

    Args:
        module: Called with rows.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.module(x)
        return out
