"""Catalog entries: the description of a data set, its file layouts and its download sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tgnn.data.dataset_info import LoadedData, task_name


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
        name: Name of the source in messages, e.g. a host or a package with its version.
        fetch: Function that writes the files into a folder (first argument). It keeps downloaded archives in another
            folder (second argument).
        layout: Layout of the files that it writes.
        differs: How these files differ from the official ones. Empty if they do not.
        unverified: Archives without a known SHA-256. They are removed if their content turns out to be unusable.
    """

    name: str
    fetch: Callable[[Path, Path], None]
    layout: FileLayout
    differs: str = ""
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogEntry:
    """The description of a data set.

    Args:
        name: Name to load it by.
        title: What the graph is and what is predicted, in one line.
        level: Whether the examples are nodes (``"node"``) or graphs (``"graph"``).
        target: Stored value of the :class:`~tgnn.data.dataset_info.TaskType`: ``"classes"``, ``"labels"`` or
            ``"number"``.
        metric: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``. OGB data sets use the metric of OGB's evaluator.
        default_split: Default split protocol (see :mod:`tgnn.data.splits`).
        statistics: Expected statistics, checked after loading: ``graphs``, ``nodes``, ``edges`` (columns of
            ``edge_index``), ``features`` and ``outputs``.
        license: License, as stated by the publisher.
        citation: Publications to cite.
        official: Class of PyG, OGB or scikit-learn that provides the data set.
        stored_split: Name of the split that is stored with the data, if there is one.
        layouts: File layouts that can be read.
        sources: Download sources in order of preference.
        embedded: Function that returns the data, for data sets that are installed with tgnn or a dependency. It is used
            unless the user's folder holds the files of a layout.
    """

    name: str
    title: str
    level: str
    target: str
    metric: str
    default_split: str
    statistics: Mapping[str, int]
    license: str
    citation: str
    official: str
    stored_split: str = "published"
    layouts: tuple[FileLayout, ...] = ()
    sources: tuple[DownloadSource, ...] = ()
    embedded: Callable[[], LoadedData] | None = None

    @property
    def task(self) -> str:
        """Name of the task, e.g. ``"node classification"``."""
        return task_name(self.level, self.target, self.statistics["outputs"])
