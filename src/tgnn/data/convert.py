"""Any data set as one ``.npz`` that loads fast, or as a graph that stays on disk."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tgnn.data.catalog import CATALOG
from tgnn.data.catalog.entry import LoadedData
from tgnn.data.graph_dataset import GraphDataset, write_packed
from tgnn.data.load import find_path, load
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.on_disk.from_memory import write_disk
from tgnn.data.on_disk.from_tables import stream_tables
from tgnn.data.readers.detect import detect
from tgnn.data.readers.single import write_graph

logger = logging.getLogger("tgnn")


def convert(
    source: str,
    target: Path,
    root: str | os.PathLike[str] | None = None,
    offline: bool = False,
    *,
    leave_out: bool = False,
    overwrite: bool = False,
) -> LoadedData:
    """Writes a data set as a ``.npz``, or else as a graph on disk, and gives it.

    Tables of one graph go to disk block by block, and are never in memory as a whole.

    Args:
        source: As :func:`tgnn.data.load` takes it, as are the next two.
        target: A ``.npz``, or a folder to be made.
        root: As above.
        offline: As above.
        leave_out: Whether to leave out what a graph on disk cannot have: features and weights of edges, positions.
        overwrite: Whether to write over a graph on disk that is there; a ``.npz`` is always written over.
    """
    if source not in CATALOG:
        _check_other(find_path(source), target)
    if target.suffix != ".npz" and source not in CATALOG and detect(path := find_path(source)) == "table":
        folder = path if path.is_dir() else path.parent
        for finding in stream_tables(folder, target, leave_out=leave_out, overwrite=overwrite).findings:
            if finding.level == "warning":
                logger.warning("%s: %s", folder.name, finding)
        return load(target)
    data = load(source, root, offline)
    write(data, target, leave_out=leave_out, overwrite=overwrite)
    return data


def _check_other(source: Path, target: Path) -> None:
    """What is read is not what is written: it would be gone, or be written while it is read."""
    if target.exists() and any(target.samefile(place) for place in (source, source.parent)):
        raise ValueError(f"{target} is what is to be read, or the folder that it is in: choose another to write")


def write(data: LoadedData, path: Path, *, leave_out: bool = False, overwrite: bool = False) -> None:
    """Packed graphs, or one graph, in a file or on disk. Whole or not at all.

    Args:
        data: As :func:`tgnn.data.load` gives it.
        path: The ``.npz``, or a folder to be made.
        leave_out: As :func:`convert` takes it.
        overwrite: As above.
    """
    if path.suffix == ".npz":
        if isinstance(data, GraphDataset):
            write_packed(data, path, data.info.differs)
        else:
            write_graph(data.to_memory() if isinstance(data, DiskGraph) else data, path, data.info.differs)
    elif isinstance(data, DiskGraph):
        raise ValueError(f"{data.folder} is a graph on disk already: copy the folder")
    elif isinstance(data, GraphDataset):
        raise ValueError(f"{data.info.name} is many graphs, and {path} would be one on disk: write {path.name}.npz")
    else:
        write_disk(data, path, leave_out=leave_out, overwrite=overwrite)
