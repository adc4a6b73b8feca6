"""Downloads from servers that fail, change their files or send something else."""

from __future__ import annotations

import contextlib
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


def test_a_good_server(tmp_path, capfd):
    assert get(Server(CONTENT), tmp_path).read_bytes() == CONTENT
    assert left_behind(tmp_path) == ["data.bin"]
    assert capfd.readouterr() == ("", "")


def test_an_existing_file_is_not_downloaded_again(tmp_path):
    get(Server(CONTENT), tmp_path)
    server = Server(CONTENT)
    get(server, tmp_path)
    assert server.asked == []


def test_an_existing_file_with_another_checksum_is_downloaded_again(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"damaged")
    assert get(Server(CONTENT), tmp_path).read_bytes() == CONTENT


def test_a_broken_download_is_resumed(tmp_path):
    server = Server(CONTENT, "dies", failures=1)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[0] is None
    assert 0 < int(server.asked[1].removeprefix("bytes=").removesuffix("-")) <= len(CONTENT) // 2
    assert left_behind(tmp_path) == ["data.bin"]


def test_the_progress_bar_shows_the_whole_file(tmp_path, monkeypatch):
    shown = []

    @contextlib.contextmanager
    def record(what, total, in_bytes):
        shown.append((what, total))
        yield shown.append

    monkeypatch.setattr("tgnn.data.download.http.bar", record)
    leave_part(tmp_path, CONTENT[:1000])
    get(Server(CONTENT), tmp_path)
    assert shown[:2] == [("downloading data.bin", len(CONTENT)), 1000]
    assert sum(shown[1:]) == len(CONTENT)


@pytest.mark.parametrize("sha256", [DIGEST, None])
def test_a_later_call_resumes(tmp_path, sha256):
    with pytest.raises(DownloadError, match=r"IncompleteRead|incomplete download"):
        get(Server(CONTENT, "dies", tag=""), tmp_path, sha256)
    with pytest.raises(DownloadError, match=r"IncompleteRead|incomplete download"):
        get(Server(CONTENT, "dies"), tmp_path, sha256)
    assert left_behind(tmp_path) == ["data.bin.part", "data.bin.part.tag"]
    server = Server(CONTENT)
    assert get(server, tmp_path, sha256).read_bytes() == CONTENT
    assert server.asked[0] is not None
    assert left_behind(tmp_path) == ["data.bin"]


def leave_part(folder: Path, content: bytes, tag: str = '"1"') -> None:
    (folder / "data.bin.part").write_bytes(content)
    (folder / "data.bin.part.tag").write_text(tag)


def test_a_server_that_cannot_resume_sends_the_whole_file(tmp_path):
    leave_part(tmp_path, CONTENT[:1000])
    assert get(Server(CONTENT, "no-range"), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"not this file", CONTENT + b"more"])
def test_a_part_of_another_file_is_discarded(tmp_path, part):
    leave_part(tmp_path, part)
    assert get(Server(CONTENT), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("conditional", [True, False])
def test_parts_of_two_versions_are_not_mixed(tmp_path, conditional):
    leave_part(tmp_path, b"o" * 400, '"old"')
    server = Server(NEW, tag='"new"', conditional=conditional)
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.conditions[0] == '"old"'
    assert left_behind(tmp_path) == ["data.bin"]


def test_a_part_of_the_same_version_is_resumed(tmp_path):
    leave_part(tmp_path, NEW[:400])
    server = Server(NEW)
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.asked == ["bytes=400-"]


def test_a_part_of_an_unknown_version_is_not_resumed(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"o" * 400)
    server = Server(NEW)
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.asked == [None]


def test_a_response_that_starts_at_another_byte_is_not_appended(tmp_path):
    leave_part(tmp_path, NEW[:400])
    server = Server(NEW, shift=100)
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.asked == ["bytes=400-", None]


def test_wrong_bytes_are_rejected_with_both_checksums(tmp_path):
    wrong = b"x" + CONTENT[1:]
    with pytest.raises(DownloadError, match=f"data.bin.*{DIGEST}.*{hashlib.sha256(wrong).hexdigest()}"):
        get(Server(wrong), tmp_path)
    assert left_behind(tmp_path) == []


def test_a_server_that_promises_too_much(tmp_path):
    with pytest.raises(DownloadError, match="100 more expected|received 512,000 of 512,100 bytes|416"):
        get(Server(CONTENT, "long"), tmp_path, sha256=None)
    assert "data.bin" not in left_behind(tmp_path)


def test_a_server_that_promises_too_little(tmp_path):
    with pytest.raises(DownloadError, match="not the published file"):
        get(Server(CONTENT, "short"), tmp_path)
    assert "data.bin" not in left_behind(tmp_path)


def test_a_silent_server_times_out(tmp_path):
    with pytest.raises(DownloadError, match="did not answer in time"):
        get(Server(CONTENT, "silent"), tmp_path)


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (403, 1), (429, 3), (503, 3)])
def test_an_http_status_is_reported_and_retried_only_if_that_may_help(tmp_path, status, attempts):
    server = Server(CONTENT, status)
    with pytest.raises(DownloadError, match=f"HTTP status {status}"):
        get(server, tmp_path)
    assert len(server.asked) == attempts


def test_a_refused_connection(tmp_path):
    with pytest.raises(DownloadError, match="refused"):
        download("http://127.0.0.1:9/data.bin", tmp_path / "data.bin")


def test_an_unknown_host_is_not_retried(tmp_path, monkeypatch):
    asked = []

    def unknown(host, *arguments, **options):
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DownloadError, match="Name or service not known"):
        download("http://no-such-host.invalid/data.bin", tmp_path / "data.bin")
    assert len(asked) == 1


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_only_the_web(tmp_path, url):
    with pytest.raises(DownloadError, match="No connection adapters were found"):
        download(url, tmp_path / "data.bin")


def test_a_disk_error_is_not_retried(tmp_path):
    server = Server(CONTENT)
    (tmp_path / "data.bin.part").mkdir()
    with pytest.raises(OSError, match=r"data\.bin\.part"):
        get(server, tmp_path)
    assert len(server.asked) == 1
