"""A data set of many small graphs, stored as concatenated arrays in a ``.npz`` file.

=========================== ====================== ==============================================================
``num_nodes``               ``[G]``                number of nodes of each graph, in the order of the per-node arrays
``num_edges, edge_index``   ``[G], [2, sum]``      edges with node indices local to the graph; or absent
``directed``                scalar                 if false, each stored edge stands for both directions
``x, edge_attr, pos``       ``[sum, F]``           features, multiplied by ``x_scale`` and ``pos_scale`` if present
``edge_weight``             ``[sum]``              weights between 0 and 1; or absent
``y``                       ``[G]`` or ``[G, T]``  targets; absent for unlabeled graphs
``split``                   ``[G]``                0 training, 1 validation, 2 test; or absent
``origin``                  text                   how the graphs differ from the official files; or absent
``graph_id``                ``[G]``, or JSON       the user's ids, integers or strings; or absent
``smiles``                  JSON                   SMILES of each molecule; or absent
``encoding, test_folds``    JSON                   encoding of the user's tables, published folds; or absent
=========================== ====================== ==============================================================
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from tgnn.data.readers.npz import as_int64, as_tensor, read_npz, shrink_dtype, write_npz
from tgnn.data.readers.npz_metadata import decode_metadata, encode_metadata
from tgnn.data.readers.string_ids import StringIds
from tgnn.data.splits import Split

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

_NODE, _EDGE = ("x", "pos"), ("edge_attr", "edge_weight")
_METADATA = ("graph_id", "encoding", "smiles", "test_folds")
_WHAT = "a file of packed graphs"


class GraphDataset:
    """A sequence of graphs that are sliced from concatenated arrays on access.

    ``dataset[i]`` is a :class:`~torch_geometric.data.Data` object, and :meth:`batch` collates many graphs without a
    loop over them.

    Args:
        arrays: Concatenated arrays by name, as in the table of :mod:`tgnn.data.graph_dataset`.

    Example:
        >>> arrays = {"num_nodes": [2, 1], "num_edges": [1, 0], "edge_index": [[0], [1]], "y": [0, 1]}
        >>> graphs = GraphDataset(arrays | {"directed": False})
        >>> len(graphs), graphs[0].edge_index.tolist()
        (2, [[0, 1], [1, 0]])
    """

    info: DatasetInfo
    """Task, metric and source, set by :func:`tgnn.data.load`."""
    split: Split
    """Training, validation and test set, set by :func:`tgnn.data.load`."""
    y: Any
    """Target of each graph, ``[G]`` or ``[G, T]``. ``None`` for unlabeled graphs."""
    graph_id: Tensor | StringIds | None = None
    """The user's id of each graph."""
    encoding: dict[str, Any] | None = None
    """Encoding of the user's features and labels, as built-in types."""
    test_folds: Sequence[Sequence[int]] | None = None
    """Test indices of the published folds, if their file is stored with the data."""
    smiles: Sequence[str] | None = None
    """SMILES of each graph, if the graphs are molecules."""

    def __init__(self, arrays: Mapping[str, object]) -> None:
        self._arrays = {name: np.asarray(array) for name, array in arrays.items()}
        self.num_nodes = self._counts("num_nodes")
        self.y = as_tensor(self._arrays["y"], "y") if "y" in self._arrays else None
        self._node_ptr = _pointer(self.num_nodes)
        self._node = {name: self._feature(name) for name in _NODE if name in self._arrays}
        if self.y is not None:
            self._check("y", len(self.y), len(self))
        if "split" in self._arrays:
            self._check("split", len(as_tensor(self._arrays["split"], "split")), len(self))
            as_int64(self._arrays["split"], "split")
        for name in _METADATA:
            if name in self._arrays:  # kept as an attribute; arrays() encodes it again
                setattr(self, name, decode_metadata(self._arrays.pop(name), name, len(self)))
        for name, values in self._node.items():
            self._check(name, len(values), int(self._node_ptr[-1]))
        self.edge_index: Tensor | None = None
        self._edge: dict[str, Tensor] = {}
        self.directed = True
        if "edge_index" in self._arrays:
            self._read_edges()

    def _read_edges(self) -> None:
        counts = self._counts("num_edges")
        self._edge_ptr = _pointer(counts)
        self.edge_index = as_int64(self._arrays["edge_index"], "edge_index")
        if self.edge_index.dim() != 2 or self.edge_index.size(0) != 2:
            raise ValueError(f"edge_index must have shape [2, E], got {list(self.edge_index.shape)}")
        self._edge = {name: self._feature(name) for name in _EDGE if name in self._arrays}
        if "edge_weight" in self._edge:
            self._edge["edge_weight"] = self._edge["edge_weight"].float()
        self._check("num_edges", len(counts), len(self))
        self._check("edge_index", self.edge_index.size(1), int(self._edge_ptr[-1]))
        for name, values in self._edge.items():
            self._check(name, len(values), int(self._edge_ptr[-1]))
        self.directed = bool(self._arrays.get("directed", True))
        limits = self.num_nodes.repeat_interleave(counts)
        if bool((self.edge_index < 0).any()) or bool((self.edge_index >= limits).any()):
            raise ValueError("edge_index contains a node index outside of its graph")

    def _counts(self, name: str) -> Tensor:
        if name not in self._arrays:
            raise ValueError(f"packed graphs need the array {name!r}, but there are only {sorted(self._arrays)}")
        counts = as_int64(self._arrays[name], name)
        if counts.dim() != 1 or bool((counts < 0).any()):
            raise ValueError(f"{name} must be a one-dimensional array of non-negative integers")
        return counts

    def _feature(self, name: str) -> Tensor:
        values = as_tensor(self._arrays[name], name)
        scale = self._arrays.get(f"{name}_scale")
        if scale is None:
            return values
        if scale.size != 1 or scale.dtype.kind not in "iuf":
            raise ValueError(f"{name}_scale must be a single number, got {scale.dtype} {list(scale.shape)}")
        return values.float() * float(scale.reshape(()))

    @staticmethod
    def _check(name: str, actual: int, expected: int) -> None:
        if actual != expected:
            raise ValueError(f"{name} must have {expected} entries, got {actual}")

    def __len__(self) -> int:
        return len(self.num_nodes)

    def __getitem__(self, index: int | slice) -> Any:
        """Return a graph, or a list of graphs for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph index {index} is out of range for {len(self)} graphs")
        index %= len(self)
        nodes = slice(int(self._node_ptr[index]), int(self._node_ptr[index + 1]))
        y = None if self.y is None else self.y[index : index + 1]
        graph = Data(y=y, num_nodes=nodes.stop - nodes.start)
        for name, values in self._node.items():
            graph[name] = values[nodes]
        if self.edge_index is not None:
            edges = slice(int(self._edge_ptr[index]), int(self._edge_ptr[index + 1]))
            graph.edge_index = self._add_reverse_edges(self.edge_index[:, edges])
            for name, values in self._edge.items():
                graph[name] = values[edges] if self.directed else torch.cat([values[edges]] * 2)
        return graph

    def batch(self, indices: Tensor | Sequence[int]) -> Batch:
        """Collate graphs into a batch, as PyG's ``Batch.from_data_list`` does, without a loop over graphs.

        If each stored edge stands for both directions, all edges come first and then all their reverses, while PyG
        keeps the edges of each graph together. ``to_data_list`` cannot be used on the batch.

        Args:
            indices: Indices of the graphs, int64 ``[B]`` or a list. Negative indices count from the end.
        """
        indices = torch.as_tensor(indices, dtype=torch.int64)
        outside = (indices < -len(self)) | (indices >= len(self))
        if bool(outside.any()):
            raise IndexError(f"graph index {int(indices[outside][0])} is out of range for {len(self)} graphs")
        indices = torch.where(indices < 0, indices + len(self), indices)
        count = self.num_nodes[indices]
        ptr = _pointer(count)
        nodes = _ranges(self._node_ptr[indices], count)
        graph = torch.arange(len(indices)).repeat_interleave(count)
        y = None if self.y is None else self.y[indices]
        batch = Batch(y=y, num_nodes=int(ptr[-1]), batch=graph, ptr=ptr)
        for name, values in self._node.items():
            batch[name] = values[nodes]
        if self.edge_index is not None:
            edges_of = self._edge_ptr[indices + 1] - self._edge_ptr[indices]
            edges = _ranges(self._edge_ptr[indices], edges_of)
            edge_index = self.edge_index[:, edges] + ptr[:-1].repeat_interleave(edges_of)
            batch.edge_index = self._add_reverse_edges(edge_index)
            for name, values in self._edge.items():
                batch[name] = values[edges] if self.directed else torch.cat([values[edges]] * 2)
        return batch

    def degrees(self, indices: Tensor) -> Tensor:
        """Compute the in-degree of each node of some graphs, in the order of :meth:`batch`.

        Args:
            indices: Indices of the graphs, int64 ``[B]``.
        """
        total = int(self._node_ptr[-1])
        degree = torch.zeros(total, dtype=torch.int64)
        if self.edge_index is not None:
            first = self._node_ptr[:-1].repeat_interleave(self.num_edges)
            for ends in self.edge_index[1:] if self.directed else self.edge_index:
                degree += torch.bincount(ends + first, minlength=total)
        return degree[_ranges(self._node_ptr[indices], self.num_nodes[indices])]

    def _add_reverse_edges(self, edge_index: Tensor) -> Tensor:
        return edge_index if self.directed else torch.cat([edge_index, edge_index.flip(0)], dim=1)

    def __iter__(self) -> Iterator[Data]:
        return (self[index] for index in range(len(self)))

    def published_split(self) -> Split | None:
        """Return the split that is stored with the graphs, or ``None``."""
        if "split" not in self._arrays:
            return None
        codes = torch.from_numpy(self._arrays["split"].astype(np.int64))
        return Split("published", None, len(self), *((codes == code).nonzero().squeeze(1) for code in range(3)))

    @property
    def x(self) -> Tensor | None:
        """Node features of all graphs, concatenated."""
        return self._node.get("x")

    @property
    def pos(self) -> Tensor | None:
        """Node positions of all graphs, concatenated."""
        return self._node.get("pos")

    def add(self, name: str, values: Tensor) -> None:
        """Add a node attribute of all graphs, concatenated. It is not stored in files."""
        self._check(name, len(values), int(self._node_ptr[-1]))
        self._node = {**self._node, name: values}  # not in place, because copies share the dictionary

    @property
    def edge_attr(self) -> Tensor | None:
        """Features of all stored edges, concatenated."""
        return self._edge.get("edge_attr")

    @property
    def edge_weight(self) -> Tensor | None:
        """Weights of all stored edges, concatenated."""
        return self._edge.get("edge_weight")

    @property
    def num_edges(self) -> Tensor:
        """Number of stored edges of each graph."""
        return torch.zeros_like(self.num_nodes) if self.edge_index is None else self._edge_ptr.diff()

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the graphs, scaled as in memory."""
        tensors = {"num_nodes": self.num_nodes, **self._node, **({} if self.y is None else {"y": self.y})}
        if self.edge_index is None:
            return tensors
        directed = torch.tensor([self.directed])
        edges = {"edge_index": self.edge_index, "num_edges": self.num_edges, "directed": directed}
        return tensors | edges | self._edge

    def without_edge_features(self) -> GraphDataset:
        """Return a copy without ``edge_attr``. Edge weights and metadata are kept."""
        dataset = copy.copy(self)
        dataset._edge = {name: values for name, values in self._edge.items() if name != "edge_attr"}
        return dataset

    @property
    def total_edges(self) -> int:
        """Number of edges of all graphs, as columns of their ``edge_index``."""
        if self.edge_index is None:
            return 0
        return self.edge_index.size(1) * (1 if self.directed else 2)

    @property
    def origin(self) -> str:
        """How the graphs differ from the official files, as stored in the file."""
        return str(self._arrays.get("origin", ""))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the stored arrays by name. They must not be changed in place."""
        metadata = {name: getattr(self, name) for name in _METADATA}
        return self._arrays | {name: encode_metadata(value) for name, value in metadata.items() if value is not None}

    def __repr__(self) -> str:
        return f"GraphDataset({len(self):,} graphs, {int(self._node_ptr[-1]):,} nodes)"


def read_packed(path: Path | str) -> GraphDataset:
    """Read packed graphs. Nothing is unpickled.

    Args:
        path: Path of the ``.npz`` file.
    """
    arrays = read_npz(path, _WHAT)
    try:
        return GraphDataset(arrays)
    except ValueError as error:
        raise ValueError(f"{path} is not {_WHAT}: {error}") from error


def write_packed(graphs: GraphDataset, path: Path | str, origin: str = "") -> None:
    """Write packed graphs atomically.

    Args:
        graphs: Graphs to write.
        path: Path of the ``.npz`` file.
        origin: How the graphs differ from the official files. It is stored in the file.
    """
    arrays = graphs.arrays() | ({"origin": np.array(origin)} if origin else {})
    write_npz(path, {name: shrink_dtype(array) for name, array in arrays.items()})


def pack(graphs: Sequence[Data | Mapping[str, Tensor]], split: Tensor | None = None) -> GraphDataset:
    """Concatenate a list of graphs that all have the same attributes.

    Args:
        graphs: ``Data`` objects or dictionaries with ``y`` and ``edge_index``, and any of ``x``, ``pos``,
            ``edge_attr`` and ``edge_weight``.
        split: 0 (training), 1 (validation) or 2 (test) for each graph.

    Example:
        >>> graph = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([1]))
        >>> pack([graph, graph])
        GraphDataset(2 graphs, 6 nodes)
    """
    kept = [name for name in (*_NODE, *_EDGE) if graphs[0].get(name) is not None]
    nodes = [_num_nodes(graph) for graph in graphs]
    arrays: dict[str, object] = {
        "num_nodes": np.array(nodes),
        "num_edges": np.array([graph["edge_index"].size(1) for graph in graphs]),
        "edge_index": torch.cat([graph["edge_index"] for graph in graphs], dim=1).numpy(),
        "directed": True,
        "y": torch.cat([torch.as_tensor(graph["y"]).reshape(1, -1) for graph in graphs]).squeeze(1).numpy(),
    }
    arrays |= {name: torch.cat([graph[name] for graph in graphs]).numpy() for name in kept}
    if split is not None:
        arrays["split"] = split.numpy()
    return GraphDataset(arrays)


def _num_nodes(graph: Data | Mapping[str, Tensor]) -> int:
    if isinstance(graph, Data):
        return int(graph.num_nodes)
    return int(graph["num_nodes"]) if "num_nodes" in graph else len(graph["x"])


def _ranges(first: Tensor, count: Tensor) -> Tensor:
    """Concatenate the ranges ``first[i], first[i] + 1, ...`` with ``count[i]`` entries each."""
    before = count.cumsum(0) - count
    return torch.arange(int(count.sum())) + (first - before).repeat_interleave(count)


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
