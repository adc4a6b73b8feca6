"""Random layers and sets of vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.nn import CPAggregation

LINEAR = {"act": None, "act_out": None}


def random_layer(in_channels: int, out_channels: int, rank: int, seed: int = 0, **options: object) -> CPAggregation:
    """Return a layer in float64 whose parameters are all random. The initial biases of 1 would hide a wrong row."""
    torch.manual_seed(seed)
    layer = CPAggregation(in_channels, out_channels, rank=rank, **{**LINEAR, **options}).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


def random_sets(count: int, k: int, in_channels: int) -> Tensor:
    generator = torch.Generator().manual_seed(k)
    return torch.randn(count, k, in_channels, generator=generator, dtype=torch.float64)


def apply(layer: torch.nn.Module, x: Tensor) -> Tensor:
    """Apply a layer to many sets: ``[n, k, F]`` to ``[n, d]``."""
    n, k, in_channels = x.shape
    return layer(x.reshape(-1, in_channels), torch.arange(n).repeat_interleave(k)).detach()
