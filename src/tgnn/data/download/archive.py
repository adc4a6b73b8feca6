"""Safe extraction of files from zip, wheel and tar archives.

``pooch.Unzip`` and ``pooch.Untar`` are not used here. Below Python 3.12, ``Untar`` writes members such as ``../file``
outside of the target folder and creates links. ``Unzip`` extracts such members under another name instead of rejecting
the archive. Neither can rename members.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, RuntimeError, OSError)
"""Errors of damaged archives. zipfile raises RuntimeError for encrypted files and unknown compression methods."""


def extract(archive: Path, members: Mapping[str, str], folder: Path) -> None:
    """Extract members of a zip, wheel or tar file to their target paths below ``folder``.

    A member whose name ends in ``/`` stands for all files below it. Paths that lead out of the folder are an error.
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
            raise  # an error of the disk; gzip and bz2 raise an OSError without errno for invalid data
        raise ValueError(f"{archive.name} is not a valid archive: {error}") from error


def _write(
    names: list[str], read: Callable[[str], IO[bytes] | None], members: Mapping[str, str], archive: Path, folder: Path
) -> None:
    for wanted, target in members.items():
        matches = [name for name in names if name == wanted or (wanted.endswith("/") and name.startswith(wanted))]
        if not matches:
            raise ValueError(f"{archive.name} does not contain {wanted}")
        for name in matches:
            path = PurePosixPath((target + name.removeprefix(wanted)).replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
                raise ValueError(
                    f"{archive.name} is rejected: its member {name!r} would be written outside of the target folder"
                )
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            source = read(name)
            assert source is not None  # only regular files are listed
            with source, (folder / path).open("wb") as file:
                shutil.copyfileobj(source, file)
