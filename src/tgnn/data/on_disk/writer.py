"""Writes a graph to disk piece by piece: whole or not at all, in little memory."""

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
from tgnn.data.on_disk.string_ids import to_arrays
from tgnn.data.readers.word_ids import WordIds
from tgnn.ops.graph import Grouping
from tgnn.utils.memory_map import allocate, as_tensor, check_disk_space, open_memmap, shorten
from tgnn.utils.progress import bar

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

MEMORY = 2**30
"""Bytes that sorting may take, beside what the caller holds."""
_WORDS_AT_ONCE = 2**20


class GraphWriter:
    """Takes nodes and edges in pieces, and writes the folder that :class:`~tgnn.data.on_disk.DiskGraph` opens.

    Use it in a ``with``: everything goes to ``.NAME.part`` beside the folder and is moved into place at the end; after
    an error or Ctrl-C nothing is left. Pieces of nodes are in the order of the nodes; pieces of edges in any order,
    before, between or after them. Memory is ``memory`` and the piece at hand, whatever the size of the graph.

    Args:
        folder: To be made; the folder that it is in must exist.
        num_nodes: How many nodes there are.
        num_edges: About how many edges come, if that is known, and
        row_bytes: bytes of features, labels and so on of a node: to see at once whether the disk has the space.
        info: What is known of the data; by default what the labels tell.
        encoding: How a user's tables were encoded, in plain values.
        merge: Whether an edge that comes twice is kept once, and sources of a node are put in order. Without it they
            stay as they come.
        memory: Bytes that sorting may take.
        overwrite: Whether to write over a graph that is there. A folder with anything else in it is left alone.

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
        _check_place(self.folder, self.part, overwrite)
        kind = layout.node_type(num_nodes)
        self._at_once = max(1, memory // (16 * kind.itemsize))
        # Edges are there twice: as pairs, and then sorted.
        needed = (num_nodes + 1) * 8 + num_nodes * row_bytes + num_edges * 3 * kind.itemsize
        check_disk_space(self.folder.parent, needed, self.folder)
        if overwrite:
            shutil.rmtree(self.part, ignore_errors=True)
        self.part.mkdir()
        self._buckets = EdgeBuckets(self.part, "all", 0, num_nodes, num_nodes, kind)
        self._columns: dict[str, _Column] = {}
        self._in_edges: Grouping | None = None

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def add_nodes(
        self,
        x: np.ndarray | Tensor | None = None,
        y: np.ndarray | Tensor | None = None,
        part: np.ndarray | Tensor | None = None,
    ) -> None:
        """The next nodes. What the first piece has, all must have; what cannot be kept as it is, is an error.

        Args:
            x: Features, ``[B, F]``: numbers (kept as float32, or float16 if they are), or integers for categories.
            y: Targets, ``[B]`` or ``[B, T]``: classes (-1: none) or numbers (NaN: none).
            part: ``[B]``: 0 in no part, 1 train, 2 validation, 3 test.
        """
        given = {layout.X: x, layout.Y: y, layout.PART: part}
        for name, values in given.items():
            if values is not None:
                self._append(name, _as_stored(name, values))

    def set_ids(self, ids: Tensor | np.ndarray | WordIds | pl.Series) -> None:
        """Ids of all nodes as the user has them: whole numbers or words.

        No two may be the same. That is not looked at here, where it would take longer than writing them: ``tgnn data
        check`` tells.

        Args:
            ids: One for each node.
        """
        words = _as_series(ids)
        if words.dtype.is_integer():
            self._append(layout.IDS, words.to_numpy())
            return
        letters = int(words.str.len_bytes().cast(pl.Int64).sum())
        before = 0
        for begin in range(0, len(words), _WORDS_AT_ONCE):
            text, ends = to_arrays(words[begin : begin + _WORDS_AT_ONCE])
            self._append(layout.IDS, text, letters)
            self._append(layout.ENDS, ends + before)
            before += len(text)

    def _append(self, name: str, values: np.ndarray, rows: int | None = None) -> None:
        if name not in self._columns:
            self._columns[name] = _Column(self.part / name, values, self.num_nodes if rows is None else rows)
        self._columns[name].append(values)

    # ---- edges ---------------------------------------------------------------------------------------------------

    def add_edges(self, source: np.ndarray | Tensor, target: np.ndarray | Tensor) -> None:
        """Some edges.

        Args:
            source: Where they come from, ``[B]``, whole numbers.
            target: Where they go to, ``[B]``.
        """
        if self._in_edges is not None:
            raise RuntimeError("the edges have been sorted already: no more can be added")
        source, target = np.asarray(source), np.asarray(target)
        if source.shape != target.shape or source.ndim != 1:
            raise ValueError(f"source and target must be as long, got {list(source.shape)} and {list(target.shape)}")
        for end in (source, target):
            if end.size and end.dtype.kind not in "iu":
                raise TypeError(f"an edge names node {end[0]!s} ({end.dtype}), but nodes are whole numbers")
            if end.size and (int(end.min()) < 0 or int(end.max()) >= self.num_nodes):
                wrong = int(end.min()) if int(end.min()) < 0 else int(end.max())
                raise ValueError(f"an edge names node {wrong}, but there are {self.num_nodes:,}")
        for begin in range(0, len(source), self._at_once):
            piece = slice(begin, begin + self._at_once)
            self._buckets.add(source[piece], target[piece])
        self.num_edges += len(source)

    def sort_edges(self) -> Grouping:
        """Puts the edges in order, after the last of them; gives them, mapped, for those who make labels of them."""
        if self._in_edges is not None:
            return self._in_edges
        rowptr = _Column(self.part / layout.ROWPTR, np.zeros(1, dtype=np.int64), self.num_nodes + 1)
        self._columns[layout.ROWPTR] = rowptr
        rowptr.append(np.zeros(1, dtype=np.int64))
        col = self._columns[layout.COL] = _Column(
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
        self._in_edges = Grouping(as_tensor(open_memmap(rowptr.path)), as_tensor(open_memmap(col.path)), None)
        return self._in_edges

    # ---- the end -------------------------------------------------------------------------------------------------

    def __enter__(self) -> GraphWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.abort()

    def finish(self) -> None:
        """Writes what is left, and moves the folder into place."""
        self.sort_edges()
        self._in_edges = None
        for name, column in self._columns.items():
            if column.done != column.rows:
                raise ValueError(f"{name} has {column.done:,} rows, but there are {column.rows:,} nodes")
            column.close()
        size = sum(path.stat().st_size for path in self.part.iterdir())
        with bar(f"{self.folder.name}: adding up {size / 2**30:.2f} GiB", size, in_bytes=True) as tick:
            layout.write_manifest(self.part, self._facts(), tick)
        _check_old(self.folder, self.overwrite)  # again: it may have been hours
        _replace(self.part, self.folder)

    def abort(self) -> None:
        """Takes away what has been written, unless it is whole.

        Closing writes what is left, and on a full disk that fails again; it is thrown away, so nobody needs to know.
        """
        for close in (self._buckets.close, *(column.close for column in self._columns.values())):
            with suppress(OSError):
                close()
        shutil.rmtree(self.part, ignore_errors=True)

    def _facts(self) -> dict[str, Any]:
        from tgnn.data.dataset_info import describe  # which knows graphs on disk

        x, y = (open_memmap(self.part / name) if name in self._columns else None for name in (layout.X, layout.Y))
        info = self.info
        if info is None:
            data = Data(y=None if y is None else as_tensor(y), encoding=self.encoding)
            info = describe(data, self.folder.name, "")
        told = {key: value for key, value in asdict(info).items() if key != "source"}
        if wrong := array_checks.wrong_info(told):
            raise ValueError(f"info {wrong}")
        if y is not None and (wrong := array_checks.wrong_labels(y, info.target, info.outputs)):
            raise ValueError(f"{layout.Y} {wrong}, as info says")
        facts = {"nodes": self.num_nodes, "edges": self.num_edges, "features": 0 if x is None else x.shape[1]}
        return facts | {"info": told, "encoding": None if self.encoding is None else dict(self.encoding)}


class _Column:
    """An array in a file that is written from its beginning to its end.

    Args:
        path: Of the ``.npy``.
        like: Something of the same type, and of the same shape but for the number of rows.
        rows: How many there will be.
    """

    def __init__(self, path: Path, like: np.ndarray, rows: int) -> None:
        self.path, self.rows, self.done = path, rows, 0
        self._dtype, self._shape = like.dtype, like.shape[1:]
        offset = allocate(path, like.dtype, (rows, *like.shape[1:]))
        self._file: BinaryIO = path.open("r+b")
        self._file.seek(offset)

    def append(self, values: np.ndarray) -> None:
        if values.dtype != self._dtype or values.shape[1:] != self._shape:
            found, wanted = (f"{t} [rows{''.join(f', {n}' for n in s)}]" for t, s in self._and(values))
            raise ValueError(f"{self.path.name} began with {wanted}, but goes on with {found}")
        if self.done + len(values) > self.rows:
            raise ValueError(f"{self.path.name} gets more than its {self.rows:,} rows")
        if values.size:
            self._file.write(np.ascontiguousarray(values).data)
        self.done += len(values)

    def _and(self, values: np.ndarray) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        return (values.dtype, values.shape[1:]), (self._dtype, self._shape)

    def close(self, rows: int | None = None) -> None:
        """Closes the file; behind so many rows it is cut."""
        self._file.close()
        if rows is not None and rows < self.rows:
            shorten(self.path, rows)
            self.rows = rows


def _count(value: int, name: str) -> int:
    """A plain number of what is counted: numpy's own would not be read again from the header of an array."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if count < 0:
        raise ValueError(f"{name} must not be negative, got {count}")
    return count


def _as_series(ids: Tensor | np.ndarray | WordIds | pl.Series) -> pl.Series:
    """Ids as int64 or as words."""
    if isinstance(ids, WordIds):
        return pl.Series(ids.tolist(), dtype=pl.String)
    series = ids if isinstance(ids, pl.Series) else pl.Series(np.asarray(ids))
    if series.dtype.is_integer():
        _check_room(layout.IDS, series.drop_nulls().to_numpy())
        series = series.cast(pl.Int64)
    elif series.dtype != pl.String:
        raise TypeError(f"ids must be whole numbers or words, got {series.dtype}")
    if series.null_count():
        raise ValueError(f"node {series.is_null().arg_max()} has no id")
    return series


def _as_stored(name: str, values: np.ndarray | Tensor) -> np.ndarray:
    array = values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "iubf" or not 1 <= array.ndim <= 2:
        raise ValueError(f"{name} must be numbers with a row for each node, got {array.dtype} {list(array.shape)}")
    if name == layout.X and array.ndim != 2:
        raise ValueError(f"{name} must be [nodes, features], got {list(array.shape)}; for one feature give x[:, None]")
    if name == layout.PART:
        return _as_part(array)
    if array.dtype.kind == "f":
        return array if name == layout.X and array.dtype == np.float16 else _as_float(name, array)
    if name == layout.Y and array.ndim == 2:  # 0 and 1, for several labels
        return array.astype(np.float32)
    if name == layout.X and array.dtype.name in ("uint8", "int16", "int32"):
        return array
    _check_room(name, array)
    return array.astype(np.int64, copy=False)


def _as_part(array: np.ndarray) -> np.ndarray:
    if array.ndim != 1:
        raise ValueError(f"{layout.PART} must have one number for each node, got {list(array.shape)}")
    with np.errstate(invalid="ignore"):
        part = array.astype(np.uint8)
    wrong = array[(array != part) | (part > 3)]
    if len(wrong):
        raise ValueError(f"{layout.PART} has {wrong[0]!s}, and must be 0 (none), 1 (train), 2 (validation) or 3 (test)")
    return part


def _as_float(name: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        stored = array.astype(np.float32, copy=False)
    if stored is not array:
        lost = np.isinf(stored) & np.isfinite(array)
        if lost.any():
            raise ValueError(f"{name} has {array[lost][0]!s}, which is too large for float32")
    return stored


def _check_room(name: str, array: np.ndarray) -> None:
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
        raise ValueError(f"{name} has {array.max()!s}, which is too large for int64")


def _check_place(folder: Path, part: Path, overwrite: bool) -> None:
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.parent}")
    _check_old(folder, overwrite)
    if part.exists() and not overwrite:
        raise FileExistsError(
            f"{part} exists: another program is writing there, or one was killed; in that case take it away, or give "
            "--force (overwrite=True)"
        )


def _check_old(folder: Path, overwrite: bool) -> None:
    """What is there already may be taken away: nothing, or a graph on disk and no file beside."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if why := layout.why_not_replaceable(folder):
        raise FileExistsError(f"{folder} exists, and {why}: it is not written over; choose another folder")
    if not overwrite:
        raise FileExistsError(f"{folder} exists; give --force (overwrite=True) to write over it")


def _replace(part: Path, folder: Path) -> None:
    """Moves a folder into the place of another."""
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
