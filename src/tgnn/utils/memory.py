"""Estimates of memory before it is allocated: what does not fit into the machine is refused with its size."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)


def total_memory() -> int:
    """Return the memory of the machine in bytes, or that of its container (cgroup) if it is smaller."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 40
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return min(total, int(text)) if text.isdecimal() else total


def check_memory(size: int, what: str) -> None:
    """Raise a ``MemoryError`` if a number of bytes exceeds the memory of the machine.

    Example:
        >>> check_memory(844 * 10**12, "A matrix of 2^40 x 192 numbers")
        Traceback (most recent call last):
        MemoryError: A matrix of 2^40 x 192 numbers would need 844 TB of memory, but this machine has ...
    """
    if size > total_memory():
        raise MemoryError(
            f"{what} would need {format_bytes(size)} of memory, but this machine has {format_bytes(total_memory())}."
        )


def format_bytes(size: int) -> str:
    """Format a number of bytes.

    Example:
        >>> format_bytes(1500), format_bytes(23_400_000_000), format_bytes(10**30)
        ('1.5 kB', '23.4 GB', '1e+12 EB')
    """
    power = min(max(int(math.log10(max(size, 1))) // 3, 0), 6)
    return f"{size / 1000**power:.3g} {('bytes', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB')[power]}"


class MemoryBudget(TorchFunctionMode):
    """Context in which torch refuses tensors that together exceed the memory, before it allocates them.

    Args:
        what: Subject of the error message.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what, self._size = what, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _FACTORIES:
            shape = (kwargs or {}).get("size", args[0] if args and isinstance(args[0], (tuple, list)) else args)
            self._size += 4 * math.prod(size for size in shape if isinstance(size, int))
            check_memory(self._size, self._what)
        return func(*args, **(kwargs or {}))
