"""Models as the training loop calls them: with PyG's ``Data`` or ``Batch``, giving the outputs of nodes or graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.nn.models.encoder import CategoryEncoder


class NodeNetwork(torch.nn.Module):
    """A model of nodes, such as a PyG ``BasicGNN``, and an embedding before it where features are categories.

    Args:
        gnn: Called as ``gnn(x, edge_index, ...)``.
        encoder: For categorical features.
        uses_edges: Whether ``gnn`` takes ``edge_weight`` and ``edge_attr``.
    """

    def __init__(self, gnn: torch.nn.Module, encoder: CategoryEncoder | None = None, uses_edges: bool = False) -> None:
        super().__init__()
        self.gnn, self.encoder, self.uses_edges = gnn, encoder, uses_edges

    def forward(self, data: Data) -> Tensor:
        x = data.x if self.encoder is None else self.encoder(data.x)
        extra: dict[str, Any] = {}
        if self.uses_edges:
            extra = {"edge_weight": data.get("edge_weight"), "edge_attr": data.get("edge_attr")}
        if data.get("num_sampled_nodes") is not None:
            extra["num_sampled_nodes_per_hop"] = data.num_sampled_nodes
            extra["num_sampled_edges_per_hop"] = data.num_sampled_edges
        out: Tensor = self.gnn(x, data.edge_index, **extra)
        return out


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
