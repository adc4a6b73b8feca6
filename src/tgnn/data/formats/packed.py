"""Many small graphs in one ``.npz``: arrays of all graphs one after the other, cut by their sizes.

=========================== ====================== ==============================================================
``num_nodes``               ``[G]``                nodes of each graph; per-node arrays are in this order
``num_edges, edge_index``   ``[G], [2, sum]``      stored edges, node numbers local to the graph; or absent
``directed``                scalar                 false: each stored edge stands for both directions
``x, edge_attr, pos``       ``[sum, F]``           features as stored; times ``x_scale``, ``pos_scale`` where given
``y``                       ``[G]`` or ``[G, T]``  target
``split``                   ``[G]``                0 train, 1 validation, 2 test; or absent
=========================== ====================== ==============================================================
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.splits import Split

_NODE, _EDGE = ("x", "pos"), ("edge_attr",)


class PackedGraphs:
    """A list of graphs that are cut out of the packed arrays when asked for; nothing loops over all graphs.

    Args:
        arrays: As above.

    Example:
        >>> arrays = {"num_nodes": [2, 1], "num_edges": [1, 0], "edge_index": [[0], [1]], "y": [0, 1]}
        >>> graphs = PackedGraphs(arrays | {"directed": False})
        >>> len(graphs), graphs[0].edge_index.tolist()
        (2, [[0, 1], [1, 0]])
    """

    def __init__(self, arrays: Mapping[str, object]) -> None:
        self._arrays = {name: np.asarray(array) for name, array in arrays.items()}
        for needed in ("num_nodes", "y"):
            if needed not in self._arrays:
                raise ValueError(f"packed graphs need the array {needed!r}, found only {sorted(self._arrays)}")
        self.num_nodes = _counts(self._arrays["num_nodes"], "num_nodes")
        self.y = _as_tensor(self._arrays["y"])
        self._node_ptr = _pointer(self.num_nodes)
        self._node = {name: self._feature(name) for name in _NODE if name in self._arrays}
        self._check("y", len(self.y), len(self.num_nodes))
        for name, values in self._node.items():
            self._check(name, len(values), int(self._node_ptr[-1]))
        self.edge_index: Tensor | None = None
        if "edge_index" in self._arrays:
            self._read_edges()

    def _read_edges(self) -> None:
        counts = _counts(self._arrays["num_edges"], "num_edges")
        self._edge_ptr = _pointer(counts)
        self.edge_index = torch.from_numpy(self._arrays["edge_index"].astype(np.int64))
        if self.edge_index.dim() != 2 or self.edge_index.size(0) != 2:
            raise ValueError(f"edge_index must have shape [2, E], got {list(self.edge_index.shape)}")
        self._edge = {name: self._feature(name) for name in _EDGE if name in self._arrays}
        self._check("num_edges", len(counts), len(self.num_nodes))
        self._check("edge_index", self.edge_index.size(1), int(self._edge_ptr[-1]))
        for name, values in self._edge.items():
            self._check(name, len(values), int(self._edge_ptr[-1]))
        self.directed = bool(self._arrays.get("directed", True))
        most = self.num_nodes.repeat_interleave(counts)
        if bool((self.edge_index < 0).any()) or bool((self.edge_index >= most).any()):
            raise ValueError("edge_index has a node number outside of its graph")

    def _feature(self, name: str) -> Tensor:
        values = _as_tensor(self._arrays[name])
        scale = self._arrays.get(f"{name}_scale")
        return values if scale is None else values.float() * float(scale)

    @staticmethod
    def _check(name: str, found: int, wanted: int) -> None:
        if found != wanted:
            raise ValueError(f"{name} has {found} entries, but {wanted} are needed")

    def __len__(self) -> int:
        return len(self.num_nodes)

    def __getitem__(self, number: int) -> Data:
        if not -len(self) <= number < len(self):
            raise IndexError(f"graph {number} is not one of {len(self)}")
        number %= len(self)
        nodes = slice(int(self._node_ptr[number]), int(self._node_ptr[number + 1]))
        graph = Data(num_nodes=nodes.stop - nodes.start, y=self.y[number : number + 1])
        for name, values in self._node.items():
            graph[name] = values[nodes]
        if self.edge_index is not None:
            edges = slice(int(self._edge_ptr[number]), int(self._edge_ptr[number + 1]))
            graph.edge_index = self._both_ways(self.edge_index[:, edges])
            for name, values in self._edge.items():
                graph[name] = values[edges] if self.directed else torch.cat([values[edges]] * 2)
        return graph

    def _both_ways(self, edge_index: Tensor) -> Tensor:
        return edge_index if self.directed else torch.cat([edge_index, edge_index.flip(0)], dim=1)

    def __iter__(self) -> Iterator[Data]:
        return (self[number] for number in range(len(self)))

    def split(self) -> Split | None:
        """The split that is stored with the graphs."""
        if "split" not in self._arrays:
            return None
        part = torch.from_numpy(self._arrays["split"].astype(np.int64))
        return Split("published", None, len(self), *((part == i).nonzero().squeeze(1) for i in range(3)))

    def __repr__(self) -> str:
        return f"PackedGraphs({len(self):,} graphs, {int(self._node_ptr[-1]):,} nodes)"


def read_packed(path: Path | str) -> PackedGraphs:
    """Reads packed graphs; nothing is unpickled.

    Args:
        path: The ``.npz``.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return PackedGraphs({name: file[name] for name in file.files})
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a file of packed graphs: {error}") from error


def _counts(array: np.ndarray, name: str) -> Tensor:
    counts = torch.from_numpy(array.astype(np.int64))
    if counts.dim() != 1 or bool((counts < 0).any()):
        raise ValueError(f"{name} must be a list of numbers that are not negative")
    return counts


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _as_tensor(array: np.ndarray) -> Tensor:
    """Integers as int64, numbers as float32."""
    if array.dtype.kind in "iub":
        return torch.from_numpy(array.astype(np.int64))
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float32))
    raise ValueError(f"arrays must hold numbers, got {array.dtype}")
