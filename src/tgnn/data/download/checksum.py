"""SHA-256 verification of downloaded files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tgnn.utils.progress import Tick, no_tick

_CHUNK = 1 << 22


class ChecksumError(ValueError):
    """A file whose SHA-256 differs from the published one."""


def sha256_of(path: Path, tick: Tick = no_tick) -> str:
    """Compute the SHA-256 of a file in hexadecimal digits.

    Args:
        path: Path of the file.
        tick: Called with the number of bytes of each chunk that was read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            tick(len(chunk))
    return digest.hexdigest()


def verify(path: Path, expected: str | None) -> None:
    """Raise a :class:`ChecksumError` if the SHA-256 of a file is not the expected one.

    Args:
        path: Path of the file.
        expected: SHA-256 in hexadecimal digits. ``None``: the file is not checked.
    """
    if expected is not None and (actual := sha256_of(path)) != expected:
        raise ChecksumError(f"{path} is not the published file: its SHA-256 is {actual}, expected {expected}")
