"""Downloads from servers that fail, archives that lie, packages of the index."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import signal
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from tests import warm
from tests.unit.data.servers import Server

from tgnn.data.catalog.entry import CatalogEntry, FileLayout
from tgnn.data.catalog.sources import from_archive, from_urls
from tgnn.data.download.archive import extract
from tgnn.data.download.checksum import ChecksumError, verify
from tgnn.data.download.http import DownloadError, Patience, download
from tgnn.data.download.locate import DatasetUnavailableError
from tgnn.data.download.locate import obtain as obtain_and_read
from tgnn.data.download.package_index import Package, _reason, fetch_package
from tgnn.utils.cache_dir import make_cache_dir

CONTENT = bytes(range(256)) * 2_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
QUICK = Patience(silence=0.5, window=0.3, least=10_000, tries=3, pause=0.01)


def get(server: Server, folder: Path, sha256: str | None = DIGEST) -> Path:
    with server.running():
        return download(server.url, folder / "data.bin", sha256=sha256, patience=QUICK)


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- downloads -------------------------------------------------------------------------------------------------


def test_a_good_server(tmp_path):
    assert get(Server(CONTENT), tmp_path).read_bytes() == CONTENT
    assert left_behind(tmp_path) == ["data.bin"]


def test_what_is_there_is_not_fetched_again(tmp_path):
    get(Server(CONTENT), tmp_path)
    server = Server(CONTENT)
    get(server, tmp_path)
    assert server.asked == []


def test_what_is_there_but_wrong_is_fetched_again(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"damaged")
    assert get(Server(CONTENT), tmp_path).read_bytes() == CONTENT


def test_a_server_that_dies_is_asked_for_the_rest_only(tmp_path):
    server = Server(CONTENT, "dies", failures=1)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[0] is None
    assert server.asked[1] is not None


def test_a_later_call_continues_what_an_earlier_one_left(tmp_path):
    with pytest.raises(DownloadError, match="incomplete download"):
        get(Server(CONTENT, "dies"), tmp_path)
    assert left_behind(tmp_path) == ["data.bin.part"]
    server = Server(CONTENT)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[0] is not None


def test_a_server_that_cannot_continue_sends_all_again(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:1000])
    assert get(Server(CONTENT, "no-range"), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"from another version", CONTENT + b"more"])
def test_a_part_of_something_else_is_thrown_away(tmp_path, part):
    (tmp_path / "data.bin.part").write_bytes(part)
    assert get(Server(CONTENT), tmp_path).read_bytes() == CONTENT


def test_wrong_bytes_are_refused_and_named(tmp_path):
    server = Server(b"x" + CONTENT[1:])
    with pytest.raises(DownloadError, match=f"data.bin.*SHA-256 is .*expected {DIGEST}"):
        get(server, tmp_path)
    assert left_behind(tmp_path) == []
    assert len(server.asked) == 1


def test_a_server_that_promises_too_much(tmp_path):
    with pytest.raises(DownloadError, match="received 512,000 of 512,100 bytes|416"):
        get(Server(CONTENT, "long"), tmp_path, sha256=None)
    assert "data.bin" not in left_behind(tmp_path)


def test_a_server_that_promises_too_little(tmp_path):
    with pytest.raises(DownloadError, match="SHA-256"):
        get(Server(CONTENT, "short"), tmp_path)
    assert "data.bin" not in left_behind(tmp_path)


def test_a_slow_server_is_given_up(tmp_path):
    with pytest.raises(DownloadError, match="too slow"):
        get(Server(CONTENT, "slow"), tmp_path)


def test_a_silent_server_is_given_up(tmp_path):
    with pytest.raises(DownloadError, match="did not answer in time"):
        get(Server(CONTENT, "silent"), tmp_path)


def test_an_http_status_is_reported_and_retried_only_if_that_may_help(tmp_path):
    for status, times in ((404, 1), (503, 3)):
        server = Server(CONTENT, status)
        with pytest.raises(DownloadError, match=f"HTTP status {status}"):
            get(server, tmp_path)
        assert len(server.asked) == times


def test_nobody_listens(tmp_path):
    with pytest.raises(DownloadError, match="refused"):
        download("http://127.0.0.1:9/data.bin", tmp_path / "data.bin", patience=QUICK)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_only_the_web(tmp_path, url):
    with pytest.raises(DownloadError, match="neither an http nor an https address"):
        download(url, tmp_path / "data.bin")


class Versions(Server):
    """Says which version it serves; ``heeds`` says whether it looks at the version that it is asked for."""

    def __init__(self, content: bytes, tag: str, heeds: bool = True, shift: int = 0) -> None:
        super().__init__(content)
        self.tag, self.heeds, self.shift = tag, heeds, shift
        self.conditions: list[str | None] = []

    def answer(self, request):
        wanted, condition = request.headers.get("Range"), request.headers.get("If-Range")
        self.asked.append(wanted)
        self.conditions.append(condition)
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) + self.shift if wanted else 0
        if self.heeds and condition not in (None, self.tag):
            wanted, first = None, 0
        request.send_response(206 if wanted else 200)
        request.send_header("ETag", self.tag)
        request.send_header("Content-Length", str(len(self.content) - first))
        if wanted:
            request.send_header("Content-Range", f"bytes {first}-{len(self.content) - 1}/{len(self.content)}")
        request.end_headers()
        request.wfile.write(self.content[first:])


NEW = b"N" * 1000


@pytest.mark.parametrize("heeds", [True, False])
def test_parts_of_two_versions_are_not_mixed(tmp_path, heeds):
    (tmp_path / "data.bin.part").write_bytes(b"o" * 400)
    (tmp_path / "data.bin.part.tag").write_text('"old"')
    server = Versions(NEW, '"new"', heeds)
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.conditions[0] == '"old"'
    assert left_behind(tmp_path) == ["data.bin"]


def test_a_part_of_the_same_version_is_continued(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(NEW[:400])
    (tmp_path / "data.bin.part.tag").write_text('"new"')
    server = Versions(NEW, '"new"')
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.asked == ["bytes=400-"]


def test_a_part_of_an_unknown_version_is_not_continued(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"o" * 400)
    server = Server(NEW)
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.asked == [None]


def test_a_part_from_elsewhere_is_not_taken_for_the_whole(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(NEW[:400])
    (tmp_path / "data.bin.part.tag").write_text('"new"')
    server = Versions(NEW, '"new"', shift=100)
    assert get(server, tmp_path, sha256=None).read_bytes() == NEW
    assert server.asked == ["bytes=400-", None]


# ---- archives --------------------------------------------------------------------------------------------------


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo("inner/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            archive.addfile(info)
    return path


@pytest.mark.parametrize("make", [zipped, tarred])
def test_members_are_written_where_they_are_wanted(tmp_path, make):
    archive = make(tmp_path / "a", {"inner/one.txt": b"1", "inner/deep/two.txt": b"2", "other.txt": b"3"})
    extract(archive, {"inner/": "raw/", "other.txt": "renamed.txt"}, tmp_path / "out")
    found = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == {"raw/one.txt": b"1", "raw/deep/two.txt": b"2", "renamed.txt": b"3"}


@pytest.mark.parametrize("make", [zipped, tarred])
@pytest.mark.parametrize("name", ["inner/../../evil.txt", "inner//../../evil.txt", "inner/..\\..\\evil.txt"])
def test_a_member_cannot_leave_its_folder(tmp_path, make, name):
    archive = make(tmp_path / "a", {name: b"evil"})
    with pytest.raises(ValueError, match="outside of the target folder"):
        extract(archive, {"inner/": ""}, tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("evil.txt"))


def test_an_absolute_member_cannot_leave_its_folder(tmp_path):
    archive = zipped(tmp_path / "a", {"inner//" + str(tmp_path / "evil.txt"): b"evil"})
    with pytest.raises(ValueError, match="outside of the target folder"):
        extract(archive, {"inner/": ""}, tmp_path / "out")
    assert not (tmp_path / "evil.txt").exists()


def test_links_are_not_followed(tmp_path):
    archive = tarred(tmp_path / "a", {"inner/one.txt": b"1"}, link="/etc/hostname")
    extract(archive, {"inner/": ""}, tmp_path / "out")
    assert left_behind(tmp_path / "out") == ["one.txt"]


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_what_is_no_archive_is_said_so(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ValueError, match="not a valid archive"):
        extract(tmp_path / "a.zip", {"x": "x"}, tmp_path / "out")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_said_so(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a", "w", method) as archive:
        archive.writestr("x", CONTENT)
    content = bytearray((tmp_path / "a").read_bytes())
    content[35:60] = bytes(255 - byte for byte in content[35:60])
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match="not a valid archive"):
        extract(tmp_path / "a", {"x": "x"}, tmp_path / "out")


def test_a_zip_of_an_unknown_method_is_said_so(tmp_path):
    content = bytearray(zipped(tmp_path / "a", {"x": b"1"}).read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = 99
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match="not a valid archive"):
        extract(tmp_path / "a", {"x": "x"}, tmp_path / "out")


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_a_damaged_tar_is_said_so(tmp_path, kind):
    with tarfile.open(tmp_path / "a", f"w:{kind}") as archive:
        info = tarfile.TarInfo("x")
        info.size = len(CONTENT)
        archive.addfile(info, io.BytesIO(CONTENT))
    content = bytearray((tmp_path / "a").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20] = bytes(255 - byte for byte in content[middle : middle + 20])
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match="not a valid archive"):
        extract(tmp_path / "a", {"x": "x"}, tmp_path / "out")


def test_a_missing_member_is_named(tmp_path):
    with pytest.raises(ValueError, match="a does not contain x.txt"):
        extract(zipped(tmp_path / "a", {"y.txt": b""}), {"x.txt": "x.txt"}, tmp_path / "out")


# ---- packages --------------------------------------------------------------------------------------------------


def test_a_package_that_does_not_exist_says_so(tmp_path):
    package = Package("pip", "tgnn-no-such-package", "1", "x.whl", "0" * 64, 1, ("--no-index",))
    with pytest.raises(DownloadError, match="tgnn-no-such-package 1: pip failed: .*Could not find"):
        fetch_package(package, tmp_path)
    assert left_behind(tmp_path) == []


def wheel(folder: Path) -> Path:
    """A real wheel that pip takes from a folder."""
    info = "toy_data-1.0.dist-info"
    members = {
        "toy_data/data.txt": b"hello",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: toy-data\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"]).encode()
    folder.mkdir()
    return zipped(folder / "toy_data-1.0-py3-none-any.whl", members)


def toy(path: Path, sha256: str) -> Package:
    options = ("--no-index", f"--find-links={path.parent}")
    return Package("pip", "toy-data", "1.0", path.name, sha256, path.stat().st_size, options)


def test_pip_downloads_a_package_and_it_is_verified(tmp_path):
    path = wheel(tmp_path / "index")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    fetched = fetch_package(toy(path, digest), tmp_path / "shelf")
    assert fetched.read_bytes() == path.read_bytes()
    path.unlink()
    assert (
        fetch_package(Package("pip", "toy-data", "1.0", fetched.name, digest, 1, ("--no-index",)), tmp_path / "shelf")
        == fetched
    )


def test_a_package_with_other_bytes_is_refused(tmp_path):
    path = wheel(tmp_path / "index")
    with pytest.raises(DownloadError, match="pip failed"):
        fetch_package(toy(path, "0" * 64), tmp_path / "shelf")
    assert left_behind(tmp_path / "shelf") == []


def test_a_damaged_archive_on_the_shelf_is_downloaded_again(tmp_path, caplog):
    path = wheel(tmp_path / "index")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / path.name).write_bytes(b"damaged")
    package = toy(path, hashlib.sha256(path.read_bytes()).hexdigest())
    assert fetch_package(package, shelf).read_bytes() == path.read_bytes()
    assert "is not the published file" in caplog.text


def test_nothing_of_the_current_folder_is_run(tmp_path, monkeypatch):
    path = wheel(tmp_path / "index")
    for name in ("pip", "logging"):
        (tmp_path / f"{name}.py").write_text("open('was run', 'w')\nraise SystemExit('wrong pip')\n")
    monkeypatch.chdir(tmp_path)
    fetch_package(toy(path, hashlib.sha256(path.read_bytes()).hexdigest()), tmp_path / "shelf")
    assert not (tmp_path / "was run").exists()


def npm_that(folder: Path, monkeypatch, does: str) -> Package:
    """An ``npm`` of the test's own."""
    folder.mkdir()
    (folder / "npm").write_text(f"#!/bin/sh\n{does}\n")
    (folder / "npm").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return Package("npm", "toy", "1.0", "toy-1.0.tgz", hashlib.sha256(b"hello").hexdigest(), 5)


def test_npm_sees_no_settings_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / ".npmrc").write_text("registry=http://127.0.0.1:9\n")
    monkeypatch.chdir(tmp_path)
    package = npm_that(
        tmp_path / "bin", monkeypatch, f"pwd > '{tmp_path}/where'; ls > '{tmp_path}/what'; printf hello > toy-1.0.tgz"
    )
    fetch_package(package, tmp_path / "shelf")
    assert (tmp_path / "where").read_text().startswith(str(tmp_path / "shelf" / "package-"))
    assert "package.json" in (tmp_path / "what").read_text()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "ERROR: Exception:\nTraceback (most recent call last):\n  raise x\nOSError: [Errno 28] No space left\n",
            "OSError: [Errno 28] No space left",
        ),
        ("npm error code E404\nnpm error 404 Not Found - GET x\nnpm error 404\n", "npm error 404 Not Found - GET x"),
        ("npm error code X\nnpm error FetchError: request failed\nnpm error   code: 'X'", "FetchError: request failed"),
        ("ERROR: Could not find x\nERROR: No matching distribution", "ERROR: Could not find x"),
        ("", "no error message"),
    ],
)
def test_the_line_that_tells_most(said, reason):
    assert _reason(said).endswith(reason)


def test_npm_says_why(tmp_path, monkeypatch):
    does = 'case "$*" in *--silent*) ;; *) echo "npm error nospc No space left" >&2;; esac; exit 1'
    with pytest.raises(DownloadError, match="npm failed: npm error nospc No space left"):
        fetch_package(npm_that(tmp_path / "bin", monkeypatch, does), tmp_path / "shelf")


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_until(holds) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_all_that_was_started_ends_when_it_takes_too_long(tmp_path, monkeypatch):
    package = npm_that(tmp_path / "bin", monkeypatch, f"sleep 60 & echo $! > '{tmp_path}/pid'; wait")
    with pytest.raises(DownloadError, match="not finished within 1 seconds"):
        fetch_package(package, tmp_path / "shelf", seconds=1)
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())))
    assert left_behind(tmp_path / "shelf") == []


@pytest.mark.skipif(sys.platform != "linux", reason="uses PR_SET_PDEATHSIG, which only Linux has")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_the_program_ends_with_us(tmp_path, monkeypatch, how):
    package = npm_that(
        tmp_path / "bin",
        monkeypatch,
        f"echo $$ > '{tmp_path}/new'; mv '{tmp_path}/new' '{tmp_path}/pid'; exec sleep 60",
    )
    script = (
        "import signal; from pathlib import Path; from tgnn.data.download.package_index import Package, fetch_package; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"fetch_package({package!r}, Path({str(tmp_path / 'shelf')!r}))"
    )
    with warm.Process(script) as process:
        wait_until((tmp_path / "pid").exists)
        process.send_signal(how)
        process.wait()
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())))


def test_what_killed_processes_left_is_removed(tmp_path):
    path = wheel(tmp_path / "index")
    shelf = tmp_path / "shelf"
    for name, age in (("package-old", 2 * 24 * 3600), ("package-new", 0)):
        (shelf / name / "pip").mkdir(parents=True)
        os.utime(shelf / name, (time.time() - age,) * 2)
    fetch_package(toy(path, hashlib.sha256(path.read_bytes()).hexdigest()), shelf)
    assert left_behind(shelf) == ["package-new", path.name]


# ---- the order of sources --------------------------------------------------------------------------------------

FORM = FileLayout(("data.bin",), lambda folder: None, ("toy/raw",), sha256={"data.bin": DIGEST})


def entry(*sources) -> CatalogEntry:
    return CatalogEntry(
        "toy", "", "node", "classes", "accuracy", "stratified", {}, "", "", "", layouts=(FORM,), sources=sources
    )


def obtain(toy: CatalogEntry, root: Path | None, offline: bool, read=lambda found: None):
    return obtain_and_read(toy, root, offline, read)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("tgnn.data.catalog.sources.download", lambda *a, **k: download(*a, **k, patience=QUICK))


def test_files_under_the_root_come_first(tmp_path, cache):
    place = tmp_path / "root" / "toy" / "raw"
    place.mkdir(parents=True)
    (place / "data.bin").write_bytes(CONTENT)
    server = Server(CONTENT)
    with server.running():
        found = obtain(entry(from_urls(FORM, {"data.bin": server.url})), tmp_path / "root", offline=False)
    assert found.folder == place
    assert server.asked == []
    assert not cache.exists()


def test_a_wrong_file_under_the_root_is_refused_not_passed_over(tmp_path, cache):
    (tmp_path / "data.bin").write_bytes(b"something else")
    with pytest.raises(ChecksumError, match=r"data\.bin is not the published file"):
        obtain(entry(), tmp_path, offline=False)


def test_fetched_once_then_served_from_the_cache(cache, impatient):
    server = Server(CONTENT)
    with server.running():
        toy = entry(from_urls(FORM, {"data.bin": server.url}))
        first = obtain(toy, None, offline=False)
        second = obtain(toy, None, offline=True)
    assert first.folder == second.folder
    assert (first.folder / "data.bin").read_bytes() == CONTENT
    assert len(server.asked) == 1


def test_a_damaged_cache_is_fetched_again(cache, impatient, caplog):
    server = Server(CONTENT)
    with server.running():
        toy = entry(from_urls(FORM, {"data.bin": server.url}))
        found = obtain(toy, None, offline=False)
        (found.folder / "data.bin").write_bytes(b"damaged")
        with caplog.at_level(logging.WARNING):
            again = obtain(toy, None, offline=False)
    assert (again.folder / "data.bin").read_bytes() == CONTENT
    assert "damaged" in caplog.text


@pytest.mark.parametrize("origin", ["null", "[]", "[1]", "{}", '{"sha256": null}', '{"sha256": {}}', "{", "3"])
def test_a_damaged_origin_is_fetched_again(cache, impatient, origin):
    server = Server(CONTENT)
    with server.running():
        toy = entry(from_urls(FORM, {"data.bin": server.url}))
        found = obtain(toy, None, offline=False)
        (found.folder / "origin.json").write_text(origin)
        assert obtain(toy, None, offline=False).folder == found.folder
    assert "data.bin" in json.loads((found.folder / "origin.json").read_text())["sha256"]


def test_offline_damaged_files_are_reported(cache, impatient, caplog):
    server = Server(CONTENT)
    with server.running():
        toy = entry(from_urls(FORM, {"data.bin": server.url}))
        found = obtain(toy, None, offline=False)
        (found.folder / "data.bin").write_bytes(b"damaged")
        with pytest.raises(
            DatasetUnavailableError,
            match="the cache .*: the cached files are damaged: .*data.bin is not the published file",
        ):
            obtain(toy, None, offline=True)
    assert "fetched again" not in caplog.text


@pytest.mark.parametrize("below", ["", "data", "data/toy"])
def test_a_cache_that_is_a_file_is_named(tmp_path, cache, impatient, below):
    (cache / below).parent.mkdir(parents=True, exist_ok=True)
    (cache / below).write_text("")
    server = Server(CONTENT)
    with server.running(), pytest.raises(DatasetUnavailableError, match=r"cannot be created: .*Set TGNN_CACHE_DIR"):
        obtain(entry(from_urls(FORM, {"data.bin": server.url})), None, offline=False)


def test_a_file_in_place_of_what_was_fetched_is_replaced(cache, impatient):
    server = Server(CONTENT)
    with server.running():
        toy = entry(from_urls(FORM, {"data.bin": server.url}))
        (cache / "data" / "toy").mkdir(parents=True)
        (cache / "data" / "toy" / server.url.split("/")[2].replace(":", "-")).write_text("")
        assert (obtain(toy, None, offline=False).folder / "data.bin").read_bytes() == CONTENT


def test_what_killed_fetches_left_is_removed(cache, impatient):
    (cache / "data" / "toy" / "fetching-old" / "files").mkdir(parents=True)
    server = Server(CONTENT)
    with server.running():
        obtain(entry(from_urls(FORM, {"data.bin": server.url})), None, offline=False)
    assert not list((cache / "data" / "toy").glob("fetching-*"))


def test_the_cache_is_the_users_alone_whatever_the_umask(tmp_path, monkeypatch):
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "above" / "cache"))
    before = os.umask(0o002)
    try:
        server = Server(CONTENT)
        with server.running():
            obtain(entry(from_urls(FORM, {"data.bin": server.url})), None, offline=False)
        assert make_cache_dir() == tmp_path / "above" / "cache"
    finally:
        os.umask(before)
    for folder in ("above", "above/cache"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700


def test_the_next_source_serves_when_one_fails(cache, impatient):
    bad, good = Server(CONTENT, 404), Server(CONTENT)
    with bad.running(), good.running():
        found = obtain(
            entry(from_urls(FORM, {"data.bin": bad.url}), from_urls(FORM, {"data.bin": good.url})), None, offline=False
        )
    assert found.source in good.url


def test_when_all_fail_each_is_listed_with_three_ways_out(cache, impatient):
    one, other = Server(CONTENT, 404), Server(b"wrong")
    with one.running(), other.running(), pytest.raises(DatasetUnavailableError) as error:
        obtain(
            entry(from_urls(FORM, {"data.bin": one.url}), from_urls(FORM, {"data.bin": other.url})), None, offline=False
        )
    text = str(error.value)
    assert "HTTP status 404" in text
    assert "SHA-256" in text
    assert all(f"{number}. " in text for number in (1, 2, 3))
    assert "toy/raw/{data.bin}" in text


def test_offline_never_asks(cache):
    server = Server(CONTENT)
    with server.running(), pytest.raises(DatasetUnavailableError, match="skipped because of --offline"):
        obtain(entry(from_urls(FORM, {"data.bin": server.url})), None, offline=True)
    assert server.asked == []


def test_an_archive_of_the_web(tmp_path, cache, impatient):
    archive = zipped(tmp_path / "a.zip", {"toy/data.bin": CONTENT})
    server = Server(archive.read_bytes())
    with server.running():
        found = obtain(entry(from_archive(FORM, server.url, {"toy/": ""})), None, offline=False)
    assert (found.folder / "data.bin").read_bytes() == CONTENT


OPEN = FileLayout(("data.bin",), lambda folder: None, ("toy/raw",))


def only_content(found) -> None:
    if (found.folder / "data.bin").read_bytes() != CONTENT:
        raise KeyError("not the data set")


def open_entry(*sources) -> CatalogEntry:
    return CatalogEntry(
        "toy", "", "node", "classes", "accuracy", "stratified", {}, "", "", "", layouts=(OPEN,), sources=sources
    )


@pytest.mark.parametrize("served", ["login page", "cut", "wrong content"])
def test_a_bad_archive_of_the_web_is_not_kept(tmp_path, cache, impatient, served):
    good = zipped(tmp_path / "a.zip", {"toy/data.bin": CONTENT}).read_bytes()
    wrong = zipped(tmp_path / "b.zip", {"toy/data.bin": b"other"}).read_bytes()
    server = Server(
        {"login page": b"<html>log in</html>", "cut": good[: len(good) // 2], "wrong content": wrong}[served]
    )
    with server.running():
        toy = open_entry(from_archive(OPEN, server.url, {"toy/": ""}))
        with pytest.raises(DatasetUnavailableError, match="not a valid archive|not the data set"):
            obtain(toy, None, offline=False, read=only_content)
        with pytest.raises(DatasetUnavailableError, match="not found"):
            obtain(toy, None, offline=True, read=only_content)
        server.content = good
        found = obtain(toy, None, offline=False, read=only_content)
    assert (found.folder / "data.bin").read_bytes() == CONTENT


def test_a_bad_file_of_the_web_is_not_kept(cache, impatient):
    bad, good = Server(b"<html>log in</html>"), Server(CONTENT)
    with bad.running(), good.running():
        toy = open_entry(from_urls(OPEN, {"data.bin": bad.url}), from_urls(OPEN, {"data.bin": good.url}))
        assert obtain(toy, None, offline=False, read=only_content).source in good.url
        bad.content = CONTENT
        assert obtain(open_entry(toy.sources[0]), None, offline=False, read=only_content).source in bad.url


def test_what_arrived_is_kept_when_another_file_does_not(cache, impatient):
    form = FileLayout(("one.bin", "two.bin"), lambda folder: None)
    one, two = Server(CONTENT), Server(CONTENT, 404)
    with one.running(), two.running():
        toy = open_entry(from_urls(form, {"one.bin": one.url, "two.bin": two.url}))
        for _ in range(2):
            with pytest.raises(DatasetUnavailableError, match="404"):
                obtain(toy, None, offline=False)
    assert len(one.asked) == 1


def test_all_files_are_digested_not_only_those_needed(tmp_path, cache, impatient):
    archive = zipped(tmp_path / "a.zip", {"toy/data.bin": CONTENT, "toy/deep/optional.txt": b"labels"})
    server = Server(archive.read_bytes())
    with server.running():
        toy = open_entry(from_archive(OPEN, server.url, {"toy/": ""}))
        found = obtain(toy, None, offline=False)
        (found.folder / "deep" / "optional.txt").write_bytes(b"other")
        with pytest.raises(DatasetUnavailableError, match="optional.txt is not the published file"):
            obtain(toy, None, offline=True)


def _obtain_in_a_process(url: str) -> str:
    return str(obtain(entry(from_urls(FORM, {"data.bin": url})), None, offline=False).folder)


def test_two_processes_fetch_once(cache):
    server = Server(CONTENT)
    with server.running():
        script = f"from {__name__} import _obtain_in_a_process; print(_obtain_in_a_process({server.url!r}))"
        with warm.Process(script) as one, warm.Process(script) as other:
            assert [process.wait() for process in (one, other)] == [0, 0], one.read("err") + other.read("err")
            assert one.read("out") == other.read("out")
    assert len(server.asked) == 1


def test_verify_says_both_checksums(tmp_path):
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(ChecksumError, match="SHA-256 is e3b0c442.*expected 00"):
        verify(tmp_path / "x", "00")
