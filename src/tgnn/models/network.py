"""Models as the training loop calls them: with PyG's ``Data`` or ``Batch``, giving the outputs of nodes or graphs.

A model that has more to learn from than targets sets ``extra_loss`` in its forward pass; the loop adds it.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.data.on_disk import DiskGraph
from tgnn.models.data_shape import DataShape
from tgnn.nn import TGNN
from tgnn.nn.layerwise_inference import infer_layerwise
from tgnn.nn.linear import FeatureDropout, FeatureLinear
from tgnn.nn.models.encoder import CategoryEncoder
from tgnn.ops.graph_cache import cached_on
from tgnn.utils.memory_map import as_tensor

Norm = Literal["batch_norm", "layer_norm", "instance_norm", "graph_norm"]
"""Of PyG's normalizations those that need nothing but a width."""


class NodeNetwork(torch.nn.Module):
    """A model of nodes, such as a PyG ``BasicGNN``, and an embedding before it where features are categories.

    Args:
        gnn: Called as ``gnn(x, edge_index, ...)``.
        encoder: For categorical features, or a linear map of others.
        uses_edges: Whether ``gnn`` takes ``edge_weight`` and ``edge_attr``.
        uses_weights: Whether it takes ``edge_weight`` alone.
        input_dropout: Share of the entries of ``x`` that are dropped.
        takes_sparse: Whether ``gnn`` takes sparse ``x``; else it is made dense, once.
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
            return self._in_blocks(data)
        x = data.x if self.encoder is None else self.encoder(data.x)
        if not self.takes_sparse and x.layout == torch.sparse_csr:
            x = cached_on("dense", (x.crow_indices(), x.col_indices(), x.values()), x.to_dense)
        extra: dict[str, Any] = {}
        if self.uses_edges or self.uses_weights:
            extra["edge_weight"] = data.get("edge_weight")
        if self.uses_edges:
            extra["edge_attr"] = data.get("edge_attr")
        trims = isinstance(self.gnn, BasicGNN) and self.gnn.jk_mode in (None, "last")  # else all layers say something
        if trims and data.get("num_sampled_nodes") is not None:
            extra["num_sampled_nodes_per_hop"] = data.num_sampled_nodes
            extra["num_sampled_edges_per_hop"] = data.num_sampled_edges
        out: Tensor = self.gnn(self.input_dropout(x), data.edge_index, **extra)
        return out

    def _in_blocks(self, graph: DiskGraph) -> Tensor:
        """Outputs of all nodes, in a file that is gone when they are let go; always computed on the CPU."""
        if not isinstance(self.gnn, TGNN):
            raise TypeError(f"{type(self.gnn).__name__} cannot be asked about a graph on disk; TGNN can")
        gnn = copy.deepcopy(self.gnn).cpu().eval()
        encoder = copy.deepcopy(self.encoder or torch.nn.Identity()).cpu()

        def read(begin: int, end: int) -> Tensor:
            rows: Tensor = encoder(graph.rows_between(begin, end))
            return rows

        with tempfile.TemporaryDirectory(prefix="tgnn-") as folder:
            return as_tensor(infer_layerwise(gnn, read, graph.in_edges, Path(folder)))


class GraphNetwork(torch.nn.Module):
    """A model of whole graphs, called as ``gnn(x, edge_index, batch, edge_attr, batch_size=...)``,
    with ``edge_weight=`` where there is one.

    Args:
        gnn: The model.
        uses_edges: Whether it takes ``edge_attr``.
    """

    def __init__(self, gnn: torch.nn.Module, uses_edges: bool = False) -> None:
        super().__init__()
        self.gnn, self.uses_edges = gnn, uses_edges

    def forward(self, data: Data) -> Tensor:
        edges = {"edge_weight": data.edge_weight} if data.get("edge_weight") is not None else {}
        edge_attr = data.get("edge_attr") if self.uses_edges else None
        out: Tensor = self.gnn(data.x, data.edge_index, data.batch, edge_attr, batch_size=data.num_graphs, **edges)
        return out


def node_input(shape: DataShape, hidden_channels: int) -> tuple[CategoryEncoder | None, int]:
    """An embedding where features are categories, and the width of what goes into a model of nodes."""
    if isinstance(shape.features, tuple):
        return CategoryEncoder(shape.features, hidden_channels), hidden_channels
    assert shape.features is not None
    return None, shape.features


def accept_sparse(gnn: torch.nn.Module, width: int) -> torch.nn.Module:
    """Gives a PyG model, whose layers map features linearly first, linear maps that take sparse ones (in place).

    Only the maps of the first layer change, ``gnn.convs[0]`` or ``gnn.lins[0]``: what later layers see is dense. Their
    weights are kept, so that the model begins as PyG's does.

    Args:
        gnn: The model.
        width: Of its input.

    Example:
        >>> from torch_geometric.nn.models import MLP
        >>> accept_sparse(MLP([8, 8, 3], norm=None), 8).lins
        ModuleList(
          (0): FeatureLinear(8, 8, bias=True)
          (1): Linear(8, 3, bias=True)
        )
    """
    layers: Any = gnn.convs if hasattr(gnn, "convs") else gnn.lins
    inside = [(owner, *named) for owner in layers[0].modules() for named in owner.named_children()]
    for owner, name, child in [(layers, "0", layers[0]), *inside]:
        if isinstance(child, Linear) and child.in_channels == width:
            setattr(owner, name, _for_sparse(child))
    return gnn


@torch.no_grad()
def _for_sparse(linear: Linear) -> FeatureLinear:
    """The same map; its weights are stored the other way round."""
    new = FeatureLinear(linear.in_channels, linear.out_channels, bias=linear.bias is not None)
    new.weight.copy_(linear.weight.t())
    if new.bias is not None:
        new.bias.copy_(linear.bias)
    return new
