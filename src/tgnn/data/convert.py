"""Convert a data set to a single ``.npz`` file or to a graph on disk."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tgnn.data.catalog import CATALOG
from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import find_path, load
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.on_disk.from_memory import write_disk
from tgnn.data.on_disk.from_tables import stream_tables
from tgnn.data.readers.detect import detect_format
from tgnn.data.readers.graph_npz import write_graphs

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
    """Convert a data set to a ``.npz`` file or to a graph on disk, and return it.

    The tables of a single graph are written to disk block by block, so that they need not fit into memory.

    Args:
        source: Name or path of the data set, as :func:`tgnn.data.load` takes it.
        target: Path of a ``.npz`` file, or of the folder for a graph on disk.
        root: Folder that is searched before the cache and the network, as for :func:`tgnn.data.load`.
        offline: If ``True``, do not access the network.
        leave_out: Whether to drop what a graph on disk cannot store: edge features, edge weights and positions.
            Otherwise they are an error.
        overwrite: Whether to replace an existing graph on disk. A ``.npz`` file is always replaced.
    """
    if source not in CATALOG:
        path = find_path(source)
        if target.exists() and any(target.samefile(read) for read in (path, path.parent)):
            raise ValueError(f"{target} cannot be written, because the data is read from it; choose another target")
        if target.suffix != ".npz" and detect_format(path) == "table":
            folder = path if path.is_dir() else path.parent
            for finding in stream_tables(folder, target, leave_out=leave_out, overwrite=overwrite).findings:
                if finding.level == "warning":
                    logger.warning("%s: %s", folder.name, finding)
            return load(target)
    data = load(source, root, offline)
    write(data, target, leave_out=leave_out, overwrite=overwrite)
    return data


def write(data: LoadedData, path: Path, *, leave_out: bool = False, overwrite: bool = False) -> None:
    """Write a data set to a ``.npz`` file or to a graph on disk. Nothing is left behind if writing fails.

    Args:
        data: The data, as :func:`tgnn.data.load` returns it.
        path: Path of the ``.npz`` file, or of the folder for a graph on disk.
        leave_out: As for :func:`convert`.
        overwrite: As for :func:`convert`.
    """
    if path.suffix == ".npz":
        write_graphs(data.to_memory() if isinstance(data, DiskGraph) else data, path, data.info.differs)
    elif isinstance(data, DiskGraph):
        raise ValueError(f"{data.folder} is a graph on disk already; copy the folder instead")
    elif isinstance(data, GraphDataset):
        raise ValueError(
            f"{data.info.name} has many graphs, but {path} would be a single graph on disk; write {path.name}.npz"
        )
    else:
        write_disk(data, path, leave_out=leave_out, overwrite=overwrite)
