"""Search for the files of a catalog entry: in the user's folder, in the cache, and then at the sources of the entry."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from tgnn.data.catalog.entry import CatalogEntry, DownloadSource, FileLayout
from tgnn.data.dataset_info import LoadedData
from tgnn.data.download.checksum import verify
from tgnn.data.download.http import DownloadError
from tgnn.utils.cache_dir import cache_dir, make_cache_dir
from tgnn.utils.io import sha256_of, write_json

logger = logging.getLogger("tgnn")

_ORIGIN = "origin.json"


class DatasetUnavailableError(OSError):
    """No source could provide the data set. The message lists all sources, the reasons and the alternatives."""

    exit_code = 1  # of the command line; the arguments are valid


@dataclass(frozen=True)
class LocatedData:
    """Files of a data set and the data read from them."""

    folder: Path
    """Folder of the files."""
    layout: FileLayout
    """Names, checksums and reader of the files."""
    source: str
    """Where the files come from."""
    differs: str = ""
    """How the data differ from the published data set."""
    data: LoadedData | None = None
    """The data, if they have been read."""


Read = Callable[[LocatedData], LoadedData]


def obtain(entry: CatalogEntry, root: Path | None, offline: bool, read: Read) -> LocatedData:
    """Find the files of a data set, or download them into the cache, and read them.

    Args:
        entry: Catalog entry of the data set.
        root: User's folder that is searched first.
        offline: Whether to use no network.
        read: Reads the files and raises an error if they are not the data set. Downloaded files are kept only if they
            can be read. Otherwise the next source is tried.
    """
    if root is not None and (found := find_in_root(entry, root)):
        return replace(found, data=read(found))
    home = cache_dir() / "data" / entry.name
    damage = []
    for source in entry.sources:
        try:
            if found := _cached(home, source, read):
                return found
        except ValueError as error:
            damage.append(str(error))
            logger.warning("tgnn: ignoring %s: %s", _cache_folder(home, source), error)
    reasons = [(f"files in {root}" if root else "files in a folder of yours", _missing_files(root, entry))]
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


# ---- the user's own files --------------------------------------------------------------------------------------


def find_in_root(entry: CatalogEntry, root: Path) -> LocatedData | None:
    """Find the files of a data set in the user's folder and verify their checksums.

    Args:
        entry: Catalog entry of the data set.
        root: The user's folder. A path that is not a folder is an error.

    Returns:
        The files, not yet read, or ``None`` if no layout of the data set is complete in the folder.
    """
    if not root.is_dir():
        raise NotADirectoryError(
            f"{root} is not a folder, but was given as the folder of {entry.name} (--root, root= or TGNN_DATA)"
        )
    for folder, layout in _candidates(root, entry):
        if all((folder / name).exists() for name in layout.files):
            for name, digest in layout.sha256.items():
                verify(folder / name, digest)
            notes = [
                layout.notes[d]
                for name in layout.files
                if layout.notes and (d := sha256_of(folder / name)) in layout.notes
            ]
            return LocatedData(folder, layout, f"files in {folder}", " ".join(notes))
    logger.info("%s is not under %s (%s)", entry.name, root, _missing_files(root, entry))
    return None


def _candidates(root: Path, entry: CatalogEntry) -> Iterator[tuple[Path, FileLayout]]:
    for layout in entry.layouts:
        for folder in (*layout.folders, *(("raw", "") if layout.unique_names else ())):
            yield root / folder, layout


def _missing_files(root: Path | None, entry: CatalogEntry) -> str:
    if root is None:
        return "no folder was given (--root, root= or TGNN_DATA)"
    wanted = "; or ".join(
        ", ".join(layout.files[:3]) + (", ..." if len(layout.files) > 3 else "") for layout in entry.layouts
    )
    return f"not found: {wanted}" if wanted else "this data set has no files"


# ---- the cache -------------------------------------------------------------------------------------------------


def _cache_folder(home: Path, source: DownloadSource) -> Path:
    return home / "".join(c if c.isalnum() or c in ".-" else "-" for c in source.name)


def _cached(home: Path, source: DownloadSource, read: Read) -> LocatedData | None:
    """Return the cached files, if any. Damaged files raise a ValueError."""
    folder = _cache_folder(home, source)
    if not (folder / _ORIGIN).exists():
        return None
    try:
        for name, digest in _digests(folder, source.layout).items():
            verify(folder / name, digest)
    except (OSError, ValueError) as error:
        raise ValueError(f"the cached files are damaged: {error}") from error
    return _read(LocatedData(folder, source.layout, source.name, source.differs), read)


def _digests(folder: Path, layout: FileLayout) -> dict[str, str]:
    origin = json.loads((folder / _ORIGIN).read_text())
    digests = origin.get("sha256") if isinstance(origin, dict) else None
    if not isinstance(digests, dict) or not set(layout.files) <= set(digests):
        raise ValueError(f"{_ORIGIN} does not list the files")
    return {name: str(digest) for name, digest in digests.items()}


def _fetch(home: Path, source: DownloadSource, read: Read) -> LocatedData:
    """Download into a temporary folder, read the files, and move the folder into the cache."""
    _make(home)
    archives, target = home.parent / "archives", _cache_folder(home, source)
    with _lock(home):
        with contextlib.suppress(ValueError):
            if found := _cached(home, source, read):  # another process was faster
                return found
        for left in home.glob("fetching-*"):  # left by killed processes
            _remove(left)
        with tempfile.TemporaryDirectory(dir=home, prefix="fetching-") as scratch:
            folder = Path(scratch) / "files"
            folder.mkdir()
            try:
                source.fetch(folder, archives)
                found = _verified(folder, source, read)
            except Exception as error:
                if not _is_temporary(error):
                    for name in source.unverified:
                        (archives / name).unlink(missing_ok=True)
                raise
            _remove(target)
            os.replace(folder, target)
    return replace(found, folder=target)


def _verified(folder: Path, source: DownloadSource, read: Read) -> LocatedData:
    """Verify and read downloaded files, and store the checksums of all of them."""
    for name in source.layout.files:
        if not (folder / name).exists():
            raise ValueError(f"{name} is missing in the download")
        verify(folder / name, source.layout.sha256.get(name))
    found = _read(LocatedData(folder, source.layout, source.name, source.differs), read)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}
    write_json(folder / _ORIGIN, {"source": source.name, "sha256": digests})
    return found


def _read(found: LocatedData, read: Read) -> LocatedData:
    """Read the files. Any error of a reader about their content becomes a ValueError."""
    try:
        return replace(found, data=read(found))
    except Exception as error:
        if isinstance(error, ValueError) or _is_temporary(error):
            raise
        raise ValueError(f"the files cannot be read: {type(error).__name__}: {error}") from error


def _is_temporary(error: Exception) -> bool:
    """Whether the files may be valid: the network, the disk, memory or a package caused the error."""
    of_the_system = isinstance(error, OSError) and error.errno is not None
    return of_the_system or isinstance(error, (DownloadError, ImportError, MemoryError))


def _make(home: Path) -> None:
    make_cache_dir()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"The cache folder {home} cannot be created: {error}. Set TGNN_CACHE_DIR.") from None


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


# ---- nothing worked --------------------------------------------------------------------------------------------


def _explain(entry: CatalogEntry, reasons: list[tuple[str, str]], offline: bool) -> str:
    tried = "\n".join(f"  - {source}: {reason}" for source, reason in reasons)
    files = ", ".join(entry.layouts[0].files) if entry.layouts else ""
    folder = entry.layouts[0].folders[0] if entry.layouts and entry.layouts[0].folders else "."
    first = "run without --offline (offline=True)" if offline else "try again with access to one of these sources"
    return (
        f"{entry.name} could not be downloaded. Tried:\n{tried}\nAlternatives:\n"
        f"  1. {first}. Downloads are kept in the cache folder (TGNN_CACHE_DIR), which can be copied to other "
        f"machines.\n"
        f"  2. put the files into a folder as {folder}/{{{files}}} and pass it as --root (root=) or TGNN_DATA.\n"
        f"  3. use a data set that needs no download: cora, karate, digits or digits-graphs."
    )
