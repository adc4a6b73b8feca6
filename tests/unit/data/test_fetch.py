"""Downloads from servers that fail, archives that lie, packages of the index."""

from __future__ import annotations

import hashlib
import io
import logging
import multiprocessing
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.unit.data.servers import Server

from tgnn.data.catalog.entry import Entry, Form
from tgnn.data.catalog.sources import web, web_archive
from tgnn.data.fetch.archive import extract
from tgnn.data.fetch.checksum import WrongFile, verify
from tgnn.data.fetch.download import NotDownloaded, Patience, download
from tgnn.data.fetch.package import Package, fetch_package
from tgnn.data.obtain import Unobtainable, obtain

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
    with pytest.raises(NotDownloaded, match="promised"):
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
    with pytest.raises(NotDownloaded, match=f"data.bin.*SHA-256 is .*expected {DIGEST}"):
        get(server, tmp_path)
    assert left_behind(tmp_path) == []
    assert len(server.asked) == 1


def test_a_server_that_promises_too_much(tmp_path):
    with pytest.raises(NotDownloaded, match="promised 512,100 bytes and sent 512,000|416"):
        get(Server(CONTENT, "long"), tmp_path, sha256=None)
    assert "data.bin" not in left_behind(tmp_path)


def test_a_server_that_promises_too_little(tmp_path):
    with pytest.raises(NotDownloaded, match="SHA-256"):
        get(Server(CONTENT, "short"), tmp_path)
    assert "data.bin" not in left_behind(tmp_path)


def test_a_slow_server_is_given_up(tmp_path):
    with pytest.raises(NotDownloaded, match="too slow"):
        get(Server(CONTENT, "slow"), tmp_path)


def test_a_silent_server_is_given_up(tmp_path):
    with pytest.raises(NotDownloaded, match="no answer in time"):
        get(Server(CONTENT, "silent"), tmp_path)


def test_a_status_is_told_and_asked_again_only_if_that_may_help(tmp_path):
    for status, times in ((404, 1), (503, 3)):
        server = Server(CONTENT, status)
        with pytest.raises(NotDownloaded, match=f"answers {status}"):
            get(server, tmp_path)
        assert len(server.asked) == times


def test_nobody_listens(tmp_path):
    with pytest.raises(NotDownloaded, match="refused"):
        download("http://127.0.0.1:9/data.bin", tmp_path / "data.bin", patience=QUICK)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_only_the_web(tmp_path, url):
    with pytest.raises(NotDownloaded, match="neither http nor https"):
        download(url, tmp_path / "data.bin")


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
    with pytest.raises(ValueError, match="outside of its folder"):
        extract(archive, {"inner/": ""}, tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("evil.txt"))


def test_an_absolute_member_cannot_leave_its_folder(tmp_path):
    archive = zipped(tmp_path / "a", {"inner//" + str(tmp_path / "evil.txt"): b"evil"})
    with pytest.raises(ValueError, match="outside of its folder"):
        extract(archive, {"inner/": ""}, tmp_path / "out")
    assert not (tmp_path / "evil.txt").exists()


def test_links_are_not_followed(tmp_path):
    archive = tarred(tmp_path / "a", {"inner/one.txt": b"1"}, link="/etc/hostname")
    extract(archive, {"inner/": ""}, tmp_path / "out")
    assert left_behind(tmp_path / "out") == ["one.txt"]


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_what_is_no_archive_is_said_so(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ValueError, match="not a whole archive"):
        extract(tmp_path / "a.zip", {"x": "x"}, tmp_path / "out")


def test_a_missing_member_is_named(tmp_path):
    with pytest.raises(ValueError, match="a has no x.txt"):
        extract(zipped(tmp_path / "a", {"y.txt": b""}), {"x.txt": "x.txt"}, tmp_path / "out")


# ---- packages --------------------------------------------------------------------------------------------------


def test_a_package_that_does_not_exist_says_so(tmp_path):
    package = Package("pip", "tgnn-no-such-package", "1", "x.whl", "0" * 64, 1, ("--no-index",))
    with pytest.raises(NotDownloaded, match="tgnn-no-such-package 1: pip failed: .*Could not find"):
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
    with pytest.raises(NotDownloaded, match="pip failed"):
        fetch_package(toy(path, "0" * 64), tmp_path / "shelf")
    assert left_behind(tmp_path / "shelf") == []


def test_a_damaged_archive_on_the_shelf_is_named(tmp_path):
    (tmp_path / "x.whl").write_bytes(b"damaged")
    with pytest.raises(WrongFile, match=r"x\.whl is not the published file"):
        fetch_package(Package("pip", "x", "1", "x.whl", "0" * 64, 1), tmp_path)


# ---- the order of sources --------------------------------------------------------------------------------------

FORM = Form(("data.bin",), lambda folder: None, ("toy/raw",), sha256={"data.bin": DIGEST})


def entry(*sources) -> Entry:
    return Entry("toy", "", "node", "classes", "accuracy", "stratified", {}, "", "", "", forms=(FORM,), sources=sources)


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
        found = obtain(entry(web(FORM, {"data.bin": server.url})), tmp_path / "root", offline=False)
    assert found.folder == place
    assert server.asked == []
    assert not cache.exists()


def test_a_wrong_file_under_the_root_is_refused_not_passed_over(tmp_path, cache):
    (tmp_path / "data.bin").write_bytes(b"something else")
    with pytest.raises(WrongFile, match=r"data\.bin is not the published file"):
        obtain(entry(), tmp_path, offline=False)


def test_fetched_once_then_served_from_the_cache(cache, impatient):
    server = Server(CONTENT)
    with server.running():
        toy = entry(web(FORM, {"data.bin": server.url}))
        first = obtain(toy, None, offline=False)
        second = obtain(toy, None, offline=True)
    assert first.folder == second.folder
    assert (first.folder / "data.bin").read_bytes() == CONTENT
    assert len(server.asked) == 1


def test_a_damaged_cache_is_fetched_again(cache, impatient, caplog):
    server = Server(CONTENT)
    with server.running():
        toy = entry(web(FORM, {"data.bin": server.url}))
        found = obtain(toy, None, offline=False)
        (found.folder / "data.bin").write_bytes(b"damaged")
        with caplog.at_level(logging.WARNING):
            again = obtain(toy, None, offline=False)
    assert (again.folder / "data.bin").read_bytes() == CONTENT
    assert "damaged" in caplog.text


def test_the_next_source_serves_when_one_fails(cache, impatient):
    bad, good = Server(CONTENT, 404), Server(CONTENT)
    with bad.running(), good.running():
        found = obtain(entry(web(FORM, {"data.bin": bad.url}), web(FORM, {"data.bin": good.url})), None, offline=False)
    assert found.source in good.url


def test_when_all_fail_each_is_listed_with_three_ways_out(cache, impatient):
    one, other = Server(CONTENT, 404), Server(b"wrong")
    with one.running(), other.running(), pytest.raises(Unobtainable) as error:
        obtain(entry(web(FORM, {"data.bin": one.url}), web(FORM, {"data.bin": other.url})), None, offline=False)
    text = str(error.value)
    assert "answers 404" in text
    assert "SHA-256" in text
    assert all(f"{number}. " in text for number in (1, 2, 3))
    assert "toy/raw/{data.bin}" in text


def test_offline_never_asks(cache):
    server = Server(CONTENT)
    with server.running(), pytest.raises(Unobtainable, match="not asked: offline"):
        obtain(entry(web(FORM, {"data.bin": server.url})), None, offline=True)
    assert server.asked == []


def test_an_archive_of_the_web(tmp_path, cache, impatient):
    archive = zipped(tmp_path / "a.zip", {"toy/data.bin": CONTENT})
    server = Server(archive.read_bytes())
    with server.running():
        found = obtain(entry(web_archive(FORM, server.url, {"toy/": ""})), None, offline=False)
    assert (found.folder / "data.bin").read_bytes() == CONTENT


def _obtain_in_a_process(url: str) -> str:
    return str(obtain(entry(web(FORM, {"data.bin": url})), None, offline=False).folder)


def test_two_processes_fetch_once(cache):
    server = Server(CONTENT)
    with server.running(), multiprocessing.get_context("spawn").Pool(2) as pool:
        folders = pool.map(_obtain_in_a_process, [server.url] * 2)
    assert folders[0] == folders[1]
    assert len(server.asked) == 1


def test_verify_says_both_checksums(tmp_path):
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(WrongFile, match="SHA-256 is e3b0c442.*expected 00"):
        verify(tmp_path / "x", "00")
