"""A graph that stays on disk: what is asked for is read, and no more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.feature_scaling import WAYS, scale_columns, scale_rows
from tgnn.data.on_disk import array_checks, layout
from tgnn.data.on_disk.string_ids import MappedStringIds
from tgnn.data.readers.word_ids import WordIds
from tgnn.data.splits import Split
from tgnn.ops.graph import Grouping
from tgnn.utils.memory_map import advise_random_access, as_tensor, open_memmap

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

_MASKS = ("train_mask", "val_mask", "test_mask")


class DiskGraph:
    """One graph with labelled nodes in a folder (:mod:`tgnn.data.on_disk.layout`), for graphs larger than memory.

    Edges and features are mapped: opening takes a moment whatever the size, and memory is taken by what is read.
    Labels are in memory. It has no features or weights of edges.

    Args:
        folder: As ``tgnn data convert``, ``tgnn data generate`` or :class:`~tgnn.data.on_disk.GraphWriter` writes it.
        check: Whether to see that pointers and targets make sense. All the rest is looked at by ``tgnn data check``.

    Shapes:
        - ``x`` ``[N, F]`` as stored, mapped, or ``None``; :meth:`rows` gives what is learned from
        - ``in_edges.ptr`` ``[N + 1]``, ``in_edges.other`` ``[E]``: sources of the edges into each node, mapped
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
        >>> graph.in_edges.ptr.tolist(), graph.in_edges.other.tolist()
        ([0, 1, 3, 3], [1, 0, 2])
    """

    info: DatasetInfo
    """What is known of it."""
    split: Split
    """Set by :func:`tgnn.data.load`."""
    y: Tensor | None
    """Targets, in memory."""
    edge_index = edge_attr = edge_weight = pos = None
    """What it never has; ``in_edges`` has the edges."""

    def __init__(self, folder: Path | str, check: bool = True) -> None:
        from tgnn.data.dataset_info import DatasetInfo  # which knows this class

        self.folder = Path(folder)
        self._facts = layout.read_manifest(self.folder)
        facts = self._facts
        self.num_nodes: int = facts["nodes"]
        self.num_edges: int = facts["edges"]
        self.hash: str = facts["hash"]
        self.encoding: dict[str, Any] | None = facts["encoding"]
        try:
            self.info = DatasetInfo(**facts["info"], source=f"files in {folder}")
        except TypeError as error:
            raise self._wrong(layout.FILE, f"does not tell a graph ({error})") from error
        self._refuse(layout.FILE, array_checks.wrong_info(facts["info"]))
        rowptr, col = self._array(layout.ROWPTR), self._array(layout.COL)
        assert rowptr is not None
        assert col is not None
        self.in_edges = Grouping(as_tensor(rowptr), as_tensor(col), None)
        x, y = self._array(layout.X), self._array(layout.Y)
        self.x = self._in_order = None if x is None else as_tensor(x)
        # What will not stay in memory is read through another map where single rows are asked for.
        if x is not None and x.nbytes > _memory() / 2:
            self.x = as_tensor(advise_random_access(open_memmap(self.folder / layout.X)))
        self.y = None if y is None else torch.from_numpy(np.array(y))
        self._features = "stored"
        self.columns: tuple[Tensor, Tensor] | None = None
        """By what columns are multiplied as they are read, and what is added; ``None``: they are as stored."""
        if check:
            self._check(rowptr)

    def _check(self, rowptr: np.ndarray) -> None:
        """Pointers, targets and parts are read once: elsewhere, wrong ones would be errors that nobody understands."""
        self._refuse(layout.ROWPTR, array_checks.wrong_pointers(rowptr, 0, self.num_edges))
        if self.y is not None:
            self._refuse(layout.Y, array_checks.wrong_labels(self.y.numpy(), self.info.target, self.info.outputs))
        if (part := self._array(layout.PART)) is not None:
            self._refuse(layout.PART, array_checks.wrong_parts(part))

    def _refuse(self, name: str, wrong: str) -> None:
        if wrong:
            raise self._wrong(name, wrong)

    def _wrong(self, name: str, wrong: str) -> ValueError:
        return ValueError(f"{self.folder / name} {wrong}: copy the folder again, or {layout.ANEW}")

    def _array(self, name: str) -> np.memmap | None:
        return layout.open_array(self.folder, name, self._facts)

    # ---- features ------------------------------------------------------------------------------------------------

    @property
    def features(self) -> str:
        """How rows are scaled as they are read: ``"stored"`` (not at all), ``"row-sum"`` or ``"row-l2"``."""
        return self._features

    @features.setter
    def features(self, how: str) -> None:
        if how not in WAYS:
            raise ValueError(f"features is {how!r}, but must be one of {', '.join(WAYS)}")
        if how != "stored" and (self.x is None or not self.x.is_floating_point()):
            raise ValueError(f"features={how} is for a graph with numeric features")
        self._features = how

    def rows(self, index: Tensor) -> Tensor:
        """Features of some nodes, in memory: float32, or int64 where they are categories.

        Args:
            index: Numbers of nodes, ``[B]``.
        """
        return self._ready(self._there(self.x)[index])

    def rows_between(self, begin: int, end: int) -> Tensor:
        """Features of the nodes from one to before another, in memory.

        Args:
            begin: The first.
            end: The first that is not wanted.
        """
        return self._ready(self._there(self._in_order)[begin:end].clone())

    def _there(self, x: Tensor | None) -> Tensor:
        if x is None:
            raise ValueError(f"the nodes of {self.info.name} have no features")
        return x

    def _ready(self, rows: Tensor) -> Tensor:
        if not rows.is_floating_point():
            return rows.long()
        rows = rows.float() if self.columns is None else scale_columns(rows.float(), *self.columns)
        return scale_rows(rows, self._features)

    # ---- the rest ------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> Tensor | WordIds | None:
        """Ids as the user has them: mapped numbers, or words that are read when asked for."""
        ids, ends = self._array(layout.IDS), self._array(layout.ENDS)
        if ids is None or ends is None:
            return None if ids is None else as_tensor(ids)
        self._refuse(layout.ENDS, array_checks.wrong_pointers(ends, None, len(ids)))
        return MappedStringIds(ids, ends)

    def stored_split(self) -> Split | None:
        """The split that comes with it, if there is one."""
        if (part := self._array(layout.PART)) is None:
            return None
        parts = (torch.from_numpy(np.flatnonzero(part == number)) for number in (1, 2, 3))
        return Split(self.info.stored_split, None, self.num_nodes, *parts)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute by its name, as PyG's ``Data`` has it.

        Args:
            name: Such as ``"node_id"``.
            default: What to give where it has none.
        """
        value = getattr(self, name, None)
        return default if value is None else value

    def to_memory(self) -> Data:
        """All of it as PyG's ``Data``: for graphs that fit."""
        edges = torch.stack([self.in_edges.other.long(), self.in_edges.owners().long()])
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
        width = self._facts.get("features", 0)
        return f"{type(self).__name__}(nodes={self.num_nodes}, edges={self.num_edges}, features={width})"


def _memory() -> float:
    """Bytes of memory of this machine; without an answer, more than any graph has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")
