"""The order in which the sources of a data set are searched, and the cache."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from pathlib import Path

import pytest
from tests import warm
from tests.unit.data.archives import CONTENT, zipped
from tests.unit.data.servers import Server

from tgnn.data.catalog.entry import CatalogEntry, FileLayout
from tgnn.data.catalog.sources import from_archive, from_urls
from tgnn.data.download.checksum import ChecksumError, verify
from tgnn.data.download.locate import DatasetUnavailableError
from tgnn.data.download.locate import obtain as obtain_and_read
from tgnn.utils.cache_dir import cache_dir, make_cache_dir

DIGEST = hashlib.sha256(CONTENT).hexdigest()
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


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="the folder of other platforms is theirs")
def test_the_cache_is_where_the_platform_has_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TGNN_CACHE_DIR", raising=False)
    assert cache_dir() == tmp_path / (".cache/tgnn" if sys.platform == "linux" else "Library/Caches/tgnn")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    if sys.platform == "linux":
        assert cache_dir() == tmp_path / "caches" / "tgnn"
    monkeypatch.setenv("TGNN_CACHE_DIR", "~/chosen")
    assert cache_dir() == tmp_path / "chosen"


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
    assert "is not the published file: SHA256 hash" in text
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
