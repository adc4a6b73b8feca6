"""Writer of a graph on disk that takes nodes and edges in pieces and needs little memory."""

from __future__ import annotations

import operator
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import polars as pl
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.on_disk import array_checks, layout
from tgnn.data.on_disk.buckets import EdgeBuckets
from tgnn.data.on_disk.string_ids import write_string_ids
from tgnn.data.tensors import StringIds
from tgnn.ops.graph import CompressedEdges
from tgnn.utils.memory_map import allocate, as_tensor, check_disk_space, open_memmap, shorten
from tgnn.utils.progress import bar

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

MEMORY = 2**30
"""Memory for sorting edges, in bytes."""


class GraphWriter:
    """Write a graph for :class:`~tgnn.data.on_disk.DiskGraph`, with nodes and edges added in pieces.

    Use it as a context manager. Files are written to ``.NAME.part`` beside the folder and moved into place at the end.
    After an error or Ctrl-C nothing is left. Nodes must be added in order. Edges may be added in any order, before,
    between or after the nodes. The writer needs ``memory`` bytes plus the current piece for a graph of any size.

    Args:
        folder: Folder to create. Its parent folder must exist.
        num_nodes: Number of nodes.
        num_edges: Approximate number of edges, to check the free disk space at the start.
        row_bytes: Size of the features, labels and split of a node in bytes, to check the free disk space at the start.
        info: Description of the data set. Default: inferred from the labels.
        encoding: ``data.encoding`` of the user's tables, as JSON values.
        merge: Whether to remove duplicate edges and sort the sources of each node. By default, edges keep their order.
        memory: Memory for sorting edges, in bytes.
        overwrite: Whether to replace an existing graph. A folder with other files is never replaced.

    Example:
        >>> folder = getfixture("tmp_path") / "ring"
        >>> with GraphWriter(folder, 4) as writer:
        ...     for begin in (0, 2):
        ...         nodes = np.arange(begin, begin + 2)
        ...         writer.add_nodes(x=np.ones((2, 5)), y=nodes % 2)
        ...         writer.add_edges(nodes, (nodes + 1) % 4)
        >>> from tgnn.data import load
        >>> load(folder)
        DiskGraph(nodes=4, edges=4, features=5)
    """

    def __init__(
        self,
        folder: Path | str,
        num_nodes: int,
        *,
        num_edges: int = 0,
        row_bytes: int = 0,
        info: DatasetInfo | None = None,
        encoding: Mapping[str, Any] | None = None,
        merge: bool = False,
        memory: int = MEMORY,
        overwrite: bool = False,
    ) -> None:
        num_nodes = _count(num_nodes, "num_nodes")
        self.folder, self.num_nodes, self.merge, self.overwrite = Path(folder), num_nodes, merge, overwrite
        self.info, self.encoding = info, encoding
        self.num_edges = 0
        self.part = self.folder.with_name(f".{self.folder.name}.part")
        _check_target(self.folder, self.part, overwrite)
        kind = layout.node_type(num_nodes)
        self._at_once = max(1, memory // (16 * kind.itemsize))
        # Edges are stored twice: as pairs, and then sorted.
        needed = (num_nodes + 1) * 8 + num_nodes * row_bytes + num_edges * 3 * kind.itemsize
        check_disk_space(self.folder.parent, needed, self.folder)
        if overwrite:
            shutil.rmtree(self.part, ignore_errors=True)
        self.part.mkdir()
        self._buckets = EdgeBuckets(self.part, "all", 0, num_nodes, num_nodes, kind)
        self._columns: dict[str, _ArrayFile] = {}
        self._in_edges: CompressedEdges | None = None

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def add_nodes(
        self,
        x: np.ndarray | Tensor | None = None,
        y: np.ndarray | Tensor | None = None,
        part: np.ndarray | Tensor | None = None,
    ) -> None:
        """Add the next nodes. All pieces must have the same arguments, types and widths.

        Args:
            x: Features, ``[B, F]``: floats (stored as float32 or float16) or integers for categories.
            y: Labels, ``[B]`` or ``[B, T]``: classes (-1: no label) or numbers (NaN: no label).
            part: Set of each node, ``[B]``: 0 no set, 1 training, 2 validation, 3 test.
        """
        given = {layout.X: x, layout.Y: y, layout.PART: part}
        for name, values in given.items():
            if values is not None:
                self._append(name, _as_stored(name, values))

    def set_ids(self, ids: Tensor | np.ndarray | StringIds | pl.Series) -> None:
        """Set the ids of all nodes: integers or strings.

        Ids must be unique. ``tgnn data check`` reports duplicate ids; the writer does not look for them.

        Args:
            ids: One id per node.
        """
        series = _as_series(ids)
        if series.dtype.is_integer():
            self._append(layout.IDS, series.to_numpy())
            return
        if len(series) != self.num_nodes:
            raise ValueError(f"There are {len(series):,} ids, but the graph has {self.num_nodes:,} nodes.")
        write_string_ids(series, self.part / layout.STRING_IDS)

    def _append(self, name: str, values: np.ndarray) -> None:
        if name not in self._columns:
            self._columns[name] = _ArrayFile(self.part / name, values, self.num_nodes)
        self._columns[name].append(values)

    # ---- edges ---------------------------------------------------------------------------------------------------

    def add_edges(self, source: np.ndarray | Tensor, target: np.ndarray | Tensor) -> None:
        """Add edges.

        Args:
            source: Indices of the source nodes, ``[B]``.
            target: Indices of the target nodes, ``[B]``.
        """
        if self._in_edges is not None:
            raise RuntimeError("No edges can be added after sort_edges().")
        source, target = np.asarray(source), np.asarray(target)
        if source.shape != target.shape or source.ndim != 1:
            raise ValueError(
                f"source and target must have the same length, got {list(source.shape)} and {list(target.shape)}."
            )
        for end in (source, target):
            if end.size and end.dtype.kind not in "iu":
                raise TypeError(f"Node indices of edges must be integers, got {end[0]!s} ({end.dtype}).")
            if end.size and (int(end.min()) < 0 or int(end.max()) >= self.num_nodes):
                wrong = int(end.min()) if int(end.min()) < 0 else int(end.max())
                raise ValueError(f"An edge has the node {wrong}, but the graph has nodes 0 to {self.num_nodes - 1}.")
        for begin in range(0, len(source), self._at_once):
            piece = slice(begin, begin + self._at_once)
            self._buckets.add(source[piece], target[piece])
        self.num_edges += len(source)

    def sort_edges(self) -> CompressedEdges:
        """Sort the edges by target after the last one was added. Return them as memory maps."""
        if self._in_edges is not None:
            return self._in_edges
        rowptr = _ArrayFile(self.part / layout.ROWPTR, np.zeros(1, dtype=np.int64), self.num_nodes + 1)
        self._columns[layout.ROWPTR] = rowptr
        rowptr.append(np.zeros(1, dtype=np.int64))
        col = self._columns[layout.COL] = _ArrayFile(
            self.part / layout.COL, np.empty(0, dtype=self._buckets.node_type), self.num_edges
        )
        before = 0

        def write(counts: np.ndarray, sources: np.ndarray) -> None:
            nonlocal before
            ends = counts.cumsum()
            rowptr.append(ends + before)
            before += int(ends[-1]) if len(ends) else 0
            col.append(sources)

        with bar(f"{self.folder.name}: sorting {self.num_edges:,} edges", self.num_edges) as tick:
            self._buckets.sort(write, self._at_once, self.merge, tick)
        rowptr.close()
        col.close(col.done)
        self.num_edges = col.done
        self._in_edges = CompressedEdges(as_tensor(open_memmap(rowptr.path)), as_tensor(open_memmap(col.path)), None)
        return self._in_edges

    # ---- finish -------------------------------------------------------------------------------------------------

    def __enter__(self) -> GraphWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.abort()

    def finish(self) -> None:
        """Write the remaining files and move the folder into place."""
        self.sort_edges()
        self._in_edges = None
        for name, column in self._columns.items():
            if column.done != column.rows:
                raise ValueError(f"{name} has {column.done:,} rows, but the graph has {column.rows:,} nodes.")
            column.close()
        size = sum(path.stat().st_size for path in self.part.iterdir())
        with bar(f"{self.folder.name}: computing checksums of {size / 2**30:.2f} GiB", size, in_bytes=True) as tick:
            layout.write_manifest(self.part, self._manifest(), tick)
        _check_old(self.folder, self.overwrite)  # checked again because writing may take hours
        _replace(self.part, self.folder)

    def abort(self) -> None:
        """Remove everything that has been written, unless the graph is complete.

        Closing a file on a full disk may fail again. That error is ignored because the file is removed.
        """
        for close in (self._buckets.close, *(column.close for column in self._columns.values())):
            with suppress(OSError):
                close()
        shutil.rmtree(self.part, ignore_errors=True)

    def _manifest(self) -> dict[str, Any]:
        from tgnn.data.dataset_info import infer_dataset_info  # dataset_info imports this package

        x, y = (open_memmap(self.part / name) if name in self._columns else None for name in (layout.X, layout.Y))
        info = self.info
        if info is None:
            data = Data(y=None if y is None else as_tensor(y), encoding=self.encoding)
            info = infer_dataset_info(data, self.folder.name, "")
        record = layout.InfoRecord(**{key: value for key, value in asdict(info).items() if key != "source"})
        if y is not None and (wrong := array_checks.wrong_labels(y, info.target, info.outputs)):
            raise ValueError(f"{layout.Y} {wrong}, according to info.")
        manifest = {"nodes": self.num_nodes, "edges": self.num_edges, "features": 0 if x is None else x.shape[1]}
        return manifest | {"info": record, "encoding": None if self.encoding is None else dict(self.encoding)}


class _ArrayFile:
    """A ``.npy`` file to which rows are appended.

    Args:
        path: Path of the file.
        like: Array with the type and row shape of the file.
        rows: Total number of rows.
    """

    def __init__(self, path: Path, like: np.ndarray, rows: int) -> None:
        self.path, self.rows, self.done = path, rows, 0
        self._dtype, self._shape = like.dtype, like.shape[1:]
        offset = allocate(path, like.dtype, (rows, *like.shape[1:]))
        self._file: BinaryIO = path.open("r+b")
        self._file.seek(offset)

    def append(self, values: np.ndarray) -> None:
        if values.dtype != self._dtype or values.shape[1:] != self._shape:
            found, wanted = (f"{t} [rows{''.join(f', {n}' for n in s)}]" for t, s in self._types(values))
            raise ValueError(f"{self.path.name} has {wanted}, but the next piece has {found}.")
        if self.done + len(values) > self.rows:
            raise ValueError(f"{self.path.name} has {self.rows:,} rows, but more were added.")
        if values.size:
            self._file.write(np.ascontiguousarray(values).data)
        self.done += len(values)

    def _types(self, values: np.ndarray) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        return (values.dtype, values.shape[1:]), (self._dtype, self._shape)

    def close(self, rows: int | None = None) -> None:
        """Close the file and truncate it to a number of rows, if given."""
        self._file.close()
        if rows is not None and rows < self.rows:
            shorten(self.path, rows)
            self.rows = rows


def _count(value: int, name: str) -> int:
    """Convert a count to ``int``. NumPy integers would make the header of a ``.npy`` file unreadable."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}.") from None
    if count < 0:
        raise ValueError(f"{name} must not be negative, got {count}.")
    return count


def _as_series(ids: Tensor | np.ndarray | StringIds | pl.Series) -> pl.Series:
    """Convert ids to int64 or strings."""
    if isinstance(ids, StringIds):
        return pl.Series(ids.tolist(), dtype=pl.String)
    series = ids if isinstance(ids, pl.Series) else pl.Series(np.asarray(ids))
    if series.dtype.is_integer():
        _check_room(layout.IDS, series.drop_nulls().to_numpy())
        series = series.cast(pl.Int64)
    elif series.dtype != pl.String:
        raise TypeError(f"ids must be integers or strings, got {series.dtype}.")
    if series.null_count():
        raise ValueError(f"Node {series.is_null().arg_max()} has no id.")
    return series


def _as_stored(name: str, values: np.ndarray | Tensor) -> np.ndarray:
    array = values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "iubf" or not 1 <= array.ndim <= 2:
        raise ValueError(f"{name} must be numbers with one row per node, got {array.dtype} {list(array.shape)}.")
    if name == layout.X and array.ndim != 2:
        raise ValueError(f"{name} must be [nodes, features], got {list(array.shape)}. For one feature pass x[:, None].")
    if name == layout.PART:
        return _as_part(array)
    if array.dtype.kind == "f":
        return array if name == layout.X and array.dtype == np.float16 else _as_float(name, array)
    if name == layout.Y and array.ndim == 2:  # multiple labels, 0 and 1
        return array.astype(np.float32)
    if name == layout.X and array.dtype.name in ("uint8", "int16", "int32"):
        return array
    _check_room(name, array)
    return array.astype(np.int64, copy=False)


def _as_part(array: np.ndarray) -> np.ndarray:
    if array.ndim != 1:
        raise ValueError(f"{layout.PART} must have one number per node, got {list(array.shape)}.")
    with np.errstate(invalid="ignore"):
        part = array.astype(np.uint8)
    wrong = array[(array != part) | (part > 3)]
    if len(wrong):
        raise ValueError(
            f"{layout.PART} has the value {wrong[0]!s}, but must be 0 (no set), 1 (training), 2 (validation) or "
            "3 (test)."
        )
    return part


def _as_float(name: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        stored = array.astype(np.float32, copy=False)
    if stored is not array:
        lost = np.isinf(stored) & np.isfinite(array)
        if lost.any():
            raise ValueError(f"{name} has {array[lost][0]!s}, which is too large for float32.")
    return stored


def _check_room(name: str, array: np.ndarray) -> None:
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
        raise ValueError(f"{name} has {array.max()!s}, which is too large for int64.")


def _check_target(folder: Path, part: Path, overwrite: bool) -> None:
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"The folder {folder.parent} does not exist.")
    _check_old(folder, overwrite)
    if part.exists() and not overwrite:
        raise FileExistsError(
            f"{part} exists. Another process is writing the graph, or a process was killed. In the second case "
            "remove it, or use --force (overwrite=True)."
        )


def _check_old(folder: Path, overwrite: bool) -> None:
    """Raise an error if the folder contains anything but a graph on disk, or if it must not be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if why := layout.why_not_replaceable(folder):
        raise FileExistsError(f"{folder} exists and {why}. It is not overwritten. Choose another folder.")
    if not overwrite:
        raise FileExistsError(f"{folder} exists. Use --force (overwrite=True) to replace it.")


def _replace(part: Path, folder: Path) -> None:
    """Replace a folder by another one."""
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
