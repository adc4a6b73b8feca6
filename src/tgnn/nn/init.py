"""Initialization of the factors: products must neither vanish nor saturate, at any degree."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SMALLEST_SCALE = 1e-4


def log_spaced_normal_(weight: Tensor, smallest: float = SMALLEST_SCALE) -> Tensor:
    r"""Fill the weight ``[F, R]`` of a CP layer in place with normal values, with a log-spaced scale for each column.

    A factor starts as :math:`1 + \varepsilon`; the bias starts at 1, the neutral element of the product. A product of
    :math:`d` such factors neither vanishes nor saturates if :math:`\varepsilon` is below about :math:`1 / \sqrt{d}`
    for neighbors with different features, and below :math:`1 / d` for neighbors with equal features. It carries most
    information close to that limit. No single scale fits both a leaf and a hub. So the :math:`R` columns get different
    scales: column :math:`r` starts with standard deviation :math:`s^{r / (R - 1)}` for features of variance 1. Some
    columns then have a useful scale, whatever the degree.

    Args:
        weight: Weight to fill, ``[F, R]``.
        smallest: Smallest scale :math:`s`, for the largest sets. 1e-4 fits hubs of degree 10,000. Use 1 if all sets are
            small, as in molecules. A single column gets the scale :math:`\sqrt{s}`.

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


def check_start_scales(**scales: Any) -> None:
    """Check that initial scales, given by name, are above 0 and at most 1."""
    for name, value in scales.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise ValueError(f"{name} is {value!r}, but must be a number above 0 and at most 1.")
