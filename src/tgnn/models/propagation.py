"""One step along edges that are weighted by degrees, which GCN, APPNP, GPR-GNN and MixHop share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, MeanAggregation, MessagePassing, SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import GCN

from tgnn.ops import neighbor_sum
from tgnn.ops.graph_cache import cached_on
from tgnn.ops.tracing import is_plain_eager


def propagate(h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    r""":math:`\tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2} H`, as PyG's ``GCNConv`` does after its linear map.

    The weights are found once for a graph, in float32 at least, and the rows are summed by
    :func:`~tgnn.ops.neighbor_sum`, which keeps no row for each edge.

    Example:
        >>> propagate(torch.ones(2, 1), torch.tensor([[0, 1], [1, 0]])).flatten().round(decimals=3).tolist()
        [1.0, 1.0]
    """
    dtype = torch.promote_types(h.dtype, torch.float32)

    def normalized() -> tuple[Tensor, Tensor]:
        edges, weight = gcn_norm(edge_index, edge_weight, h.size(0), dtype=dtype)
        return edges, weight

    if is_plain_eager(edge_index) and (edge_weight is None or not edge_weight.requires_grad):
        tensors = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        edges, weight = cached_on(("gcn norm", h.size(0), dtype), tensors, normalized)
    else:
        edges, weight = normalized()
    return neighbor_sum(h, edges, edge_weight=weight)


PLAIN_PROPAGATE = MessagePassing.propagate
"""For layers that are made of one of PyG's. PyG replaces ``propagate`` by one that explainers cannot look into, and for
them goes back to what it found; in a layer made of another that would be the other's, which is replaced already."""

_HOOKS = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")


def messages_are_seen(layer: MessagePassing) -> bool:
    """Whether an explainer, or a hook of the user's, looks at what a layer does between its input and its output."""
    hooks = (f"_{of}_forward{when}_hooks" for of in _HOOKS for when in ("", "_pre"))
    return bool(layer.explain) or any(getattr(layer, name) for name in hooks)


def only_sums(layer: MessagePassing, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> bool:
    """Whether a layer needs no row for each edge: it sums or averages, and nobody looks at its messages."""
    return (
        isinstance(layer.aggr_module, (SumAggregation, MeanAggregation))
        and not messages_are_seen(layer)
        and layer.flow == "source_to_target"
        and x.dim() == 2
        and isinstance(edge_index, Tensor)
        and edge_index.layout == torch.strided
        and (edge_weight is None or edge_weight.dim() == 1)
    )


def propagates(layer: Any, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> bool:
    """Whether a layer of PyG steps as :func:`propagate` does: it sums, and normalizes in the usual way."""
    usual = layer.add_self_loops and getattr(layer, "normalize", True) and not getattr(layer, "improved", False)
    return usual and isinstance(layer.aggr_module, SumAggregation) and only_sums(layer, x, edge_index, edge_weight)


class _Conv(GCNConv):
    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if not propagates(self, x, edge_index, edge_weight):
            out: Tensor = super().forward(x, edge_index, edge_weight)
            return out
        out = propagate(self.lin(x), edge_index, edge_weight)
        return out if self.bias is None else out + self.bias


class PropagatingGCN(GCN):
    """PyG's ``GCN``, whose layers step with :func:`propagate`."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return _Conv(in_channels, out_channels, **kwargs)
