"""The files of a catalog entry: under the user's root, in our cache, from the web, out of a package. In that order."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tgnn.data.catalog.entry import Entry, Form, Source
from tgnn.data.fetch.checksum import sha256_of, verify
from tgnn.ops.native import cache_folder

logger = logging.getLogger("tgnn")

_ORIGIN = "origin.json"


class Unobtainable(OSError):
    """No source has the data; the text lists each, why, and the ways out."""

    exit_code = 1  # of the command line: nothing is wrong with what was typed


@dataclass(frozen=True)
class Found:
    """Files that are there: where, in which form, and what is to be said of them."""

    folder: Path
    form: Form
    source: str
    differs: str = ""


def obtain(entry: Entry, root: Path | None, offline: bool) -> Found:
    """Finds the files of a data set, or fetches them into the cache.

    Args:
        entry: Which data set.
        root: Folder of the user's to look into first.
        offline: Whether to stay away from the network.
    """
    if root is not None and (found := _under(root, entry)):
        return found
    home = cache_folder() / "data" / entry.name
    for source in entry.sources:
        if found := _cached(home, source):
            return found
    reasons = [(f"files under {root}" if root else "files under a root", _why_not_under(root, entry))]
    reasons += [(f"the cache {home}", "nothing there")]
    for source in entry.sources:
        if offline:
            reasons.append((source.name, "not asked: offline"))
            continue
        try:
            return _fetch(home, source)
        except (OSError, ValueError, ImportError) as error:
            reasons.append((source.name, str(error)))
            logger.info("%s cannot serve %s: %s", source.name, entry.name, error)
    raise Unobtainable(_explain(entry, reasons, offline))


# ---- the user's own files --------------------------------------------------------------------------------------


def _under(root: Path, entry: Entry) -> Found | None:
    for folder, form in _candidates(root, entry):
        if all((folder / name).exists() for name in form.files):
            for name, digest in form.sha256.items():
                verify(folder / name, digest)
            notes = [
                form.notes[d] for name in form.files if form.notes and (d := sha256_of(folder / name)) in form.notes
            ]
            return Found(folder, form, f"files in {folder}", " ".join(notes))
    return None


def _candidates(root: Path, entry: Entry) -> Iterator[tuple[Path, Form]]:
    for form in entry.forms:
        for place in (*form.places, "raw", ""):
            yield root / place, form


def _why_not_under(root: Path | None, entry: Entry) -> str:
    if root is None:
        return "no root was given"
    if not root.exists():
        return "there is no such folder"
    wanted = "; or ".join(", ".join(form.files[:3]) + (", ..." if len(form.files) > 3 else "") for form in entry.forms)
    return f"not there: {wanted}" if wanted else "it is not kept in files"


# ---- the cache -------------------------------------------------------------------------------------------------


def _home_of(home: Path, source: Source) -> Path:
    return home / "".join(c if c.isalnum() or c in ".-" else "-" for c in source.name)


def _cached(home: Path, source: Source) -> Found | None:
    """What was fetched before, unless it was damaged since: then it is thrown away."""
    folder = _home_of(home, source)
    try:
        digests = json.loads((folder / _ORIGIN).read_text())["sha256"]
        for name, digest in digests.items():
            verify(folder / name, digest)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        logger.warning("tgnn: %s is fetched again, because it was damaged: %s", folder, error)
        return None
    return Found(folder, source.form, source.name, source.differs)


def _fetch(home: Path, source: Source) -> Found:
    """Fetches into a folder of its own and moves that into place: nobody ever sees half of it."""
    home.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(home):
        if found := _cached(home, source):  # another process was faster
            return found
        with tempfile.TemporaryDirectory(dir=home, prefix="fetching-") as scratch:
            folder = Path(scratch) / "files"
            folder.mkdir()
            source.fetch(folder, home.parent / "archives")
            for name in source.form.files:
                if not (folder / name).exists():
                    raise ValueError(f"it delivered no {name}")
                verify(folder / name, source.form.sha256.get(name))
            digests = {name: sha256_of(folder / name) for name in source.form.files}
            (folder / _ORIGIN).write_text(json.dumps({"source": source.name, "sha256": digests}, indent=1))
            place = _home_of(home, source)
            shutil.rmtree(place, ignore_errors=True)
            os.replace(folder, place)
    return Found(place, source.form, source.name, source.differs)


def _one_at_a_time(home: Path) -> FileLock:
    lock = FileLock(str(home / "lock"))
    try:
        lock.acquire(timeout=0.1)
        lock.release()
    except Timeout:
        logger.info("another process is fetching into %s; waiting for it", home)
    return lock


# ---- nothing worked --------------------------------------------------------------------------------------------


def _explain(entry: Entry, reasons: list[tuple[str, str]], offline: bool) -> str:
    tried = "\n".join(f"  - {source}: {reason}" for source, reason in reasons)
    files = ", ".join(entry.forms[0].files) if entry.forms else ""
    place = entry.forms[0].places[0] if entry.forms and entry.forms[0].places else "."
    first = "drop --offline (offline=True)" if offline else "try again where one of these sources can be reached"
    return (
        f"{entry.name} could not be had. Tried:\n{tried}\nThree ways out:\n"
        f"  1. {first}; what arrives is kept in the cache, which can be copied to other machines "
        f"(TGNN_CACHE_DIR).\n"
        f"  2. put the files into a folder, as {place}/{{{files}}}, and give it as --root (root=) or TGNN_DATA.\n"
        f"  3. use a data set that needs no download: karate, digits or digits-graphs."
    )
