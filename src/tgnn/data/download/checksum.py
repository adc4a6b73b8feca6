"""Is it the file that was meant?"""

from __future__ import annotations

import hashlib
from pathlib import Path


class ChecksumError(ValueError):
    """A file that is not the one that was published."""


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _old(path)


def _old(path: Path) -> str:
    """The same on Python 3.10."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def verify(path: Path, expected: str | None) -> None:
    """Refuses a file with another checksum, and names it."""
    if expected is not None and (found := sha256_of(path)) != expected:
        raise ChecksumError(f"{path} is not the published file: its SHA-256 is {found}, expected {expected}")
