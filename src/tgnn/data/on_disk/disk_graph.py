"""A graph on disk whose edges and features are read only when they are accessed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.on_disk.manifest import COL, IDS, PART, ROWPTR, STRING_IDS, Manifest, X, Y, damaged
from tgnn.data.splits import Split
from tgnn.data.tensors import StringIds
from tgnn.data.transforms import FEATURE_SCALINGS, scale_columns, scale_rows
from tgnn.ops.graph import CompressedEdges
from tgnn.utils.memory_map import as_tensor, open_memmap

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

_MASKS = ("train_mask", "val_mask", "test_mask")


class DiskGraph:
    """One graph in a folder of arrays (:mod:`tgnn.data.on_disk.manifest`), for graphs larger than memory.

    Edges and features are memory-mapped, so opening a graph of any size is fast and only accessed parts use memory.
    Labels are in memory. Edge features and edge weights are not supported.

    Args:
        folder: Folder written by ``tgnn data convert``, ``tgnn data generate`` or
            :class:`~tgnn.data.on_disk.GraphWriter`.
        check: Whether to validate edge offsets, labels and split. ``tgnn data check`` validates everything else.

    Shapes:
        - ``x`` ``[N, F]`` as stored, memory-mapped, or ``None``; :meth:`rows` returns the features for training
        - ``in_edges.ptr`` ``[N + 1]``, ``in_edges.index`` ``[E]``: sources of the incoming edges of each node,
          memory-mapped
        - ``y`` ``[N]`` or ``[N, T]``, or ``None``

    Example:
        >>> from tgnn.data.on_disk import GraphWriter
        >>> folder = getfixture("tmp_path") / "toy"
        >>> with GraphWriter(folder, 3) as writer:
        ...     writer.add_nodes(x=torch.eye(3), y=torch.tensor([0, 1, 1]))
        ...     writer.add_edges(torch.tensor([0, 2, 1]), torch.tensor([1, 1, 0]))
        >>> graph = DiskGraph(folder)
        >>> graph
        DiskGraph(nodes=3, edges=3, features=3)
        >>> graph.rows(torch.tensor([2, 0])).tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        >>> graph.in_edges.ptr.tolist(), graph.in_edges.index.tolist()
        ([0, 1, 3, 3], [1, 0, 2])
    """

    info: DatasetInfo
    """Description of the data set."""
    split: Split
    """Set by :func:`tgnn.data.load`."""
    y: Tensor | None
    """Labels, in memory."""
    edge_index = edge_attr = edge_weight = pos = None
    """Attributes of PyG's ``Data`` that a graph on disk never has. The edges are in ``in_edges``."""

    def __init__(self, folder: Path | str, check: bool = True) -> None:
        from tgnn.data.dataset_info import DatasetInfo  # dataset_info imports this class

        self.folder = Path(folder)
        self.manifest = Manifest.open(self.folder)
        self.num_nodes, self.num_edges = self.manifest.nodes, self.manifest.edges
        self.hash, self.encoding = self.manifest.hash, self.manifest.encoding
        self.info = DatasetInfo(**self.manifest.info.model_dump(), source=f"files in {folder}")
        self.arrays = self.manifest.open_arrays(self.folder)
        """Memory-mapped arrays by file name."""
        if check:
            for name, array in self.arrays.items():
                if problem := self.manifest.find_problem(name, array):
                    raise damaged(self.folder / name, problem)
        self.in_edges = CompressedEdges(as_tensor(self.arrays[ROWPTR]), as_tensor(self.arrays[COL]), None)
        self.x = self._in_order = as_tensor(self.arrays[X]) if X in self.arrays else None
        # Features larger than half of the memory get a second memory map for random access to single rows.
        if X in self.arrays and self.arrays[X].nbytes > _memory() / 2:
            self.x = as_tensor(open_memmap(self.folder / X, random_access=True))
        self.y = torch.from_numpy(np.array(self.arrays[Y])) if Y in self.arrays else None
        self._features = "stored"
        self.columns: tuple[Tensor, Tensor] | None = None
        """Factor and offset of each feature column, applied when rows are read. ``None``: features are as stored."""

    # ---- features ------------------------------------------------------------------------------------------------

    @property
    def features(self) -> str:
        """Normalization of feature rows when they are read: ``"stored"`` (none), ``"row-sum"`` or ``"row-l2"``."""
        return self._features

    @features.setter
    def features(self, how: str) -> None:
        if how not in FEATURE_SCALINGS:
            raise ValueError(f"features is {how!r}, but must be one of {', '.join(FEATURE_SCALINGS)}.")
        if how != "stored" and (self.x is None or not self.x.is_floating_point()):
            raise ValueError(f"features={how} needs a graph with numeric features.")
        self._features = how

    def rows(self, index: Tensor) -> Tensor:
        """Read the features of some nodes into memory: float32, or int64 for categories.

        Args:
            index: Node indices, ``[B]``.
        """
        return self._scaled(self._existing(self.x).index_select(0, index))  # on one thread faster than x[index]

    def rows_between(self, begin: int, end: int) -> Tensor:
        """Read the features of consecutive nodes into memory.

        Args:
            begin: Index of the first node.
            end: Index after the last node.
        """
        return self._scaled(self._existing(self._in_order)[begin:end].clone())

    def _existing(self, x: Tensor | None) -> Tensor:
        if x is None:
            raise ValueError(f"The nodes of {self.info.name} have no features.")
        return x

    def _scaled(self, rows: Tensor) -> Tensor:
        if not rows.is_floating_point():
            return rows.long()
        rows = rows.float() if self.columns is None else scale_columns(rows.float(), *self.columns)
        return scale_rows(rows, self._features)

    # ---- other data ------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> Tensor | StringIds | None:
        """Node ids of the user: memory-mapped integers, or strings that are read when they are accessed."""
        if STRING_IDS not in self.manifest.files:
            return as_tensor(self.arrays[IDS]) if IDS in self.arrays else None
        path = self.folder / STRING_IDS
        try:
            frame = pl.read_parquet(path, glob=False)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise damaged(path, f"is not a valid Parquet file ({str(error).splitlines()[0]})") from error
        if frame.schema != {"id": pl.String} or frame.height != self.num_nodes:
            found, wanted = f"{frame.height:,} rows of {dict(frame.schema)}", f"{self.num_nodes:,} strings in 'id'"
            raise damaged(path, f"has {found}, but must have {wanted}")
        return StringIds(frame["id"])

    def stored_split(self) -> Split | None:
        """Return the split that is stored with the graph, if any."""
        if PART not in self.arrays:
            return None
        parts = (torch.from_numpy(np.flatnonzero(self.arrays[PART] == code)) for code in (1, 2, 3))
        return Split(self.info.stored_split, None, self.num_nodes, *parts)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute by name, like PyG's ``Data.get``.

        Args:
            name: Name of the attribute, such as ``"node_id"``.
            default: Value if the graph does not have the attribute.
        """
        value = getattr(self, name, None)
        return default if value is None else value

    def to_memory(self) -> Data:
        """Read the whole graph into memory as PyG's ``Data``."""
        edges = torch.stack([self.in_edges.index.long(), self.in_edges.owners().long()])
        data = Data(edge_index=edges, num_nodes=self.num_nodes, y=self.y)
        if self.x is not None:
            data.x = self.rows_between(0, self.num_nodes)
        for name in ("node_id", "encoding"):
            if (value := getattr(self, name)) is not None:
                data[name] = value
        if (split := self.stored_split()) is not None:
            data.update(dict(zip(_MASKS, split.masks())))
        data.info = self.info
        return data

    def __repr__(self) -> str:
        width = self.manifest.features
        return f"{type(self).__name__}(nodes={self.num_nodes}, edges={self.num_edges}, features={width})"


def _memory() -> float:
    """Return the memory of this machine in bytes, or infinity if it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")
