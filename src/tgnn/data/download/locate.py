"""Search for the files of a catalog entry: in the user's folder, in the cache, and then at the sources of the entry."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from tgnn.data.catalog.entry import CatalogEntry, DownloadSource, FileLayout
from tgnn.data.download.http import DownloadError
from tgnn.utils.cache_dir import cache_dir, make_cache_dir
from tgnn.utils.io import sha256_of, write_json
from tgnn.utils.read import read_content

logger = logging.getLogger("tgnn")

_ORIGIN = "origin.json"

T = TypeVar("T")


class DatasetUnavailableError(OSError):
    """No source could provide the data set. The message lists all sources, the reasons and the alternatives."""

    exit_code = 1  # of the command line; the arguments are valid


class ChecksumError(ValueError):
    """A file whose SHA-256 differs from the published one."""


@dataclass(frozen=True)
class LocatedFiles:
    """The folder, layout and source of the files of a data set, and how they differ from the published ones."""

    folder: Path
    layout: FileLayout
    source: str
    differs: str = ""


def obtain(entry: CatalogEntry, root: Path | None, offline: bool, read: Callable[[LocatedFiles], T]) -> T:
    """Find the files of a data set in the user's folder or the cache, or download them into the cache, and read them.

    ``read`` raises an error if the files are not the data set. Downloaded files are kept only if they can be read.
    Otherwise the next source is tried.
    """
    if root is not None and (found := find_in_root(entry, root)):
        return read(found)
    home = cache_dir() / "data" / entry.name
    damage = []
    for source in entry.sources:
        try:
            if found := _find_in_cache(home, source):
                return _read(found, read)
        except ValueError as error:
            damage.append(str(error))
            logger.warning("tgnn: ignoring %s: %s", _cache_folder(home, source), error)
    reasons = [(f"files in {root}" if root else "your own folder", _missing_files(root, entry))]
    reasons += [(f"the cache {home}", "; ".join(damage) or "not found")]
    for source in entry.sources:
        if offline:
            reasons.append((source.name, "skipped because of --offline (offline=True)"))
            continue
        try:
            return _fetch(home, source, read)
        except (OSError, ValueError, ImportError) as error:
            reasons.append((source.name, str(error)))
            logger.info("%s cannot provide %s: %s", source.name, entry.name, error)
    raise DatasetUnavailableError(_explain(entry, reasons, offline))


def find_in_root(entry: CatalogEntry, root: Path) -> LocatedFiles | None:
    """Find the files of a data set in the user's folder and verify their checksums. ``None`` if a file is missing."""
    if not root.is_dir():
        raise NotADirectoryError(
            f"{root} is not a folder, but was given as the folder of {entry.name} (--root, root= or TGNN_DATA)"
        )
    for layout in entry.layouts:
        for name in (*layout.folders, *(("raw", "") if layout.unique_names else ())):
            folder = root / name
            if all((folder / file).exists() for file in layout.files):
                _verify(folder, layout.sha256)
                digests = [sha256_of(folder / file) for file in layout.files] if layout.notes else []
                notes = [layout.notes[digest] for digest in digests if digest in layout.notes]
                return LocatedFiles(folder, layout, f"files in {folder}", " ".join(notes))
    return None


def _verify(folder: Path, digests: Mapping[str, str]) -> None:
    """Compare the SHA-256 of each file with the expected one."""
    for name, expected in digests.items():
        if (actual := sha256_of(folder / name)) != expected:
            raise ChecksumError(
                f"{folder / name} is not the published file: its SHA-256 is {actual}, expected {expected}"
            )


# ---- the cache -------------------------------------------------------------------------------------------------


def _cache_folder(home: Path, source: DownloadSource) -> Path:
    return home / "".join(c if c.isalnum() or c in ".-" else "-" for c in source.name)


def _find_in_cache(home: Path, source: DownloadSource) -> LocatedFiles | None:
    """Return the cached files, if any. Damaged files raise a ValueError."""
    folder = _cache_folder(home, source)
    if not (folder / _ORIGIN).exists():
        return None
    try:
        origin = read_content(folder / _ORIGIN)
        digests = origin.get("sha256") if isinstance(origin, dict) else None
        if not isinstance(digests, dict) or not set(source.layout.files) <= set(digests):
            raise ValueError(f"{_ORIGIN} does not list the files")
        _verify(folder, digests)
    except (OSError, ValueError) as error:
        raise ValueError(f"the cached files are damaged: {error}") from error
    return LocatedFiles(folder, source.layout, source.name, source.differs)


def _fetch(home: Path, source: DownloadSource, read: Callable[[LocatedFiles], T]) -> T:
    """Download into a temporary folder, verify and read the files, and move the folder into the cache."""
    make_cache_dir()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"The cache folder {home} cannot be created: {error}. Set TGNN_CACHE_DIR.") from None
    archives, target = home.parent / "archives", _cache_folder(home, source)
    with _lock(home):
        with contextlib.suppress(ValueError):
            if found := _find_in_cache(home, source):  # another process was faster
                return _read(found, read)
        for left in home.glob("fetching-*"):  # left by killed processes
            _remove(left)
        with tempfile.TemporaryDirectory(dir=home, prefix="fetching-") as scratch:
            folder = Path(scratch) / "files"
            folder.mkdir()
            try:
                source.fetch(folder, archives)
                for name in source.layout.files:
                    if not (folder / name).exists():
                        raise ValueError(f"{name} is missing in the download")
                _verify(folder, source.layout.sha256)
                data = _read(LocatedFiles(folder, source.layout, source.name, source.differs), read)
            except Exception as error:
                if not _is_temporary(error):
                    for name in source.unverified:
                        (archives / name).unlink(missing_ok=True)
                raise
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            digests = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}
            write_json(folder / _ORIGIN, {"source": source.name, "sha256": digests})
            _remove(target)
            os.replace(folder, target)
    return data


def _read(found: LocatedFiles, read: Callable[[LocatedFiles], T]) -> T:
    """Read the files. Any error of a reader about their content becomes a ValueError."""
    try:
        return read(found)
    except Exception as error:
        if isinstance(error, ValueError) or _is_temporary(error):
            raise
        raise ValueError(f"the files cannot be read: {type(error).__name__}: {error}") from error


def _is_temporary(error: Exception) -> bool:
    """Whether the files may be valid: the network, the disk, memory or a package caused the error."""
    of_the_system = isinstance(error, OSError) and error.errno is not None
    return of_the_system or isinstance(error, (DownloadError, ImportError, MemoryError))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _lock(home: Path) -> contextlib.AbstractContextManager[object]:
    """Lock the folder for this process. The lock is released at the end of the ``with`` statement."""
    lock = FileLock(home / "lock")
    try:
        return lock.acquire(timeout=0.1)
    except Timeout:
        logger.info("waiting for another process that downloads into %s", home)
        return lock.acquire()


# ---- error messages --------------------------------------------------------------------------------------------


def _missing_files(root: Path | None, entry: CatalogEntry) -> str:
    if root is None:
        return "no folder was given (--root, root= or TGNN_DATA)"
    wanted = [", ".join(layout.files[:3]) + (", ..." if len(layout.files) > 3 else "") for layout in entry.layouts]
    return f"not found: {'; or '.join(wanted)}"


def _explain(entry: CatalogEntry, reasons: list[tuple[str, str]], offline: bool) -> str:
    tried = "\n".join(f"  - {source}: {reason}" for source, reason in reasons)
    layout = entry.layouts[0]
    first = "run without --offline (offline=True)" if offline else "try again with access to one of these sources"
    return (
        f"{entry.name} could not be downloaded. Tried:\n{tried}\nAlternatives:\n"
        f"  1. {first}. Downloads are kept in the cache folder (TGNN_CACHE_DIR), which can be copied to other "
        f"machines.\n"
        f"  2. put the files into a folder as {layout.folders[0]}/{{{', '.join(layout.files)}}} and pass it as --root "
        f"(root=) or TGNN_DATA.\n"
        f"  3. use a data set that needs no download: cora, karate, digits or digits-graphs."
    )
