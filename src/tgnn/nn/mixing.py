"""Mixing: normalize and combine the product branch and the sum branch of a layer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.nn.norm import BatchNorm

from tgnn.nn.feature_maps import check_choice


class SumMix(torch.nn.Module):
    """Add both branches, ``high + low``, as in Eq. (5) of the paper.

    Example:
        >>> SumMix()(torch.ones(1), torch.ones(1))
        tensor([2.])
    """

    def forward(self, high: Tensor, low: Tensor) -> Tensor:
        return high + low

    def reset_parameters(self) -> None:
        pass


class ScalarMix(torch.nn.Module):
    """Weight both branches by two learned scalars, ``a_high * high + a_low * low`` (appendix, "Low and High Terms").

    The weights sum to 1. Both are initialized with 0.5.

    Example:
        >>> mix = ScalarMix()
        >>> float(mix.a_high), float(mix.a_low)
        (0.5, 0.5)
    """

    def __init__(self) -> None:
        super().__init__()
        self.logit = Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        torch.nn.init.zeros_(self.logit)

    @property
    def a_high(self) -> Tensor:
        """Weight of the product branch (detached)."""
        return self.logit.detach().sigmoid()

    @property
    def a_low(self) -> Tensor:
        """Weight of the sum branch (detached)."""
        return 1 - self.a_high

    def forward(self, high: Tensor, low: Tensor) -> Tensor:
        high, low = _promote(high, low)
        return torch.lerp(low, high, self.logit.sigmoid().to(low.dtype))


class NodeMix(torch.nn.Module):
    """Weight both branches for each node, ``a_high(v) * high_v + a_low(v) * low_v`` (future work in the paper).

    The weights are a softmax over two scores, each linear in one branch. Both are initialized with 0.5.

    Args:
        channels: Number of output features of the branches.

    Example:
        >>> NodeMix(4)(torch.ones(2, 4), torch.zeros(2, 4))[0].tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.high = Parameter(torch.zeros(channels))
        self.low = Parameter(torch.zeros(channels))

    def reset_parameters(self) -> None:
        torch.nn.init.zeros_(self.high)
        torch.nn.init.zeros_(self.low)

    def a_high(self, high: Tensor, low: Tensor) -> Tensor:
        """Return the weight of the product branch of each node, ``[N]``."""
        return torch.sigmoid(high @ self.high - low @ self.low)

    def forward(self, high: Tensor, low: Tensor) -> Tensor:
        high, low = _promote(high, low)
        return torch.lerp(low, high, self.a_high(high, low).unsqueeze(-1).to(low.dtype))


class ScaledBatchNorm(BatchNorm):
    """Batch normalization of a branch whose learned scale starts at a given number for all channels.

    A training batch of one row is normalized by the running statistics.

    Args:
        channels: Number of output features of the branch.
        scale: Initial scale. A small number starts training with little influence of the branch.

    Example:
        >>> ScaledBatchNorm(2, 0.01)(torch.tensor([[1.0, 2.0], [3.0, 6.0]])).mul(100).round().tolist()
        [[-1.0, -1.0], [1.0, 1.0]]
    """

    def __init__(self, channels: int, scale: float) -> None:
        super().__init__(channels, allow_single_element=True)
        self.scale = scale
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.constant_(self.module.weight, self.scale)


def _promote(high: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """Convert both to their common type, because they may differ under autocast."""
    dtype = torch.promote_types(high.dtype, low.dtype)
    return high.to(dtype), low.to(dtype)


def make_mix(name: str, channels: int) -> SumMix | ScalarMix | NodeMix:
    """Create the module for ``mix``: ``"sum"``, ``"scalar"`` or ``"node"``."""
    check_choice("mix", name, ("sum", "scalar", "node"))
    if name == "node":
        return NodeMix(channels)
    return SumMix() if name == "sum" else ScalarMix()
