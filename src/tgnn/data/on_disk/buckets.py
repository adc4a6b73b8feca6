"""External sort of edges by target node, for graphs larger than memory.

Edges are distributed to one file per range of target nodes. Each file is then sorted in memory. A file that is too
large is first split into smaller ranges in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from tgnn.ops.graph import group
from tgnn.utils.memory_map import as_tensor
from tgnn.utils.progress import Tick, no_tick

NUM_BUCKETS = 64
"""Number of ranges of target nodes, and of files that are open at the same time."""

Sorted = Callable[[np.ndarray, np.ndarray], None]
"""Called with the in-degrees of the next nodes, int64, and the sources of their edges."""


class EdgeBuckets:
    """Edges into a range of target nodes, in one file per subrange.

    Args:
        folder: Folder of the files.
        name: Prefix of the file names.
        begin: First target node.
        end: Node after the last target node.
        num_nodes: Number of nodes of the whole graph.
        node_type: Integer type of node indices.
    """

    def __init__(self, folder: Path, name: str, begin: int, end: int, num_nodes: int, node_type: np.dtype[Any]) -> None:
        self.folder, self.name, self.begin, self.end = folder, name, begin, end
        self.num_nodes, self.node_type = num_nodes, node_type
        self.width = max(1, -(-(end - begin) // NUM_BUCKETS))
        self.count = max(1, -(-(end - begin) // self.width))
        self._files: dict[int, BinaryIO] = {}

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        """Add edges.

        Args:
            source: Source nodes.
            target: Target nodes, from ``begin`` to ``end - 1``.
        """
        source, target = (np.asarray(end, dtype=self.node_type) for end in (source, target))
        bucket = as_tensor((target - self.begin) // self.width)
        order = group(bucket, None, self.count, torch.int32)
        pairs = np.stack([source, target], axis=1)[order.index.numpy()]
        ends = order.ptr.tolist()
        for number in range(self.count):
            if ends[number] < ends[number + 1]:
                self._file(number).write(pairs[ends[number] : ends[number + 1]].data)

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}.edges"

    def _file(self, number: int) -> BinaryIO:
        if number not in self._files:
            self._files[number] = self._path(number).open("wb")
        return self._files[number]

    def close(self) -> None:
        """Close all files, even if writing one of them fails."""
        with ExitStack() as files:
            while self._files:
                files.callback(self._files.popitem()[1].close)

    def sort(self, write: Sorted, at_once: int, merge: bool, tick: Tick = no_tick) -> None:
        """Sort all edges by target, pass them to ``write`` and remove the files.

        Args:
            write: Called with the edges of consecutive nodes.
            at_once: Maximum number of edges to sort in memory.
            merge: Whether to remove duplicate edges and sort the sources of each node. By default, the edges of a node
                keep their order.
            tick: Called with the number of edges of each file.
        """
        self.close()
        for number in range(self.count):
            begin = self.begin + number * self.width
            self._sort(self._path(number), begin, min(begin + self.width, self.end), write, at_once, merge, tick)

    def _sort(self, path: Path, begin: int, end: int, write: Sorted, at_once: int, merge: bool, tick: Tick) -> None:
        if not path.exists():
            write(np.zeros(end - begin, dtype=np.int64), np.empty(0, dtype=self.node_type))
            return
        edges = path.stat().st_size // (2 * self.node_type.itemsize)
        if edges <= at_once:
            pairs = np.fromfile(path, self.node_type).reshape(-1, 2)
            write(*(_merged if merge else _grouped)(pairs[:, 0], pairs[:, 1] - begin, end - begin, self.num_nodes))
            tick(edges)
        elif end - begin == 1:
            self._write_one(path, edges, write, at_once, merge)
            tick(edges)
        else:
            parts = EdgeBuckets(self.folder, path.stem, begin, end, self.num_nodes, self.node_type)
            try:
                for pairs in self._pieces(path, at_once):
                    parts.add(pairs[:, 0], pairs[:, 1])
            finally:
                parts.close()
            path.unlink()
            parts.sort(write, at_once, merge, tick)
            return
        path.unlink()

    def _write_one(self, path: Path, edges: int, write: Sorted, at_once: int, merge: bool) -> None:
        """Write a file whose edges all have the same target. Duplicates are removed with a mask over all nodes."""
        nothing = np.empty(0, dtype=np.int64)
        if merge:
            marked = np.zeros(self.num_nodes, dtype=bool)
            for pairs in self._pieces(path, at_once):
                marked[pairs[:, 0]] = True
            sources = np.flatnonzero(marked).astype(self.node_type)
            write(np.array([len(sources)]), sources)
            return
        write(np.array([edges]), nothing.astype(self.node_type))
        for pairs in self._pieces(path, at_once):
            write(nothing, pairs[:, 0])

    def _pieces(self, path: Path, at_once: int) -> Iterator[np.ndarray]:
        with path.open("rb") as file:
            while len(pairs := np.fromfile(file, self.node_type, 2 * at_once)):
                yield pairs.reshape(-1, 2)


def _grouped(source: np.ndarray, target: np.ndarray, nodes: int, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort edges by target and keep the order of the edges of a node."""
    dtype = torch.int32 if source.dtype == np.int32 else torch.int64
    by = group(torch.from_numpy(target.copy()), torch.from_numpy(source.copy()), nodes, dtype)
    return by.ptr.diff().numpy(), by.index.numpy()


def _merged(source: np.ndarray, target: np.ndarray, nodes: int, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort edges by target and source and remove duplicates. The keys fit into 63 bits."""
    keys = target.astype(np.int64)
    keys *= num_nodes
    keys += source
    keys.sort()
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    keys = keys[first]
    counts = np.diff(np.searchsorted(keys, np.arange(nodes + 1, dtype=np.int64) * num_nodes))
    keys -= np.repeat(np.arange(nodes, dtype=np.int64) * num_nodes, counts)
    return counts, keys.astype(source.dtype)
