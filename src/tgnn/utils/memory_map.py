"""Memory-mapped arrays in ``.npy`` files."""

from __future__ import annotations

import errno
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
    offset = allocate(path, dtype, shape)
    return np.memmap(path, dtype, "r+", offset, shape)


def open_memmap(path: Path | str) -> np.memmap:
    """Open the array of a ``.npy`` file read-only. Its data is read from disk only when it is accessed."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    assert isinstance(array, np.memmap)
    return array


def as_tensor(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the memory of an array. Do not write to the tensor of a read-only array."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")  # the caller does not write
        return torch.from_numpy(array)


def advise_random_access(array: np.memmap) -> np.memmap:
    """Disable read-ahead for an array that is accessed at random positions.

    By default the operating system reads about thirty pages for each page that is accessed. This is too much for arrays
    that do not fit into memory.
    """
    if hasattr(mmap, "MADV_RANDOM"):
        array._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return array


def allocate(path: Path | str, dtype: Any, shape: tuple[int, ...]) -> int:
    """Create a ``.npy`` file with allocated disk space and return the offset of its data in bytes.

    Args:
        path: Path of the ``.npy`` file; an existing file is overwritten.
        dtype: Data type of the array.
        shape: Shape of the array.
    """
    path, dtype = Path(path), np.dtype(dtype)
    with path.open("wb") as file:
        _write_header(file, dtype, shape)
        offset = file.tell()
    size = offset + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    try:
        check_disk_space(path.parent, size, path)
        _allocate_space(path, size)
    except OSError as error:
        path.unlink()
        if error.errno == errno.ENOSPC and not error.filename:
            raise _disk_full(path, size, shutil.disk_usage(path.parent).free) from error
        raise
    return offset


def shorten(path: Path | str, rows: int) -> None:
    """Truncate an array in a file to its first rows, without a copy.

    Args:
        path: Path of the ``.npy`` file.
        rows: Number of rows to keep.
    """
    array = open_memmap(path)
    offset, dtype, shape = array.offset, array.dtype, (rows, *array.shape[1:])
    size = offset + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    del array  # a memory map must not be longer than its file
    with Path(path).open("r+b") as file:
        _write_header(file, dtype, shape)
        if file.tell() != offset:  # cannot happen, because numpy pads the header
            raise RuntimeError(f"The header of {path} has {file.tell()} bytes, but had {offset}.")
        file.truncate(size)


def check_disk_space(folder: Path, needed: int, purpose: Path | str) -> None:
    """Raise an ``OSError`` if a disk has too little free space.

    Args:
        folder: Folder on the disk.
        needed: Number of bytes needed.
        purpose: Path that needs the space, for the error message.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _disk_full(purpose, needed, free)


def _disk_full(purpose: Path | str, needed: int, free: int) -> OSError:
    message = f"not enough disk space: {_size(needed)} needed, {_size(free)} free"
    return OSError(errno.ENOSPC, message, str(purpose))


def _size(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**28 else f"{count / 2**20:,.2f} MiB"


def _allocate_space(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # no way to allocate the space in advance
            file.truncate(size)


def _write_header(file: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
