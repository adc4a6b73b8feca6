"""Extraction of archives that are damaged or try to write outside of their folder."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.unit.data.archives import CONTENT, left_behind, tarred, zipped

from tgnn.data.download.archive import extract


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
