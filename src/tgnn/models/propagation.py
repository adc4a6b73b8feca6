"""Sums of neighbors without a message per edge, for layers made of PyG's ``MessagePassing``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MeanAggregation, MessagePassing, SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from tgnn.ops import neighbor_sum
from tgnn.ops.graph_cache import cached_on
from tgnn.ops.tracing import is_plain_eager


def propagate(h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    r"""Compute :math:`\tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2} H`, as PyG's ``GCNConv`` does after its linear layer.

    The normalized edge weights are computed once per graph, at least in float32, and the sum is
    :func:`~tgnn.ops.neighbor_sum`, which stores no message per edge.

    Args:
        h: Node embeddings.
        edge_index: Edges.
        edge_weight: Edge weights, by default 1.

    Shapes:
        - **input:** ``h`` ``[N, F]``, ``edge_index`` ``[2, E]``, ``edge_weight`` ``[E]``
        - **output:** ``[N, F]``

    Example:
        >>> propagate(torch.ones(2, 1), torch.tensor([[0, 1], [1, 0]])).flatten().round(decimals=3).tolist()
        [1.0, 1.0]
    """
    dtype = torch.promote_types(h.dtype, torch.float32)

    def normalize() -> tuple[Tensor, Tensor]:
        normalized_index, normalized_weight = gcn_norm(edge_index, edge_weight, h.size(0), dtype=dtype)
        return normalized_index, normalized_weight

    if is_plain_eager(edge_index) and (edge_weight is None or not edge_weight.requires_grad):
        tensors = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        normalized_index, normalized_weight = cached_on(("gcn norm", h.size(0), dtype), tensors, normalize)
    else:
        normalized_index, normalized_weight = normalize()
    return neighbor_sum(h, normalized_index, edge_weight=normalized_weight)


PLAIN_PROPAGATE = MessagePassing.propagate
"""``propagate`` of subclasses of PyG's layers. PyG compiles a ``propagate`` for each layer class that explainers cannot
inspect, and restores the original one for them. In a subclass, the original would be the compiled one of its parent."""

_HOOKED_METHODS = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")


def messages_are_inspected(layer: MessagePassing) -> bool:
    """Return whether an explainer or a hook reads the messages of a layer."""
    hooks = (f"_{method}_forward{when}_hooks" for method in _HOOKED_METHODS for when in ("", "_pre"))
    return bool(layer.explain) or any(getattr(layer, name) for name in hooks)


def can_fuse(layer: MessagePassing, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> bool:
    """Return whether a layer needs no message per edge.

    This holds for sums and means over ``edge_index`` whose messages are not inspected.
    """
    return (
        isinstance(layer.aggr_module, (SumAggregation, MeanAggregation))
        and not messages_are_inspected(layer)
        and layer.flow == "source_to_target"
        and x.dim() == 2
        and isinstance(edge_index, Tensor)
        and edge_index.layout == torch.strided
        and (edge_weight is None or edge_weight.dim() == 1)
    )


def can_propagate(layer: Any, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> bool:
    """Return whether :func:`propagate` computes the propagation step of a PyG layer.

    This holds for a sum with symmetric normalization and self-loops that :func:`can_fuse`.
    """
    symmetric = layer.add_self_loops and getattr(layer, "normalize", True) and not getattr(layer, "improved", False)
    return symmetric and isinstance(layer.aggr_module, SumAggregation) and can_fuse(layer, x, edge_index, edge_weight)
