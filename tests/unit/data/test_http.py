"""Downloads from servers that fail, change their files or send wrong content."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import pytest
from tests.unit.data.archives import CONTENT, left_behind
from tests.unit.data.servers import Server

from tgnn.data.download.http import DownloadError, download

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
