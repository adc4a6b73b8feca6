"""One step along edges that are weighted by degrees, which GCN, APPNP, GPR-GNN and MixHop share."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GCNConv, MeanAggregation, MessagePassing, SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import GCN

from tgnn.ops import neighbor_sum
from tgnn.ops.cache import remembered


def propagate(h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    r""":math:`\tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2} H`, as PyG's ``GCNConv`` does after its linear map.

    The weights are found once for a graph, and the rows are summed by
    :func:`~tgnn.ops.neighbor_sum`, which keeps no row for each edge: on many edges that is several times as fast.

    Example:
        >>> import torch
        >>> propagate(torch.ones(2, 1), torch.tensor([[0, 1], [1, 0]])).flatten().round(decimals=3).tolist()
        [1.0, 1.0]
    """
    tensors = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
    edges, weight = remembered(
        ("gcn norm", len(h), h.dtype), tensors, lambda: gcn_norm(edge_index, edge_weight, len(h), dtype=h.dtype)
    )
    return neighbor_sum(h, edges, edge_weight=weight)


def only_sums(layer: MessagePassing) -> bool:
    """Whether a layer needs no row for each edge: it sums or averages, and no explainer looks at its messages."""
    return isinstance(layer.aggr_module, (SumAggregation, MeanAggregation)) and not layer.explain


class _Conv(GCNConv):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if not only_sums(self):
            out: Tensor = super().forward(x, edge_index, edge_weight)
            return out
        out = propagate(self.lin(x), edge_index, edge_weight)
        return out if self.bias is None else out + self.bias


class PropagatingGCN(GCN):
    """PyG's ``GCN``, whose layers step with :func:`propagate`."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return _Conv(in_channels, out_channels, **kwargs)
