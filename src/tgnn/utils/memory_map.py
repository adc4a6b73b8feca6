"""Memory-mapped arrays in ``.npy`` files."""

from __future__ import annotations

import errno
import math
import mmap
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


def create_memmap(path: Path | str, dtype: Any, shape: tuple[int, ...]) -> np.memmap:
    """Create a writable array of zeros in a file.

    The disk space is allocated immediately. So a full disk raises an ``OSError`` here, with the space needed and left,
    and does not kill the process (SIGBUS) when the array is written later.

    Args:
        path: Path of the ``.npy`` file; an existing file is overwritten.
        dtype: Data type of the array.
        shape: Shape of the array.

    Example:
        >>> array = create_memmap(getfixture("tmp_path") / "a.npy", "float32", (2, 3))
        >>> array[1] = 7
        >>> as_tensor(array).sum()
        tensor(21.)
    """
    path, size = Path(path), np.dtype(dtype).itemsize * math.prod(shape)
    check_disk_space(path.parent, size, path)
    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, array.offset + size)
        except OSError as error:
            path.unlink()
            raise _disk_full(path.parent, size, path) if error.errno == errno.ENOSPC else error from error
    return array


def open_memmap(path: Path | str, random_access: bool = False) -> np.memmap:
    """Open the array of a ``.npy`` file read-only. Its data is read from disk only when it is accessed.

    Args:
        path: Path of the ``.npy`` file.
        random_access: Whether to disable read-ahead. By default the operating system reads about thirty pages for each
            page that is accessed, which is too much for random rows of an array that does not fit into memory.
    """
    array = np.lib.format.open_memmap(path, "r")
    if random_access and hasattr(mmap, "MADV_RANDOM"):
        array._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return array


def as_tensor(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the memory of an array. Do not write to the tensor of a read-only array."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")  # the caller does not write
        return torch.from_numpy(array)


def check_disk_space(folder: Path, needed: int, purpose: Path) -> None:
    """Raise an ``OSError`` if the disk of a folder has fewer free bytes than ``purpose``, a path, needs."""
    if shutil.disk_usage(folder).free < needed:
        raise _disk_full(folder, needed, purpose)


def _disk_full(folder: Path, needed: int, purpose: Path) -> OSError:
    sizes = (f"{count / 2**20:,.2f} MiB" for count in (needed, shutil.disk_usage(folder).free))
    return OSError(errno.ENOSPC, "not enough disk space: {} needed, {} free".format(*sizes), str(purpose))
