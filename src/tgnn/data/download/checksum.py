"""SHA-256 verification of downloaded files."""

from __future__ import annotations

from pathlib import Path

from tgnn.utils.io import sha256_of


class ChecksumError(ValueError):
    """A file whose SHA-256 differs from the published one."""


def verify(path: Path, expected: str | None) -> None:
    """Raise a :class:`ChecksumError` if the SHA-256 of a file is not the expected one.

    Args:
        path: Path of the file.
        expected: SHA-256 in hexadecimal digits. ``None``: the file is not checked.
    """
    if expected is not None and (actual := sha256_of(path)) != expected:
        raise ChecksumError(f"{path} is not the published file: its SHA-256 is {actual}, expected {expected}")
