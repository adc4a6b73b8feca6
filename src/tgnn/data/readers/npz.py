"""Read and write ``.npz`` files of arrays. Nothing is unpickled, and files are written atomically."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from tgnn.utils.io import atomic_path

_END_RECORD = 22
"""Size in bytes of the end-of-central-directory record of a zip file."""


@contextmanager
def open_npz(path: Path | str, what: str) -> Iterator[Any]:
    """Open a ``.npz`` file. Every failure is raised as a ``ValueError`` with the path.

    A damaged file can fail in zip, in zlib, in numpy's headers or for lack of memory.

    Args:
        path: Path of the file.
        what: What the file should be, for the error message.
    """
    with Path(path).open("rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as file:
                _check_member_count(stream, len(file.zip.infolist()))
                yield file
        except Exception as error:
            raise ValueError(f"{path} is not {what}: {error}") from error


def _check_member_count(stream: IO[bytes], actual: int) -> None:
    """Compare the number of arrays with the end record, because Python ignores a truncated table of contents."""
    position = stream.tell()
    stream.seek(-_END_RECORD, os.SEEK_END)
    record = stream.read(_END_RECORD)
    stream.seek(position)
    expected = int.from_bytes(record[10:12], "little")
    if record.startswith(b"PK\5\6") and expected not in (actual, 0xFFFF):
        raise ValueError(f"it has {actual} arrays, but should have {expected}")


def read_npz(path: Path | str, what: str) -> dict[str, np.ndarray]:
    """Read all arrays of a file.

    Args:
        path: Path of the ``.npz`` file.
        what: What the file should be, for the error message.
    """
    with open_npz(path, what) as file:
        return {name: file[name] for name in file.files}


def write_npz(path: Path | str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays atomically.

    Args:
        path: Path of the ``.npz`` file.
        arrays: Arrays by name.
    """
    with atomic_path(Path(path)) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def shrink_dtype(array: np.ndarray) -> np.ndarray:
    """Cast integers to the smallest type that holds them. Other arrays are returned unchanged.

    Example:
        >>> [str(shrink_dtype(np.array(values)).dtype) for values in ([3, 200], [-1, 200], [-1, 2**40])]
        ['uint8', 'int16', 'int64']
    """
    if array.dtype.kind not in "iu" or array.size == 0 or array.ndim == 0:
        return array
    least, most = int(array.min()), int(array.max())
    ends = (least, most) if least >= 0 else (least, -1 - max(most, 0))  # with a sign, n needs the room of -1 - n
    return array.astype(np.result_type(*(np.min_scalar_type(end) for end in ends)))


def as_int64(array: np.ndarray, name: str) -> Tensor:
    """Convert integers to an int64 tensor. Floats are accepted only if they are integers.

    Args:
        array: Array of any shape.
        name: Name of the array in error messages.

    Example:
        >>> as_int64(np.array([1.0, 2.0]), "n"), as_int64(np.array([], dtype=float), "n")
        (tensor([1, 2]), tensor([], dtype=torch.int64))
    """
    fits = array.dtype.kind in "iub"
    if array.dtype.kind == "f":
        fits = bool(((np.abs(array) < 2**53) & (array == np.floor(array))).all())
    if not fits or (array.dtype == np.uint64 and array.size and array.max() >= 2**63):
        raise ValueError(f"{name} must contain integers, got {array.dtype}: {array.reshape(-1)[:5].tolist()}")
    return torch.from_numpy(array.astype(np.int64))


def as_tensor(array: np.ndarray, name: str) -> Tensor:
    """Convert an array to a tensor, integers to int64 and floats to float32.

    Args:
        array: Array with a row per node, edge or graph.
        name: Name of the array in error messages.
    """
    if array.ndim == 0 or array.dtype.kind not in "iubf":
        raise ValueError(f"{name} must contain numbers, got {array.dtype} {list(array.shape)}")
    return torch.from_numpy(array.astype(np.float32)) if array.dtype.kind == "f" else as_int64(array, name)
