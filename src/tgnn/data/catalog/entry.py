"""What the catalog says of a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk.disk_graph import DiskGraph

LoadedData: TypeAlias = Data | GraphDataset | DiskGraph


@dataclass(frozen=True)
class Form:
    """One way in which the files of a data set lie in a folder.

    Args:
        files: All that are needed.
        read: Makes the data of the folder.
        places: Folders below a root where they may lie.
        sha256: Of each file that has one fixed content.
        notes: For files that exist in several makes: what is to be said of each, by its SHA-256.
        exact: Whether the statistics must be the entry's even where something is to be said.
        telling: Whether the names of the files tell the data set; then the root itself and its ``raw`` are looked at.
    """

    files: tuple[str, ...]
    read: Callable[[Path], LoadedData]
    places: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
    telling: bool = True


@dataclass(frozen=True)
class Source:
    """Where files come from.

    Args:
        name: In words, for the user.
        fetch: Puts the files of ``form`` into the folder (first) using the shelf of archives (second).
        form: In which they are then.
        differs: How they differ from the official ones; empty: they do not.
        unproven: What it keeps on the shelf without a known SHA-256; to be removed if it turns out to be of no use.
    """

    name: str
    fetch: Callable[[Path, Path], None]
    form: Form
    differs: str = ""
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One data set.

    Args:
        name: To load it by.
        title: What it is, in a line.
        level: ``"node"`` or ``"graph"``: what is to be predicted for.
        target: ``"classes"`` (one of several), ``"labels"`` (any of several) or ``"number"``.
        metric: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``; those of OGB's evaluator for its sets.
        split: Default protocol, by name.
        stored_split: What the split is called that comes with the data, where one does.
        facts: Statistics that are checked after loading: ``graphs``, ``nodes``, ``edges`` (as in ``edge_index``),
            ``features``, ``outputs``.
        licence: As stated where it is published.
        citation: Whom to cite.
        official: The class of PyG or OGB that has it.
        forms: How its files may lie on a disk.
        sources: Where to get it, best first.
    """

    name: str
    title: str
    level: str
    target: str
    metric: str
    split: str
    facts: Mapping[str, int]
    licence: str
    citation: str
    official: str
    stored_split: str = "published"
    forms: tuple[Form, ...] = ()
    sources: tuple[Source, ...] = ()
    embedded: Callable[[], LoadedData] | None = None
    """For what comes with what is installed."""
