"""External sort of edges by target node, for graphs larger than memory.

Edges are distributed to one file per range of target nodes. Each file is then sorted in memory. A file that is too
large is first split into smaller ranges in the same way. Polars cannot replace this, because its streaming engine keeps
all rows in memory to sort them: 40 million edges (305 MiB) needed 1.2 GiB, and 2.3 GiB without duplicates (polars 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from tgnn.data.on_disk.manifest import node_type
from tgnn.ops.graph import group
from tgnn.utils.memory_map import as_tensor

NUM_BUCKETS = 64
"""Number of ranges of target nodes, and of files that are open at the same time."""


class EdgeBuckets:
    """Edges into the nodes ``begin`` to ``end - 1`` of a graph, in one file per range of target nodes.

    Args:
        folder: Folder of the files. A file contains pairs of source and target, and its name starts with ``name``.
        num_nodes: Number of nodes of the whole graph.
        at_once: Maximum number of edges to sort in memory.
        merge: Whether to remove duplicate edges and sort the sources of each node. Otherwise, the edges of a node keep
            their order.
        begin: First target node.
        end: Node after the last target node. Default: ``num_nodes``.
        name: Prefix of the file names.
    """

    def __init__(
        self,
        folder: Path,
        num_nodes: int,
        at_once: int,
        merge: bool,
        begin: int = 0,
        end: int | None = None,
        name: str = "all",
    ) -> None:
        self.folder, self.num_nodes, self.at_once, self.merge = folder, num_nodes, at_once, merge
        self.begin, self.end, self.name = begin, num_nodes if end is None else end, name
        self.node_type = node_type(num_nodes)
        self.width = max(1, -(-(self.end - begin) // NUM_BUCKETS))
        self.count = max(1, -(-(self.end - begin) // self.width))
        self._files: dict[int, BinaryIO] = {}

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        """Add edges to the files."""
        for begin in range(0, len(source), self.at_once):
            piece = [nodes[begin : begin + self.at_once] for nodes in (source, target)]
            pairs = np.stack(piece, axis=1, dtype=self.node_type, casting="unsafe")
            bucket = as_tensor((pairs[:, 1] - self.begin) // self.width)
            order = group(bucket, None, self.count, torch.int32)
            pairs, ends = pairs[order.index.numpy()], order.ptr.tolist()
            for number in range(self.count):
                if ends[number] < ends[number + 1]:
                    self._file(number).write(pairs[ends[number] : ends[number + 1]].data)

    def sorted(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sort all edges by target and remove the files.

        Yields:
            The in-degrees of the next nodes, int64, and the sources of their edges. The sources of a node with more
            than ``at_once`` edges may follow in further pieces without in-degrees.
        """
        self.close()
        for number in range(self.count):
            begin, path = self.begin + number * self.width, self._path(number)
            yield from self._sorted(path, begin, min(begin + self.width, self.end))
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close all files, even if writing one of them fails."""
        with ExitStack() as files:
            while self._files:
                files.callback(self._files.popitem()[1].close)

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}.edges"

    def _file(self, number: int) -> BinaryIO:
        if number not in self._files:
            self._files[number] = self._path(number).open("wb")
        return self._files[number]

    def _sorted(self, path: Path, begin: int, end: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if not path.exists():
            yield np.zeros(end - begin, dtype=np.int64), np.empty(0, dtype=self.node_type)
            return
        num_edges = path.stat().st_size // (2 * self.node_type.itemsize)
        if num_edges <= self.at_once:
            pairs = np.fromfile(path, self.node_type).reshape(-1, 2)
            yield (_merged if self.merge else _grouped)(pairs[:, 0], pairs[:, 1] - begin, end - begin, self.num_nodes)
        elif end - begin > 1:
            parts = EdgeBuckets(self.folder, self.num_nodes, self.at_once, self.merge, begin, end, path.stem)
            with closing(parts):
                for pairs in self._pieces(path):
                    parts.add(pairs[:, 0], pairs[:, 1])
            path.unlink()
            yield from parts.sorted()
        elif self.merge:  # all edges have the same target
            marked = np.zeros(self.num_nodes, dtype=bool)
            for pairs in self._pieces(path):
                marked[pairs[:, 0]] = True
            sources = np.flatnonzero(marked).astype(self.node_type)
            yield np.array([len(sources)]), sources
        else:
            degree = np.array([num_edges])
            for pairs in self._pieces(path):
                yield degree, pairs[:, 0]
                degree = degree[:0]

    def _pieces(self, path: Path) -> Iterator[np.ndarray]:
        with path.open("rb") as file:
            while len(pairs := np.fromfile(file, self.node_type, 2 * self.at_once)):
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
    keys = keys[np.diff(keys, prepend=-1) > 0]
    first_keys = np.arange(nodes + 1, dtype=np.int64) * num_nodes
    counts = np.diff(np.searchsorted(keys, first_keys))
    keys -= np.repeat(first_keys[:-1], counts)
    return counts, keys.astype(source.dtype)
