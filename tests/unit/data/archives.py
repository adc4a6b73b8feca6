"""Small zip and tar archives, and harmful pickles, for the tests of downloads and readers."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

CONTENT = bytes(range(256)) * 2_000
"""Content of a file that archives hold and servers send."""


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo("inner/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            archive.addfile(info)
    return path


def left_behind(folder: Path) -> list[str]:
    """Return the names of all files in a folder."""
    return sorted(path.name for path in folder.iterdir())


class Poison:
    """An object whose pickle creates the file ``poisoned`` in the current folder."""

    def __reduce__(self):
        return os.system, ("touch poisoned",)
