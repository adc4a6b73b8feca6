"""Where the factors of a product start, so that it is alive for every degree."""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST_SCALE = 1e-4


def log_spaced_normal_(weight: Tensor, smallest: float = SMALLEST_SCALE) -> Tensor:
    r"""Fills the weight of a map to factors, ``[F, R]``, in place: normal numbers, of another size for each column.

    A factor starts as :math:`1 + \varepsilon`. A product of :math:`d` such factors is alive (neither 0 nor huge) while
    :math:`\varepsilon` is below about :math:`1 / \sqrt{d}` for neighbors that differ and :math:`1 / d` for
    neighbors that are alike, and it says most about its neighbors just there. No one size does for a leaf and for a
    hub, so the :math:`R` columns share out all sizes: column :math:`r` gets :math:`\varepsilon` of standard deviation
    :math:`s^{r / (R - 1)}` for features of variance 1. What is dead for a hub is then alive for its leaves, and the
    other way round. The bias starts at 1 (the product's neutral element).

    Args:
        weight: ``[F, R]``.
        smallest: :math:`s`, for the largest sets: 1e-4 is for hubs of ten thousand; 1 where all sets are small, as the
            neighbors of an atom are. One column alone has its root.

    Example:
        >>> log_spaced_normal_(torch.empty(1000, 5)).std(0).mul(1000**0.5).log10().round().int().tolist()
        [0, -1, -2, -3, -4]
    """
    inputs, rank = weight.shape
    exponents = torch.linspace(0, 1, rank) if rank > 1 else torch.full((rank,), 0.5)
    scales = smallest**exponents
    with torch.no_grad():
        weight.normal_().mul_(scales.to(weight) / max(inputs, 1) ** 0.5)
    return weight


def ones_(bias: Tensor) -> Tensor:
    """Fills with 1, in place."""
    with torch.no_grad():
        return bias.fill_(1)
