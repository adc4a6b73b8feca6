"""External sort of edges by target node, for graphs larger than memory.

Edges are distributed to one file per range of target nodes. Each file is then sorted in memory. A file that is too
large is first split into smaller ranges in the same way. Polars cannot replace this, because its streaming engine keeps
all rows in memory to sort them: 40 million edges (305 MiB) needed 1.2 GiB, and 2.3 GiB without duplicates (polars 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from tgnn.ops.graph import group
from tgnn.utils.memory_map import as_tensor

NUM_BUCKETS = 64
"""Number of ranges of target nodes, and of files that are open at the same time."""


class EdgeBuckets:
    """Edges into the nodes ``begin`` to ``end - 1`` of a graph, in one file per range of target nodes.

    The files start with ``name`` and contain pairs of source and target.
    """

    def __init__(self, folder: Path, name: str, begin: int, end: int, num_nodes: int, node_type: np.dtype[Any]) -> None:
        self.folder, self.name, self.begin, self.end = folder, name, begin, end
        self.num_nodes, self.node_type = num_nodes, node_type
        self.width = max(1, -(-(end - begin) // NUM_BUCKETS))
        self.count = max(1, -(-(end - begin) // self.width))
        self._files: dict[int, BinaryIO] = {}

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        """Add edges to the files."""
        pairs = np.stack([source, target], axis=1, dtype=self.node_type, casting="unsafe")
        bucket = as_tensor((pairs[:, 1] - self.begin) // self.width)
        order = group(bucket, None, self.count, torch.int32)
        pairs, ends = pairs[order.index.numpy()], order.ptr.tolist()
        for number in range(self.count):
            if ends[number] < ends[number + 1]:
                self._file(number).write(pairs[ends[number] : ends[number + 1]].data)

    def sorted(self, at_once: int, merge: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sort all edges by target and remove the files.

        Args:
            at_once: Maximum number of edges to sort in memory.
            merge: Whether to remove duplicate edges and sort the sources of each node. By default, the edges of a node
                keep their order.

        Yields:
            The in-degrees of the next nodes, int64, and the sources of their edges. The sources of a node with more
            than ``at_once`` edges may follow in further pieces without in-degrees.
        """
        self.close()
        for number in range(self.count):
            begin = self.begin + number * self.width
            yield from self._sorted(self._path(number), begin, min(begin + self.width, self.end), at_once, merge)

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

    def _sorted(
        self, path: Path, begin: int, end: int, at_once: int, merge: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if not path.exists():
            yield np.zeros(end - begin, dtype=np.int64), np.empty(0, dtype=self.node_type)
            return
        num_edges = path.stat().st_size // (2 * self.node_type.itemsize)
        if num_edges <= at_once:
            pairs = np.fromfile(path, self.node_type).reshape(-1, 2)
            yield (_merged if merge else _grouped)(pairs[:, 0], pairs[:, 1] - begin, end - begin, self.num_nodes)
        elif end - begin == 1:
            yield from self._of_one_node(path, num_edges, at_once, merge)
        else:
            with closing(EdgeBuckets(self.folder, path.stem, begin, end, self.num_nodes, self.node_type)) as parts:
                for pairs in self._pieces(path, at_once):
                    parts.add(pairs[:, 0], pairs[:, 1])
            path.unlink()
            yield from parts.sorted(at_once, merge)
        path.unlink(missing_ok=True)

    def _of_one_node(
        self, path: Path, num_edges: int, at_once: int, merge: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the edges of a single target node. Duplicates are removed with a mask over all nodes."""
        if merge:
            marked = np.zeros(self.num_nodes, dtype=bool)
            for pairs in self._pieces(path, at_once):
                marked[pairs[:, 0]] = True
            sources = np.flatnonzero(marked).astype(self.node_type)
            yield np.array([len(sources)]), sources
            return
        degree = np.array([num_edges])
        for pairs in self._pieces(path, at_once):
            yield degree, pairs[:, 0]
            degree = degree[:0]

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
    keys = keys[np.diff(keys, prepend=-1) > 0]
    first_keys = np.arange(nodes + 1, dtype=np.int64) * num_nodes
    counts = np.diff(np.searchsorted(keys, first_keys))
    keys -= np.repeat(first_keys[:-1], counts)
    return counts, keys.astype(source.dtype)
