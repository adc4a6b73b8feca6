"""Memory that was freed, kept for the next step."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def keep_freed_memory(gib: float = 1.0) -> bool:
    """Tells the C library to keep up to so much freed memory instead of giving it back to the system at once.

    A training step frees arrays of N x R that the next step allocates again. Where glibc returns them in between, the
    system must hand out and clear every page anew: a sixth of an epoch on Cora with rank 512. This concerns the whole
    process, so it is for whoever owns it to call: the command line does, ``import tgnn`` does not.

    Args:
        gib: How much to keep; below 2.

    Returns:
        Whether it was set: on Linux with glibc only.

    Example:
        >>> keep_freed_memory() in (True, False)
        True
    """
    if not 0 < gib < 2:
        raise ValueError(f"gib is {gib}, but must lie between 0 and 2")
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    size = int(gib * 2**30)
    return bool(mallopt(_M_MMAP_THRESHOLD, size) and mallopt(_M_TRIM_THRESHOLD, size))
