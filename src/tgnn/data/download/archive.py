"""Members of an archive, into a folder and never out of it."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

_ALL_FROM = "/"
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, RuntimeError, OSError)
"""What the readers of archives raise; zipfile a RuntimeError for what it has no method or no password for."""


def extract(archive: Path, members: Mapping[str, str], folder: Path) -> None:
    """Writes the named members of a zip, wheel or tar file. Nothing else in it is touched.

    Args:
        archive: Its kind is told by its content.
        members: For each file in the archive, where it goes below ``folder``. A name that ends in ``/`` takes all
            that is below it.
        folder: Nothing is written outside of it, whatever the archive says.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                names = [info.filename for info in zipped.infolist() if not info.is_dir()]
                _write(names, zipped.open, members, archive, folder)
        else:
            with tarfile.open(archive) as tar:
                files = {info.name: info for info in tar.getmembers() if info.isfile()}  # no links, no devices
                _write(list(files), lambda name: tar.extractfile(files[name]), members, archive, folder)
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk; gzip and bz2 raise one without a number for bytes that they cannot make sense of
        raise ValueError(f"{archive.name} is not a whole archive: {error}") from error


def _write(
    names: list[str],
    read: Callable[[str], IO[bytes] | None],
    members: Mapping[str, str],
    archive: Path,
    folder: Path,
) -> None:
    for wanted, target in members.items():
        whole = wanted.endswith(_ALL_FROM)
        found = [name for name in names if (name.startswith(wanted) if whole else name == wanted)]
        if not found:
            raise ValueError(f"{archive.name} has no {wanted}")
        for name in found:
            place = _inside(folder, target + name.removeprefix(wanted) if whole else target, archive)
            place.parent.mkdir(parents=True, exist_ok=True)
            source = read(name)
            if source is None:
                raise ValueError(f"{archive.name} has no content for {name}")
            with source, place.open("wb") as file:
                shutil.copyfileobj(source, file)


def _inside(folder: Path, target: str, archive: Path) -> Path:
    """The place below the folder; refuses what leads out of it."""
    pure = PurePosixPath(target.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or (pure.parts and ":" in pure.parts[0]):
        raise ValueError(f"{archive.name} is refused: its member {target!r} would be written outside of its folder")
    return folder / pure
