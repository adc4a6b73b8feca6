"""Writer of a graph on disk that takes nodes and edges in pieces and needs little memory."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.on_disk import manifest
from tgnn.data.on_disk.edge_sort import sort_edges
from tgnn.data.tensors import StringIds
from tgnn.ops.graph import CompressedEdges
from tgnn.utils.io import claim_folder, release_folder
from tgnn.utils.memory_map import as_tensor, check_disk_space, open_memmap
from tgnn.utils.progress import bar

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

MEMORY = 2**30
"""Memory for sorting edges, in bytes."""


class GraphWriter:
    """Write a graph for :class:`~tgnn.data.on_disk.DiskGraph`, with nodes and edges added in pieces.

    Use it as a context manager. Files are written to ``.NAME.part`` beside the folder and moved into place at the end.
    After an error or Ctrl-C nothing is left. Nodes must be added in order. Edges may be added in any order, before,
    between or after the nodes. The writer needs ``memory`` bytes plus the current piece for a graph of any size, unless
    a single node has more incoming edges than can be sorted in that memory.

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
        if not isinstance(num_nodes, (int, np.integer)) or num_nodes < 0:
            raise ValueError(f"num_nodes must be a non-negative integer, got {num_nodes!r}.")
        self.folder, self.num_nodes, self.num_edges = Path(folder), int(num_nodes), 0
        self.overwrite, self.info, self.encoding = overwrite, info, encoding
        self.part = self.folder.with_name(f".{self.folder.name}.part")
        if not self.folder.parent.is_dir():
            raise FileNotFoundError(f"The folder {self.folder.parent} does not exist.")
        manifest.check_replaceable(self.folder, overwrite)
        self._node_type, self._merge = manifest.node_type(self.num_nodes), merge
        node_size = self._node_type.itemsize
        self._at_once = max(1, memory // (16 * node_size))
        # Edges are stored as pairs, sorted, and as a second copy of the pairs if these are not sorted at once.
        copies = 3 if num_edges <= self._at_once else 5
        needed = (self.num_nodes + 1) * 8 + self.num_nodes * row_bytes + num_edges * copies * node_size
        check_disk_space(self.folder.parent, needed, self.folder)
        self._arrays: dict[str, _ArrayFile] = {}
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
        for name, values in ((manifest.X, x), (manifest.Y, y), (manifest.PART, part)):
            if values is not None:
                self._append(name, _as_stored(name, values))

    def set_ids(self, ids: Tensor | np.ndarray | StringIds | pl.Series) -> None:
        """Set the ids of all nodes: integers or strings.

        Ids must be unique. ``tgnn data check`` reports duplicate ids; the writer does not look for them.

        Args:
            ids: One id per node.
        """
        series = ids if isinstance(ids, pl.Series) else pl.Series(np.asarray(ids))
        if not series.dtype.is_integer() and series.dtype != pl.String:
            raise TypeError(f"ids must be integers or strings, got {series.dtype}.")
        if series.null_count():
            raise ValueError(f"Node {series.is_null().arg_max()} has no id.")
        if len(series) != self.num_nodes:
            raise ValueError(f"There are {len(series):,} ids, but the graph has {self.num_nodes:,} nodes.")
        if series.dtype.is_integer():
            self._append(manifest.IDS, _cast(manifest.IDS, series.to_numpy(), np.int64))
        else:
            pl.DataFrame({"id": series}).write_parquet(self.part / manifest.STRING_IDS)

    def _append(self, name: str, values: np.ndarray) -> None:
        if name not in self._arrays:
            self._arrays[name] = _ArrayFile(self.part / name, values)
        self._arrays[name].append(values)

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
        for nodes in (source, target) if source.size else ():
            if nodes.dtype.kind not in "iu":
                raise TypeError(f"Node indices of edges must be integers, got {nodes[0]!s} ({nodes.dtype}).")
            least, most = int(nodes.min()), int(nodes.max())
            if least < 0 or most >= self.num_nodes:
                wrong = least if least < 0 else most
                raise ValueError(f"An edge has the node {wrong}, but the graph has nodes 0 to {self.num_nodes - 1}.")
        self._pairs.write(np.stack([source, target], axis=1, dtype=self._node_type, casting="unsafe").data)
        self.num_edges += len(source)

    def sort_edges(self) -> CompressedEdges:
        """Sort the edges by target after the last one was added. Return them as memory maps."""
        if self._in_edges is not None:
            return self._in_edges
        self._pairs.close()
        total = 0
        self._append(manifest.ROWPTR, np.zeros(1, dtype=np.int64))
        with bar(f"{self.folder.name}: sorting {self.num_edges:,} edges", self.num_edges) as tick:
            for counts, sources in sort_edges(Path(self._pairs.name), self.num_nodes, self._at_once, self._merge):
                self._append(manifest.ROWPTR, total + counts.cumsum())
                self._append(manifest.COL, sources)
                total += len(sources)
                tick(len(sources))
        self.num_edges = total
        for name in (manifest.ROWPTR, manifest.COL):
            self._arrays[name].close()
        rowptr, col = (open_memmap(self.part / name) for name in (manifest.ROWPTR, manifest.COL))
        self._in_edges = CompressedEdges(as_tensor(rowptr), as_tensor(col), None)
        return self._in_edges

    # ---- finish -------------------------------------------------------------------------------------------------

    def __enter__(self) -> GraphWriter:
        lock = None
        try:
            lock = self._lock = claim_folder(self.part)
            self._pairs = (self.part / "pairs.edges").open("wb")
        except BaseException:  # an interrupt, too
            if lock is not None:
                lock.release()
                shutil.rmtree(self.part, ignore_errors=True)
            raise
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
        for name, array in self._arrays.items():
            array.close()
            if name not in (manifest.ROWPTR, manifest.COL) and array.rows != self.num_nodes:
                raise ValueError(f"{name} has {array.rows:,} rows, but the graph has {self.num_nodes:,} nodes.")
        content = self._manifest()
        release_folder(self.part, self._lock)
        size = sum(path.stat().st_size for path in self.part.iterdir())
        with bar(f"{self.folder.name}: computing checksums of {size / 2**30:.2f} GiB", size, in_bytes=True) as tick:
            manifest.Manifest.write(self.part, content, tick)
        manifest.check_replaceable(self.folder, self.overwrite)  # checked again because writing may take hours
        old = self.folder.with_name(f".{self.folder.name}.old")
        if self.folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            self.folder.rename(old)
        self.part.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)

    def abort(self) -> None:
        """Remove everything that has been written, unless the graph is complete. Errors of a full disk are ignored."""
        for close in (self._pairs.close, *(array.close for array in self._arrays.values())):
            with suppress(OSError):
                close()
        self._lock.release()
        shutil.rmtree(self.part, ignore_errors=True)

    def _manifest(self) -> dict[str, Any]:
        from tgnn.data.dataset_info import infer_dataset_info  # dataset_info imports this package

        x, y = (open_memmap(self.part / name) if name in self._arrays else None for name in (manifest.X, manifest.Y))
        info = self.info
        if info is None:
            data = Data(y=None if y is None else as_tensor(y), encoding=self.encoding)
            info = infer_dataset_info(data, self.folder.name, "")
        record = manifest.InfoRecord(**{key: value for key, value in asdict(info).items() if key != "source"})
        if y is not None and (problem := manifest.label_problem(y, record)):
            raise ValueError(f"{manifest.Y} {problem}, according to info.")
        return {
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "features": 0 if x is None else x.shape[1],
            "info": record,
            "encoding": None if self.encoding is None else dict(self.encoding),
        }


class _ArrayFile:
    """A ``.npy`` file to which rows are appended. Its header is written again when the number of rows is known."""

    def __init__(self, path: Path, like: np.ndarray) -> None:
        self.rows, self._name, self._like = 0, path.name, like[:0].copy()
        self._file = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        if values.dtype != self._like.dtype or values.shape[1:] != self._like.shape[1:]:
            stored, found = (f"{a.dtype} [rows{''.join(f', {n}' for n in a.shape[1:])}]" for a in (self._like, values))
            raise ValueError(f"{self._name} has {stored}, but the next piece has {found}.")
        if values.size:
            self._file.write(np.ascontiguousarray(values).data)
        self.rows += len(values)

    def close(self) -> None:
        if not self._file.closed:
            with self._file:
                self._file.seek(0)
                self._write_header()

    def _write_header(self) -> None:
        header = np.lib.format.header_data_from_array_1_0(self._like)
        header["shape"] = (self.rows, *self._like.shape[1:])  # numpy pads the header, so its size stays the same
        np.lib.format.write_array_header_1_0(self._file, header)


def _as_stored(name: str, values: np.ndarray | Tensor) -> np.ndarray:
    """Convert features, labels or split to the type in which they are stored."""
    array = values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    dims = manifest.ARRAYS[name][1]
    if array.dtype.kind not in "iubf" or array.ndim not in dims:
        shapes = " or ".join("[nodes]" if dim == 1 else "[nodes, columns]" for dim in dims)
        raise ValueError(f"{name} must be numbers {shapes}, got {array.dtype} {list(array.shape)}.")
    if name == manifest.X and array.dtype.name in ("float16", "uint8", "int16", "int32"):
        return array
    is_float = array.dtype.kind == "f" or (name == manifest.Y and array.ndim == 2)  # multiple labels, 0 and 1
    stored = _cast(name, array, np.uint8 if name == manifest.PART else np.float32 if is_float else np.int64)
    if name == manifest.PART and (problem := manifest.split_problem(stored)):
        raise ValueError(f"{name} {problem}.")
    return stored


def _cast(name: str, array: np.ndarray, dtype: type[np.number]) -> np.ndarray:
    """Convert an array to another type. A number that does not fit into it is an error."""
    with np.errstate(over="ignore", invalid="ignore"):
        stored = array.astype(dtype, copy=False)
    if stored is not array:
        lost = np.isinf(stored) & np.isfinite(array) if dtype is np.float32 else stored != array
        if lost.any():
            raise ValueError(f"{name} has the value {array[lost][0]!s}, which does not fit into {stored.dtype}.")
    return stored
