"""Arguments that must be what they are called."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def check_size(name: str, value: Any, at_least: int = 1, lazy: bool = False) -> None:
    """A whole number of at least so much; with ``lazy`` also -1, "taken from the first input"."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, but must be a whole number")
    if value < at_least and not (lazy and value == -1):
        raise ValueError(f"{name} is {value}, but must be at least {at_least}{' (or -1)' if lazy else ''}")


def check_features(name: str, x: Any, width: int, weight: Tensor) -> None:
    """Rows of numbers that a map of that width and weight can take."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.dim() == 0 or x.size(-1) != width:
        raise ValueError(f"{name} has {x.size(-1) if x.dim() else 0} features, but the layer was made for {width}")
    if not x.is_floating_point():
        way_out = "convert it with .float(), or give GraphTGNN the number of categories as a list"
        raise TypeError(f"{name} is {x.dtype}, but the weights are {weight.dtype}: {way_out}")
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"{name} is {x.dtype}, but the weights are {weight.dtype}: convert it with .to({weight.dtype})")


def check_start(smallest: Any) -> None:
    """A size at which factors can start: above 0, at most 1."""
    if isinstance(smallest, bool) or not isinstance(smallest, (int, float)) or not 0 < smallest <= 1:
        raise ValueError(f"smallest_start is {smallest!r}, but must be a number above 0 and at most 1")
