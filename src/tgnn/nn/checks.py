"""Validation of the arguments of layers and models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def check_size(name: str, value: Any, minimum: int = 1, lazy: bool = False) -> None:
    """Check that a size is an integer of at least ``minimum``, or -1 (inferred from the input) if ``lazy``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, but must be an integer.")
    if value < minimum and not (lazy and value == -1):
        raise ValueError(f"{name} is {value}, but must be at least {minimum}{' (or -1)' if lazy else ''}.")


def check_features(name: str, x: Any, in_channels: int, weight: Tensor) -> None:
    """Check that features fit a linear map with this number of inputs and this weight."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}.")
    if x.dim() == 0 or x.size(-1) != in_channels:
        raise ValueError(f"{name} has {x.size(-1) if x.dim() else 0} features, but the layer expects {in_channels}.")
    if not x.is_floating_point():
        raise TypeError(
            f"{name} is {x.dtype}, but the weights are {weight.dtype}; convert it with .float(), or pass the number of "
            "categories of each column as a list to GraphTGNN."
        )
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{name} is {x.dtype}, but the weights are {weight.dtype}; convert it with .to({weight.dtype})."
        )


def check_smallest_start(value: Any) -> None:
    """Check that the smallest initial scale of the factors is above 0 and at most 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ValueError(f"smallest_start is {value!r}, but must be a number above 0 and at most 1.")
