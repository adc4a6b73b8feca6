"""Sparse node features, such as bags of words, as the input of PyG models."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.nn.dense import Linear

from tgnn.nn.linear import FeatureLinear


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
