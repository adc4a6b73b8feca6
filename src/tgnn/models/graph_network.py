"""The network that graph models share, so that only their layers or their readout differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models import MLP

from tgnn.models.registration import ModelSize
from tgnn.nn.feature_maps import FeatureDropout, make_encoder
from tgnn.nn.readout import Readout, ReadoutNorm


class FeedForward(torch.nn.Module):
    """The feed-forward sublayer of :class:`tgnn.nn.TGNNBlock`: two linear layers with a residual connection, and batch
    normalization of their sum.
    """

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(channels, 2 * channels),
            torch.nn.ReLU(),
            FeatureDropout(dropout),
            torch.nn.Linear(2 * channels, channels),
            FeatureDropout(dropout),
        )
        self.norm = torch.nn.BatchNorm1d(channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x + self.mlp(x))
        return out


class GraphNetwork(torch.nn.Module):
    """Encoder, GNN layers, readout and MLP head.

    The network follows Dwivedi et al., "Benchmarking Graph Neural Networks" (JMLR 2023). It is called with PyG's
    ``Batch`` and returns the outputs of all graphs. Each GNN layer is followed by batch normalization, ReLU, a residual
    connection and dropout, and with ``ffn=True`` by a :class:`FeedForward` sublayer.

    Args:
        size: Sizes of the network.
        make_layer: Creates a GNN layer of ``hidden_channels``. It is called as ``layer(x, edge_index)``, or as
            ``layer(x, edge_index, edge_input)`` if ``edge_inputs`` yields a tensor.
        readout: Name of a :class:`~tgnn.nn.readout.Readout`, or a function that creates a module. It is called as
            ``readout(x, batch, num_graphs)``, and its attribute ``width`` is the number of channels of the graph
            embedding.
        rank: Rank of a ``cp`` readout.
        jk: Jumping knowledge. ``"cat"`` concatenates the readouts of all layers; ``None`` uses that of the last layer.
        readout_norm: Whether to normalize the graph embedding over the batch before the head.
        head_layers: Number of layers of the head. Each is half as wide as the one before.
        head_dropout: Dropout probability in the head. ``None`` uses ``dropout``.
        edge_inputs: Third argument of the GNN layers. ``"features"`` are the edge features transformed to
            ``hidden_channels``. ``"weights"`` are the edge weights. Both are left out if the data has none. A function
            computes the argument from the batch. ``None`` passes nothing.
        ffn: Whether each layer is followed by a :class:`FeedForward` sublayer, as in :class:`tgnn.nn.TGNNBlock`.
    """

    def __init__(
        self,
        size: ModelSize,
        make_layer: Callable[[], torch.nn.Module],
        readout: str | Callable[[], torch.nn.Module],
        rank: int = 32,
        jk: Literal["cat"] | None = None,
        readout_norm: bool = False,
        head_layers: int = 3,
        head_dropout: float | None = None,
        edge_inputs: str | Callable[[Data], Tensor] | None = None,
        ffn: bool = False,
    ) -> None:
        super().__init__()
        shape, hidden_channels, dropout = size.shape, size.hidden_channels, size.dropout
        assert shape.features is not None
        layers = [make_layer() for _ in range(size.num_layers)]  # first, so that seeds keep their results
        pooling = Readout(readout, hidden_channels, rank) if isinstance(readout, str) else readout()
        self.encoder = make_encoder(shape.features, hidden_channels, "x")
        self.edge_encoder = None
        if edge_inputs == "features" and shape.edge_features is not None:
            self.edge_encoder = make_encoder(shape.edge_features, hidden_channels, "edge_attr")
        self.edge_function = edge_inputs if callable(edge_inputs) else None
        self.uses_weights = edge_inputs == "weights" and shape.edge_weights
        self.layers = torch.nn.ModuleList(layers)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(hidden_channels) for _ in self.layers)
        sublayers = (FeedForward(hidden_channels, dropout) if ffn else torch.nn.Identity() for _ in self.layers)
        self.sublayers = torch.nn.ModuleList(sublayers)
        self.dropout, self.jk, self.readout = FeatureDropout(dropout), jk, pooling
        width = int(pooling.width) * (size.num_layers if jk == "cat" else 1)  # type: ignore[arg-type]
        self.readout_norm = ReadoutNorm(width) if readout_norm else torch.nn.Identity()
        widths = [width] + [max(hidden_channels // 2**i, 1) for i in range(1, head_layers)] + [shape.outputs]
        self.head = MLP(widths, dropout=dropout if head_dropout is None else head_dropout, norm=None)

    def forward(self, data: Data) -> Tensor:
        x, edge_inputs = self.encoder(data.x), self._edge_inputs(data)
        embeddings = []
        for layer, norm, sublayer in zip(self.layers, self.norms, self.sublayers):
            x = sublayer(self.dropout(norm(layer(x, data.edge_index, *edge_inputs)).relu() + x))
            embeddings.append(x)
        num_graphs = data.num_graphs
        pooled = self.readout(x, data.batch, num_graphs)
        if self.jk == "cat":
            earlier = (self.readout(embedding, data.batch, num_graphs) for embedding in embeddings[:-1])
            pooled = torch.cat([*earlier, pooled], dim=-1)
        logits: Tensor = self.head(self.readout_norm(pooled))
        return logits

    def _edge_inputs(self, data: Data) -> tuple[Tensor | None, ...]:
        """Return the arguments of the layers after ``edge_index``, which are one or none."""
        if self.edge_function is not None:
            return (self.edge_function(data),)
        if self.uses_weights:
            return (data.get("edge_weight"),)
        if self.edge_encoder is None:
            return ()
        return (self.edge_encoder(data.edge_attr),)


def check_multiple(size: ModelSize, name: str, value: int) -> None:
    """Raise a ``ValueError`` if the number of hidden channels cannot be divided among heads, towers or dimensions."""
    if size.hidden_channels % value:
        raise ValueError(
            f"model.hidden_channels is {size.hidden_channels}, but must be a multiple of model.{name}, {value}."
        )
