"""Arrays that lie in files (``.npy``) and are read and written as if they were in memory."""

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
    """A new array in a file, to be written; all zeros.

    Its space is really taken: a full disk is an error here, which says how much is needed and there, and not the end of
    the process (SIGBUS) when something is written later.

    Args:
        path: Of the ``.npy``; what is there is written over.
        dtype: Of its numbers.
        shape: Of the array.

    Example:
        >>> array = create_memmap(getfixture("tmp_path") / "a.npy", "float32", (2, 3))
        >>> array[1] = 7
        >>> as_tensor(array).sum()
        tensor(21.)
    """
    offset = allocate(path, dtype, shape)
    return np.memmap(path, dtype, "r+", offset, shape)


def open_memmap(path: Path | str) -> np.memmap:
    """The array of a ``.npy``, to be read: nothing is read before it is asked for, and nothing can be written."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    assert isinstance(array, np.memmap)
    return array


def as_tensor(array: np.ndarray) -> Tensor:
    """The same memory as a tensor. One of an array that cannot be written must not be written, either."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")  # nobody writes
        return torch.from_numpy(array)


def advise_random_access(array: np.memmap) -> np.memmap:
    """Tells the system that what lies beside a row is not asked for next, so that it is not read ahead.

    It reads some thirty pages for one where it does not know; for what has no room in memory that is too much.
    """
    if hasattr(mmap, "MADV_RANDOM"):
        array._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return array


def allocate(path: Path | str, dtype: Any, shape: tuple[int, ...]) -> int:
    """Makes a ``.npy`` of that size and says where its numbers begin; its space is taken, as above.

    Args:
        path: Of the ``.npy``; what is there is written over.
        dtype: Of its numbers.
        shape: Of the array.
    """
    path, dtype = Path(path), np.dtype(dtype)
    with path.open("wb") as file:
        _write_header(file, dtype, shape)
        offset = file.tell()
    size = offset + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    try:
        check_disk_space(path.parent, size, path)
        _take(path, size)
    except OSError as error:
        path.unlink()
        if error.errno == errno.ENOSPC and not error.filename:
            raise _full(path, size, shutil.disk_usage(path.parent).free) from error
        raise
    return offset


def shorten(path: Path | str, rows: int) -> None:
    """Cuts an array in a file behind its first rows, without a copy.

    Args:
        path: Of the ``.npy``.
        rows: How many stay.
    """
    array = open_memmap(path)
    offset, dtype, shape = array.offset, array.dtype, (rows, *array.shape[1:])
    size = offset + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    del array  # no map may be longer than its file
    with Path(path).open("r+b") as file:
        _write_header(file, dtype, shape)
        if file.tell() != offset:  # numpy leaves room for longer numbers: this does not happen
            raise RuntimeError(f"the header of {path} has {file.tell()} bytes and had {offset}")
        file.truncate(size)


def check_disk_space(folder: Path, needed: int, what: Path | str) -> None:
    """An ``OSError`` if a disk has less space left than is needed.

    Args:
        folder: On the disk.
        needed: Bytes.
        what: What they are for: a path, for the error.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _full(what, needed, free)


def _full(what: Path | str, needed: int, free: int) -> OSError:
    text = f"not enough space on the disk: {_size(needed)} are needed, and {_size(free)} are left"
    return OSError(errno.ENOSPC, text, str(what))


def _size(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**28 else f"{count / 2**20:,.2f} MiB"


def _take(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # the check above is all there is
            file.truncate(size)


def _write_header(file: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    described = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": described, "fortran_order": False, "shape": shape})
