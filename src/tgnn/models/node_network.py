"""The network around a node model, as the training loop calls it, and its inputs: categories and sparse features."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.models import MLP
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.data.on_disk import DiskGraph
from tgnn.models.registration import ModelSize
from tgnn.nn import TGNN
from tgnn.nn.feature_maps import CategoryEncoder, FeatureDropout, FeatureLinear
from tgnn.nn.layerwise_inference import infer_layerwise
from tgnn.ops.graph_cache import cached_on
from tgnn.utils.memory_map import as_tensor

Norm = Literal["batch_norm", "layer_norm", "instance_norm", "graph_norm"]
"""PyG's normalization layers that need no argument besides the number of channels."""


class NodeNetwork(torch.nn.Module):
    """A GNN for node tasks that is called with PyG's ``Data`` and returns the outputs of all nodes.

    Args:
        gnn: GNN that is called as ``gnn(x, edge_index, ...)``, such as a PyG ``BasicGNN``.
        encoder: Embedding of categorical features, or linear transformation of numeric features.
        uses_edges: Whether to pass ``edge_weight`` and ``edge_attr`` to ``gnn``.
        uses_weights: Whether to pass ``edge_weight`` to ``gnn``.
        input_dropout: Dropout probability of the input features.
        takes_sparse: Whether ``gnn`` supports a sparse ``x``. Otherwise ``x`` is made dense, once per graph.
    """

    def __init__(
        self,
        gnn: torch.nn.Module,
        encoder: CategoryEncoder | FeatureLinear | None = None,
        uses_edges: bool = False,
        uses_weights: bool = False,
        input_dropout: float = 0.0,
        takes_sparse: bool = True,
    ) -> None:
        super().__init__()
        self.gnn, self.encoder = gnn, encoder
        self.uses_edges, self.uses_weights, self.takes_sparse = uses_edges, uses_weights, takes_sparse
        self.input_dropout = FeatureDropout(input_dropout)

    def forward(self, data: Data | DiskGraph) -> Tensor:
        if isinstance(data, DiskGraph):
            return self._infer_on_disk(data)
        x = data.x if self.encoder is None else self.encoder(data.x)
        if not self.takes_sparse and x.layout == torch.sparse_csr:
            x = cached_on("dense", (x.crow_indices(), x.col_indices(), x.values()), x.to_dense)
        kwargs: dict[str, Any] = {}
        if self.uses_edges or self.uses_weights:
            kwargs["edge_weight"] = data.get("edge_weight")
        if self.uses_edges:
            kwargs["edge_attr"] = data.get("edge_attr")
        # Jumping knowledge reads the embeddings of all nodes in all layers, so that none can be trimmed.
        can_trim = isinstance(self.gnn, BasicGNN) and self.gnn.jk_mode in (None, "last")
        if can_trim and data.get("num_sampled_nodes") is not None:
            kwargs["num_sampled_nodes_per_hop"] = data.num_sampled_nodes
            kwargs["num_sampled_edges_per_hop"] = data.num_sampled_edges
        out: Tensor = self.gnn(self.input_dropout(x), data.edge_index, **kwargs)
        return out

    def _infer_on_disk(self, graph: DiskGraph) -> Tensor:
        """Compute the outputs of all nodes layer by layer, on the CPU, into a memory-mapped temporary file."""
        if not isinstance(self.gnn, TGNN):
            raise TypeError(f"{type(self.gnn).__name__} does not support inference on a graph on disk. TGNN does.")
        gnn = copy.deepcopy(self.gnn).cpu().eval()
        encoder = copy.deepcopy(self.encoder or torch.nn.Identity()).cpu()

        def read_features(begin: int, end: int) -> Tensor:
            x: Tensor = encoder(graph.rows_between(begin, end))
            return x

        with tempfile.TemporaryDirectory(prefix="tgnn-") as folder:
            return as_tensor(infer_layerwise(gnn, read_features, graph.in_edges, Path(folder)))


def encode_input(size: ModelSize) -> CategoryEncoder | None:
    """Return an embedding of categorical features. It is created before the GNN, so that seeds keep their results."""
    features = size.shape.features
    return CategoryEncoder(features, size.hidden_channels) if isinstance(features, tuple) else None


def make_mlp(size: ModelSize) -> torch.nn.Module:
    """Return an MLP of the features of each node, which may be sparse."""
    channels = [size.in_channels, *[size.hidden_channels] * (size.num_layers - 1), size.out_channels]
    return accept_sparse(MLP(channels, dropout=size.dropout, norm=None), size.in_channels)


def accept_sparse(gnn: torch.nn.Module, in_channels: int) -> torch.nn.Module:
    """Replace the linear layers that a PyG model applies to its input by layers that accept sparse features, in place.

    Only the first layer changes, ``gnn.convs[0]`` or ``gnn.lins[0]``, because the input of later layers is dense. The
    initial weights are kept.

    Args:
        gnn: Model whose first layer transforms the features linearly before it aggregates.
        in_channels: Number of input features.

    Example:
        >>> from torch_geometric.nn.models import MLP
        >>> accept_sparse(MLP([8, 8, 3], norm=None), 8).lins
        ModuleList(
          (0): FeatureLinear(8, 8, bias=True)
          (1): Linear(8, 3, bias=True)
        )
    """
    layers: Any = gnn.convs if hasattr(gnn, "convs") else gnn.lins
    nested = [(parent, *named_child) for parent in layers[0].modules() for named_child in parent.named_children()]
    for parent, name, child in [(layers, "0", layers[0]), *nested]:
        if isinstance(child, Linear) and child.in_channels == in_channels:
            setattr(parent, name, _feature_linear(child))
    return gnn


@torch.no_grad()
def _feature_linear(linear: Linear) -> FeatureLinear:
    """Return a :class:`FeatureLinear` with the same weights, which it stores transposed."""
    new = FeatureLinear(linear.in_channels, linear.out_channels, bias=linear.bias is not None)
    new.weight.copy_(linear.weight.t())
    if new.bias is not None:
        new.bias.copy_(linear.bias)
    return new
