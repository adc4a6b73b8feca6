"""The data of a catalog entry: under the user's root, in our cache, from the web, out of a package. In that order."""

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

from tgnn.data.catalog.entry import CatalogEntry, DownloadSource, FileLayout, LoadedData
from tgnn.data.download.checksum import sha256_of, verify
from tgnn.data.download.http import DownloadError
from tgnn.utils.cache_dir import cache_dir, make_cache_dir

logger = logging.getLogger("tgnn")

_ORIGIN = "origin.json"


class DatasetUnavailableError(OSError):
    """No source has the data; the text lists each, why, and the ways out."""

    exit_code = 1  # of the command line: nothing is wrong with what was typed


@dataclass(frozen=True)
class Found:
    """Files that are there: where, in which form, what is to be said of them, and what was read."""

    folder: Path
    form: FileLayout
    source: str
    differs: str = ""
    data: LoadedData | None = None


Read = Callable[[Found], LoadedData]


def obtain(entry: CatalogEntry, root: Path | None, offline: bool, read: Read) -> Found:
    """Finds the files of a data set and reads them, or fetches them into the cache.

    Args:
        entry: Which data set.
        root: Folder of the user's to look into first.
        offline: Whether to stay away from the network.
        read: Makes the data of the files and raises if they are not the data set. What was fetched is kept only after
            that; else it is the next source's turn.
    """
    if root is not None:
        if not root.is_dir():
            raise NotADirectoryError(f"{root} is no folder to look into for {entry.name} (--root, root=, TGNN_DATA)")
        if found := _under(root, entry):
            return replace(found, data=read(found))
        logger.info("%s is not under %s (%s)", entry.name, root, _why_not_under(root, entry))
    home = cache_dir() / "data" / entry.name
    damage = []
    for source in entry.sources:
        try:
            if found := _cached(home, source, read):
                return found
        except ValueError as error:
            damage.append(str(error))
            logger.warning("tgnn: %s is not used: %s", _home_of(home, source), error)
    reasons = [(f"files under {root}" if root else "files under a root", _why_not_under(root, entry))]
    reasons += [(f"the cache {home}", "; ".join(damage) or "nothing there")]
    for source in entry.sources:
        if offline:
            reasons.append((source.name, "not asked: offline"))
            continue
        try:
            return _fetch(home, source, read)
        except (OSError, ValueError, ImportError) as error:
            reasons.append((source.name, str(error)))
            logger.info("%s cannot serve %s: %s", source.name, entry.name, error)
    raise DatasetUnavailableError(_explain(entry, reasons, offline))


# ---- the user's own files --------------------------------------------------------------------------------------


def _under(root: Path, entry: CatalogEntry) -> Found | None:
    for folder, form in _candidates(root, entry):
        if all((folder / name).exists() for name in form.files):
            for name, digest in form.sha256.items():
                verify(folder / name, digest)
            notes = [
                form.notes[d] for name in form.files if form.notes and (d := sha256_of(folder / name)) in form.notes
            ]
            return Found(folder, form, f"files in {folder}", " ".join(notes))
    return None


def _candidates(root: Path, entry: CatalogEntry) -> Iterator[tuple[Path, FileLayout]]:
    for form in entry.layouts:
        for place in (*form.folders, *(("raw", "") if form.unique_names else ())):
            yield root / place, form


def _why_not_under(root: Path | None, entry: CatalogEntry) -> str:
    if root is None:
        return "no root was given"
    wanted = "; or ".join(
        ", ".join(form.files[:3]) + (", ..." if len(form.files) > 3 else "") for form in entry.layouts
    )
    return f"not there: {wanted}" if wanted else "it is not kept in files"


# ---- the cache -------------------------------------------------------------------------------------------------


def _home_of(home: Path, source: DownloadSource) -> Path:
    return home / "".join(c if c.isalnum() or c in ".-" else "-" for c in source.name)


def _cached(home: Path, source: DownloadSource, read: Read) -> Found | None:
    """What was fetched before, unless it was damaged since: then a ValueError says how."""
    folder = _home_of(home, source)
    if not (folder / _ORIGIN).exists():
        return None
    try:
        for name, digest in _digests(folder, source.layout).items():
            verify(folder / name, digest)
    except (OSError, ValueError) as error:
        raise ValueError(f"it was damaged: {error}") from error
    return _read(Found(folder, source.layout, source.name, source.differs), read)


def _digests(folder: Path, form: FileLayout) -> dict[str, str]:
    origin = json.loads((folder / _ORIGIN).read_text())
    digests = origin.get("sha256") if isinstance(origin, dict) else None
    if not isinstance(digests, dict) or not set(form.files) <= set(digests):
        raise ValueError(f"{_ORIGIN} does not list its files")
    return {name: str(digest) for name, digest in digests.items()}


def _fetch(home: Path, source: DownloadSource, read: Read) -> Found:
    """Fetches into a folder of its own, reads, and moves that into place: nobody ever sees half of it."""
    _make(home)
    shelf = home.parent / "archives"
    with _one_at_a_time(home):
        with contextlib.suppress(ValueError):
            if found := _cached(home, source, read):  # another process was faster
                return found
        for left in home.glob("fetching-*"):  # by processes that were killed
            _remove(left)
        with tempfile.TemporaryDirectory(dir=home, prefix="fetching-") as scratch:
            folder = Path(scratch) / "files"
            folder.mkdir()
            try:
                source.fetch(folder, shelf)
                found = _looked_at(folder, source, read)
            except Exception as error:
                if not _may_help_later(error):
                    for name in source.unverified:
                        (shelf / name).unlink(missing_ok=True)
                raise
            place = _home_of(home, source)
            _remove(place)
            os.replace(folder, place)
    return replace(found, folder=place)


def _looked_at(folder: Path, source: DownloadSource, read: Read) -> Found:
    """What was fetched, after every check; with the digests of all files, as readers take more than those needed."""
    for name in source.layout.files:
        if not (folder / name).exists():
            raise ValueError(f"it delivered no {name}")
        verify(folder / name, source.layout.sha256.get(name))
    found = _read(Found(folder, source.layout, source.name, source.differs), read)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}
    (folder / _ORIGIN).write_text(json.dumps({"source": source.name, "sha256": digests}, indent=1))
    return found


def _read(found: Found, read: Read) -> Found:
    """Readers raise all sorts of errors for bytes that they do not expect: a ValueError."""
    try:
        return replace(found, data=read(found))
    except Exception as error:
        if isinstance(error, ValueError) or _may_help_later(error):
            raise
        raise ValueError(f"it cannot be read: {type(error).__name__}: {error}") from error


def _may_help_later(error: Exception) -> bool:
    """Whether files may be good all the same: the network, the disk, memory or a package was what was missing."""
    of_the_system = isinstance(error, OSError) and error.errno is not None
    return of_the_system or isinstance(error, (DownloadError, ImportError, MemoryError))


def _make(home: Path) -> None:
    make_cache_dir()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"the folder {home} cannot be made: {error} (set TGNN_CACHE_DIR)") from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _one_at_a_time(home: Path) -> FileLock:
    lock = FileLock(str(home / "lock"))
    try:
        lock.acquire(timeout=0.1)
        lock.release()
    except Timeout:
        logger.info("another process is fetching into %s; waiting for it", home)
    return lock


# ---- nothing worked --------------------------------------------------------------------------------------------


def _explain(entry: CatalogEntry, reasons: list[tuple[str, str]], offline: bool) -> str:
    tried = "\n".join(f"  - {source}: {reason}" for source, reason in reasons)
    files = ", ".join(entry.layouts[0].files) if entry.layouts else ""
    place = entry.layouts[0].folders[0] if entry.layouts and entry.layouts[0].folders else "."
    first = "drop --offline (offline=True)" if offline else "try again where one of these sources can be reached"
    return (
        f"{entry.name} could not be had. Tried:\n{tried}\nThree ways out:\n"
        f"  1. {first}; what arrives is kept in the cache, which can be copied to other machines "
        f"(TGNN_CACHE_DIR).\n"
        f"  2. put the files into a folder, as {place}/{{{files}}}, and give it as --root (root=) or TGNN_DATA.\n"
        f"  3. use a data set that needs no download: karate, digits or digits-graphs."
    )
