"""Extraction of archives that are damaged or try to write outside of their folder."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest
from tests.unit.data.archives import CONTENT, left_behind, tarred, zipped

from tgnn.data.download.archive import extract


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
