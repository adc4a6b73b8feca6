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
from tests.unit.data.downloads import CONTENT, Server, zipped

from tgnn.data.catalog.entry import CatalogEntry, DownloadSource, FileLayout
from tgnn.data.download.locate import ChecksumError, DatasetUnavailableError, obtain
from tgnn.data.download.package_index import Package
from tgnn.utils.cache_dir import cache_dir, make_cache_dir

DIGEST = hashlib.sha256(CONTENT).hexdigest()
PINNED = FileLayout(("data.bin",), lambda folder: None, ("toy/raw",), sha256={"data.bin": DIGEST})
UNPINNED = FileLayout(("data.bin",), lambda folder: None, ("toy/raw",))


def from_server(server: Server, layout: FileLayout = PINNED) -> DownloadSource:
    return DownloadSource(layout, files={"data.bin": server.url})


def read_toy(*sources: DownloadSource, root: Path | None = None, offline: bool = False) -> str:
    """Obtain a data set whose only valid content is ``CONTENT``, and return its source."""

    def read(found):
        if (found.folder / found.layout.files[0]).read_bytes() != CONTENT:
            raise KeyError("not the data set")
        return found.source

    layouts = tuple({id(source.layout): source.layout for source in sources}.values()) or (PINNED,)
    entry = CatalogEntry("toy", "", "node", {}, "", "", "", layouts=layouts, sources=sources)
    return obtain(entry, root, offline, read)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server():
    server = Server(CONTENT)
    with server.running():
        yield server


def cached(cache: Path, name: str = "data.bin") -> Path:
    (path,) = (cache / "data" / "toy").glob(f"*/{name}")
    return path


def test_files_under_the_root_come_first(tmp_path, cache, server):
    place = tmp_path / "root" / "toy" / "raw"
    place.mkdir(parents=True)
    (place / "data.bin").write_bytes(CONTENT)
    assert read_toy(from_server(server), root=tmp_path / "root") == f"files in {place}"
    assert server.asked == []
    assert not cache.exists()
    (place / "data.bin").write_bytes(b"")
    with pytest.raises(ChecksumError, match=r"data\.bin is not the published file: its SHA-256 is e3b0c442.*expected"):
        read_toy(from_server(server), root=tmp_path / "root")


def test_files_are_downloaded_once(cache, impatient, server):
    (cache / "data" / "toy" / "fetching-old" / "files").mkdir(parents=True)  # left by a killed process
    (cache / "data" / "toy" / server.url.split("/")[2].replace(":", "-")).write_text("")
    for offline in (False, True):
        assert read_toy(from_server(server), offline=offline) in server.url
    assert cached(cache).read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert not list((cache / "data" / "toy").glob("fetching-*"))


@pytest.mark.parametrize("origin", ["null", "[]", "{}", '{"sha256": null}', '{"sha256": {}}', "{", None])
def test_a_damaged_cache_is_downloaded_again(cache, impatient, server, caplog, origin):
    read_toy(from_server(server))
    if origin is None:
        cached(cache).write_bytes(b"damaged")
    else:
        cached(cache, "origin.json").write_text(origin)
    with pytest.raises(DatasetUnavailableError, match="the cache .*: the cached files are damaged: "):
        read_toy(from_server(server), offline=True)
    with caplog.at_level(logging.WARNING):
        assert read_toy(from_server(server)) in server.url
    assert "damaged" in caplog.text
    assert cached(cache).read_bytes() == CONTENT
    assert "data.bin" in json.loads(cached(cache, "origin.json").read_text())["sha256"]


@pytest.mark.parametrize("below", ["", "data", "data/toy"])
def test_a_cache_that_is_a_file_is_named(cache, impatient, server, below):
    (cache / below).parent.mkdir(parents=True, exist_ok=True)
    (cache / below).write_text("")
    with pytest.raises(DatasetUnavailableError, match=r"cannot be created: .*Set TGNN_CACHE_DIR"):
        read_toy(from_server(server))


def test_only_the_user_can_access_the_cache(tmp_path, monkeypatch, server):
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "above" / "cache"))
    before = os.umask(0o002)
    try:
        read_toy(from_server(server))
        assert make_cache_dir() == tmp_path / "above" / "cache"
    finally:
        os.umask(before)
    for folder in ("above", "above/cache"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="other platforms have other cache folders")
def test_the_cache_folder_of_the_platform(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TGNN_CACHE_DIR", raising=False)
    assert cache_dir() == tmp_path / (".cache/tgnn" if sys.platform == "linux" else "Library/Caches/tgnn")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    if sys.platform == "linux":
        assert cache_dir() == tmp_path / "caches" / "tgnn"
    monkeypatch.setenv("TGNN_CACHE_DIR", "~/chosen")
    assert cache_dir() == tmp_path / "chosen"


def test_the_error_lists_every_source_and_three_alternatives(cache, impatient):
    with Server(CONTENT, 404).running() as one, Server(b"wrong").running() as other:
        sources = (from_server(one), from_server(other))
        with pytest.raises(DatasetUnavailableError) as error:
            read_toy(*sources)
        with pytest.raises(DatasetUnavailableError, match="skipped because of --offline"):
            read_toy(*sources, offline=True)
    text = str(error.value)
    assert "HTTP status 404" in text
    assert "is not the published file: SHA256 hash" in text
    assert all(f"{number}. " in text for number in (1, 2, 3))
    assert "toy/raw/{data.bin}" in text


def archive_source(server: Server) -> DownloadSource:
    return DownloadSource(UNPINNED, server.url, {"toy/": ""})


@pytest.mark.parametrize("served", ["login page", "cut", "wrong content", "no content"])
def test_a_bad_archive_is_not_kept(tmp_path, cache, impatient, server, served):
    good = zipped(tmp_path / "a.zip", {"toy/data.bin": CONTENT}).read_bytes()
    server.content = {
        "login page": b"<html>log in</html>",
        "cut": good[: len(good) // 2],
        "wrong content": zipped(tmp_path / "b.zip", {"toy/data.bin": b"other"}).read_bytes(),
        "no content": zipped(tmp_path / "c.zip", {"toy/other.bin": CONTENT}).read_bytes(),
    }[served]
    message = "not a valid archive|not the data set|data.bin is missing in the download"
    with pytest.raises(DatasetUnavailableError, match=message):
        read_toy(archive_source(server))
    with pytest.raises(DatasetUnavailableError, match="not found"):
        read_toy(archive_source(server), offline=True)
    server.content = good
    assert read_toy(archive_source(server)) in server.url
    assert cached(cache).read_bytes() == CONTENT


def test_a_bad_file_is_not_kept(cache, impatient, server):
    with Server(b"<html>log in</html>").running() as bad:
        assert read_toy(from_server(bad, UNPINNED), from_server(server, UNPINNED)) in server.url
        bad.content = CONTENT
        assert read_toy(from_server(bad, UNPINNED)) in bad.url


def test_completed_downloads_are_kept_if_another_fails(cache, impatient, server):
    layout = FileLayout(("data.bin", "two.bin"), lambda folder: None, ("toy",))
    with Server(CONTENT, 404).running() as two:
        for _ in range(2):
            with pytest.raises(DatasetUnavailableError, match="404"):
                read_toy(DownloadSource(layout, files={"data.bin": server.url, "two.bin": two.url}))
    assert len(server.asked) == 1


def test_all_cached_files_are_verified(tmp_path, cache, impatient, server):
    members = {"toy/data.bin": CONTENT, "toy/deep/optional.txt": b"labels"}
    server.content = zipped(tmp_path / "a.zip", members).read_bytes()
    read_toy(archive_source(server))
    cached(cache, "deep/optional.txt").write_bytes(b"other")
    with pytest.raises(DatasetUnavailableError, match="optional.txt is not the published file"):
        read_toy(archive_source(server), offline=True)


@pytest.mark.parametrize("build", [None, lambda raw, folder: (raw / "data.bin").rename(folder / "data.bin")])
def test_files_of_a_package(tmp_path, cache, build):
    archives = cache / "data" / "archives"
    archives.mkdir(parents=True)
    path = zipped(archives / "toy-1.0-py3-none-any.whl", {"toy/data.bin": CONTENT})
    package = Package("pip", path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    assert read_toy(DownloadSource(PINNED, package, {"toy/": ""}, build)) == "the pip package toy 1.0"
    assert cached(cache).read_bytes() == CONTENT


@pytest.mark.slow
def test_two_processes_download_once(cache, server):
    script = f"from {__name__} import *; s = Server(CONTENT); s.url = {server.url!r}; print(read_toy(from_server(s)))"
    with warm.Process(script) as one, warm.Process(script) as other:
        assert [process.wait() for process in (one, other)] == [0, 0], one.read("err") + other.read("err")
        assert one.read("out") == other.read("out")
    assert len(server.asked) == 1
