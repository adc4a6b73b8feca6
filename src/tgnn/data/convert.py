"""Convert a data set to a single ``.npz`` file or to a graph on disk."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.catalog import CATALOG
from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import find_path, load
from tgnn.data.on_disk import DiskGraph, GraphWriter
from tgnn.data.on_disk.from_tables import stream_tables
from tgnn.data.readers.detect import detect_format
from tgnn.data.readers.graph_npz import write_graphs
from tgnn.data.splits import PARTS, from_masks, split_codes
from tgnn.data.tables.schema import ReadOptions
from tgnn.data.tensors import csr

logger = logging.getLogger("tgnn")

_DEFAULTS = ReadOptions()
_ROWS_AT_ONCE = 2**16
_UNSUPPORTED = {"edge_attr": "edge features", "edge_weight": "edge weights", "pos": "node positions"}


def convert(
    source: str,
    target: Path,
    root: str | os.PathLike[str] | None = None,
    offline: bool = False,
    *,
    leave_out: bool = False,
    overwrite: bool = False,
    options: ReadOptions = _DEFAULTS,
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
        options: Columns to predict, column of ids and task of your own tables or molecules.
    """
    if source not in CATALOG:
        path = find_path(source)
        if target.exists() and any(target.samefile(read) for read in (path, path.parent)):
            raise ValueError(f"{target} cannot be written, because the data is read from it; choose another target")
        if target.suffix != ".npz" and detect_format(path) == "table":
            folder = path if path.is_dir() else path.parent
            report = stream_tables(folder, target, leave_out=leave_out, overwrite=overwrite, options=options)
            report.log_warnings()
            return load(target)
    data = load(source, root, offline, options=options)
    write(data, target, leave_out=leave_out, overwrite=overwrite)
    return data


def write(data: LoadedData, path: Path, *, leave_out: bool = False, overwrite: bool = False) -> None:
    """Write a data set to a ``.npz`` file or to a graph on disk. Nothing is left behind if writing fails.

    Args:
        data: The data, as :func:`tgnn.data.load` returns it.
        path: Path of the ``.npz`` file, or of the folder for a graph on disk.
        leave_out: As for :func:`convert`.
        overwrite: As for :func:`convert`.

    Example:
        >>> write(load("karate"), getfixture("tmp_path") / "karate")
        >>> load(getfixture("tmp_path") / "karate")
        DiskGraph(nodes=34, edges=156, features=34)
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
        _write_disk(data, path, leave_out, overwrite)


def _write_disk(data: Data, folder: Path, leave_out: bool, overwrite: bool) -> None:
    unsupported = [what for name, what in _UNSUPPORTED.items() if data.get(name) is not None]
    if unsupported and not leave_out:
        raise ValueError(
            f"A graph on disk cannot store {' or '.join(unsupported)}. Drop them with --leave-out (leave_out=True), or "
            "write a .npz file, which keeps them."
        )
    masks = [data.get(f"{part}_mask") for part in PARTS]
    split = None if any(mask is None for mask in masks) else split_codes(from_masks("masks", *masks)) + 1
    with GraphWriter(
        folder,
        int(data.num_nodes),
        num_edges=data.num_edges,
        row_bytes=0 if data.x is None else 4 * data.x.shape[1:].numel(),
        info=data.get("info"),
        encoding=data.get("encoding"),
        overwrite=overwrite,
    ) as writer:
        if data.edge_index is not None:
            writer.add_edges(*data.edge_index)
        if (ids := data.get("node_id")) is not None:
            writer.set_ids(ids)
        writer.add_nodes(y=data.y, part=split)
        for rows in () if data.x is None else _dense_blocks(data.x):
            writer.add_nodes(x=rows)


def _dense_blocks(x: Tensor) -> Iterator[Tensor]:
    """Yield sparse features as dense blocks of rows, and dense features at once. Integers become int32 if they fit."""
    if x.layout == torch.sparse_csr:
        for begin in range(0, x.size(0), _ROWS_AT_ONCE):
            ptr = x.crow_indices()[begin : begin + _ROWS_AT_ONCE + 1]
            entries = slice(int(ptr[0]), int(ptr[-1]))
            shape = (len(ptr) - 1, x.size(1))
            yield csr(ptr - ptr[0], x.col_indices()[entries], x.values()[entries], shape).to_dense()
        return
    rows = x if x.dim() == 2 else x.unsqueeze(1)
    small = not x.is_floating_point() and bool((x.abs() < 2**31).all())
    yield rows.int() if small else rows
