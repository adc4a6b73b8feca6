"""Files of arrays (``.npz``): read without unpickling anything, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

_END = 22
"""Bytes of the end of a zip."""


@contextmanager
def open_npz(path: Path | str, what: str) -> Iterator[Any]:
    """The arrays of a file by name; whatever is wrong with it is a ``ValueError`` that names it.

    A damaged file fails in many ways: in zip, in zlib, in the headers of numpy, or for want of memory.

    Args:
        path: The ``.npz``.
        what: What it should be, for the error.
    """
    with Path(path).open("rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as file:
                _count(stream, len(file.zip.infolist()))
                yield file
        except Exception as error:
            raise ValueError(f"{path} is not {what}: {error}") from error


def _count(stream: IO[bytes], found: int) -> None:
    """Python leaves out what the table of contents does not name any more, though its end says how many there were."""
    place = stream.tell()
    stream.seek(-_END, os.SEEK_END)
    end = stream.read(_END)
    stream.seek(place)
    wanted = int.from_bytes(end[10:12], "little")
    if end.startswith(b"PK\5\6") and wanted not in (found, 0xFFFF):
        raise ValueError(f"it has {found} arrays, but should have {wanted}")


def read_npz(path: Path | str, what: str) -> dict[str, np.ndarray]:
    """All arrays of a file.

    Args:
        path: The ``.npz``.
        what: What it should be, for the error.
    """
    with open_npz(path, what) as file:
        return {name: file[name] for name in file.files}


def write_npz(path: Path | str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays: all or nothing.

    Args:
        path: The ``.npz``.
        arrays: By name.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def small(array: np.ndarray) -> np.ndarray:
    """Whole numbers in the smallest type that holds them.

    Example:
        >>> small(np.array([3, 200])).dtype, small(np.array([-1, 200])).dtype, small(np.array([-1, 2**40])).dtype
        (dtype('uint8'), dtype('int16'), dtype('int64'))
    """
    if array.dtype.kind not in "iu" or array.size == 0 or array.ndim == 0:
        return array
    least, most = int(array.min()), int(array.max())
    ends = (least, most) if least >= 0 else (least, -1 - max(most, 0))  # with a sign, n needs the room of -1 - n
    return array.astype(np.result_type(*(np.min_scalar_type(end) for end in ends)))


def whole(array: np.ndarray, name: str) -> Tensor:
    """Whole numbers as int64; others are refused, and not cut.

    Args:
        array: Of any shape.
        name: What to call it.

    Example:
        >>> whole(np.array([1.0, 2.0]), "n"), whole(np.array([], dtype=float), "n")
        (tensor([1, 2]), tensor([], dtype=torch.int64))
    """
    fits = array.dtype.kind in "iub"
    if array.dtype.kind == "f":
        fits = bool(((np.abs(array) < 2**53) & (array == np.floor(array))).all())
    if not fits or (array.dtype == np.uint64 and array.size and array.max() >= 2**63):
        raise ValueError(f"{name} must hold whole numbers, got {array.dtype}: {array.reshape(-1)[:5].tolist()}")
    return torch.from_numpy(array.astype(np.int64))


def as_tensor(array: np.ndarray, name: str) -> Tensor:
    """Integers as int64, numbers as float32.

    Args:
        array: With a row for each node, edge or graph.
        name: What to call it.
    """
    if array.ndim == 0 or array.dtype.kind not in "iubf":
        raise ValueError(f"{name}: arrays must hold numbers, got {array.dtype} {list(array.shape)}")
    return torch.from_numpy(array.astype(np.float32)) if array.dtype.kind == "f" else whole(array, name)
