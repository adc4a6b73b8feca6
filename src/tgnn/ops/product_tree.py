"""Products of groups of numbers by a binary tree, in torch operations only.

A tree multiplies adjacent numbers of a group in pairs, level by level. Nothing is divided, so products of all numbers
but one are exact at zeros, and autograd can differentiate them any number of times. The order of the multiplications
depends on the sizes of the groups only, so the bits do not depend on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from tgnn.ops.scaled import Dual, Scaled

Number = TypeVar("Number", Scaled, Dual)


class _Level(NamedTuple):
    left: Tensor
    """Left child of each parent; the last one of an odd number of children has no sibling."""
    paired: Tensor
    """Whether the parent has a right child, at ``left + 1``. ``[parents, 1]``."""
    parent: Tensor
    """Parent of each child."""
    sibling: Tensor
    """Other child of the same parent, or the child itself."""
    has_sibling: Tensor
    """``[children, 1]``."""


class ProductTree:
    """The trees of all groups.

    Args:
        sizes: Number of leaves of each group, ``[groups]``. The leaves of a group are adjacent.
    """

    def __init__(self, sizes: Tensor) -> None:
        self.levels: list[_Level] = []
        while sizes.numel() and int(sizes.max()) > 1:
            half = (sizes + 1) // 2
            group = torch.arange(sizes.numel(), device=sizes.device).repeat_interleave(half)
            local = torch.arange(group.numel(), device=sizes.device) - (half.cumsum(0) - half)[group]
            left = (sizes.cumsum(0) - sizes)[group] + 2 * local
            paired = 2 * local + 1 < sizes[group]
            right = left + paired.long()
            parent, sibling = (torch.empty(int(sizes.sum()), dtype=torch.int64, device=sizes.device) for _ in range(2))
            parent[right] = parent[left] = torch.arange(group.numel(), device=sizes.device)
            sibling[right], sibling[left] = left, right
            has_sibling = sibling != torch.arange(sibling.numel(), device=sizes.device)
            self.levels.append(_Level(left, paired.unsqueeze(1), parent, sibling, has_sibling.unsqueeze(1)))
            sizes = half

    def products(self, leaves: Number) -> Number:
        """Return the product of each group that is not empty."""
        return self._levels_of(leaves)[-1]

    def exclusive_products(self, leaves: Number, one: Number) -> Number:
        """Return for each leaf the product of the other leaves of its group; ``one`` holds ones for all groups."""
        *nodes, roots = self._levels_of(leaves)
        exclusive = one[: _length(roots)]
        for level, values in zip(reversed(self.levels), reversed(nodes)):
            exclusive = exclusive[level.parent] * values[level.sibling].or_one(level.has_sibling)
        return exclusive

    def _levels_of(self, leaves: Number) -> list[Number]:
        values = [leaves]
        for level in self.levels:
            right = values[-1][level.left + level.paired.squeeze(1).long()].or_one(level.paired)
            values.append(values[-1][level.left] * right)
        return values


def _length(x: Scaled | Dual) -> int:
    return x.mantissa.size(0) if isinstance(x, Scaled) else x.value.mantissa.size(0)
