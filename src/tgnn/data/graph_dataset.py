"""A data set of many small graphs: PyG's ``InMemoryDataset`` with fast batching, and with the names of the graphs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from tgnn.data.splits import Split, from_codes
from tgnn.data.tensors import StringIds, as_int64, as_tensor

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

_STORED = ("y", "x", "pos", "edge_index", "edge_attr", "edge_weight")
"""Tensors that are stored in files. They can be assigned as attributes of a data set."""
_FIXED = ("num_nodes", "num_edges", "directed")


class UnreadableRow(NamedTuple):
    """A row of the user's file that is not a graph of the data set."""

    row: int
    """Position in the file, from 0."""
    place: str
    """Where the user finds it, such as ``"line 7"``."""
    id: Any
    """The user's id."""
    text: str
    """What could not be read."""
    y: Tensor | None = None
    """Target of the row, as in ``y`` of the data set. ``None`` without targets."""


class GraphDataset(InMemoryDataset):
    """A PyG data set of graphs that are sliced from concatenated tensors on access.

    As for any data set of PyG, ``dataset[i]`` is a :class:`~torch_geometric.data.Data` object, ``dataset[:100]`` and
    ``dataset[indices]`` are data sets, and ``transform`` is applied on access. :meth:`batch` collates many graphs
    without a loop over them: 128 molecules of ZINC take 0.3 ms, and 9 ms in PyG's ``DataLoader``.

    Args:
        arrays: Concatenated arrays by name, as in the table "File format of graphs" of docs/data.md: ``num_nodes`` and
            any of ``num_edges``, ``edge_index``, ``directed``, ``x``, ``pos``, ``edge_attr``, ``edge_weight``, ``y``
            and ``split``.
        graph_id: The user's id of each graph.
        encoding: Encoding of the user's features and labels, as built-in types. It has the class names.
        smiles: SMILES of each graph, if the graphs are molecules.
        transform: Transform of PyG that is applied to a graph on access.

    Example:
        >>> arrays = {"num_nodes": [2, 1], "num_edges": [1, 0], "edge_index": [[0], [1]], "y": [0, 1]}
        >>> graphs = GraphDataset(arrays | {"directed": False}, graph_id=torch.tensor([7, 3]))
        >>> len(graphs), graphs[0].edge_index.tolist(), graphs[1:].graph_id.tolist()
        (2, [[0, 1], [1, 0]], [3])
    """

    info: DatasetInfo
    """Task, metric and source, set by :func:`tgnn.data.load`."""
    split: Split
    """Training, validation and test set, set by :func:`tgnn.data.load`."""
    num_nodes: Any
    """Number of nodes of each graph, int64 ``[G]``."""
    num_edges: Tensor
    """Number of stored edges of each graph, int64 ``[G]``."""
    y: Any
    """Target of each graph, ``[G]`` or ``[G, T]``. ``None`` for unlabeled graphs."""
    x: Tensor | None
    """Node features of all graphs, concatenated."""
    pos: Tensor | None
    """Node positions of all graphs, concatenated."""
    edge_index: Any
    """Stored edges of all graphs, concatenated, int64 ``[2, E]`` with node indices local to the graph. Or ``None``."""
    edge_attr: Tensor | None
    """Features of all stored edges, concatenated."""
    edge_weight: Tensor | None
    """Weights of all stored edges, concatenated."""
    directed: bool
    """If false, each stored edge stands for both directions."""
    num_categorical: int
    """Number of first columns of a floating-point ``x`` that are categories. 0 if all its columns are numeric."""
    num_encodings: int
    """Number of last columns of ``x`` that are positional encodings."""
    random_signs: bool
    """Whether the positional encodings are eigenvectors, whose signs are arbitrary and drawn anew in training."""
    graph_id: Tensor | StringIds | None
    """The user's id of each graph."""
    encoding: dict[str, Any] | None
    """Encoding of the user's features and labels, as built-in types."""
    smiles: Sequence[str] | None
    """SMILES of each graph, if the graphs are molecules."""
    unreadable: Sequence[UnreadableRow]
    """Rows of the user's file that were skipped."""
    test_folds: Sequence[Sequence[int]] | None
    """Test indices of the published folds, if their file is stored with the data."""
    split_codes: Tensor | None
    """Set of each graph in the split that is stored with the graphs: 0 training, 1 validation, 2 test."""
    split_name: str
    """Name of the split that is stored with the graphs, if it is another than that of the catalog."""
    origin: str
    """How the graphs differ from the official files, as stored in the file."""

    def __init__(
        self,
        arrays: Mapping[str, object],
        *,
        graph_id: Tensor | StringIds | None = None,
        encoding: dict[str, Any] | None = None,
        smiles: Sequence[str] | None = None,
        transform: Callable[[Data], Data] | None = None,
    ) -> None:
        super().__init__(transform=transform)
        self.graph_id, self.encoding = graph_id, encoding
        self.smiles = None if smiles is None else list(smiles)
        self.test_folds, self.split_codes, self.split_name, self.origin = None, None, "", ""
        self.unreadable = ()
        self.num_categorical = self.num_encodings = 0
        self.random_signs = False
        given = {name: np.asarray(array) for name, array in arrays.items()}
        has_edges = "edge_index" in given
        num_nodes = _counts(given, "num_nodes")
        num_edges = _counts(given, "num_edges") if has_edges else torch.zeros_like(num_nodes)
        _check_length("num_edges", num_edges, len(num_nodes))
        self.directed = not has_edges or bool(given.get("directed", True))
        self._set_counts(num_nodes, num_edges)
        self._data = Data()
        for name in _STORED:
            if name in given and (has_edges or not name.startswith("edge_")):
                self.add(name, _stored_tensor(given, name))
        if "split" in given:
            self.split_codes = as_int64(given["split"], "split")
            _check_length("split", self.split_codes, len(self))
        if graph_id is not None:
            _check_length("graph_id", graph_id, len(self))

    def _set_counts(self, num_nodes: Tensor, num_edges: Tensor) -> None:
        """Set the number of nodes and edges of each graph, and compute the first node and edge of each graph."""
        pointers = {"_node_ptr": _pointer(num_nodes), "_edge_ptr": _pointer(num_edges)}
        self.__dict__.update(num_nodes=num_nodes, num_edges=num_edges, **pointers)

    def add(self, name: str, values: Tensor) -> None:
        """Add or replace an attribute of all graphs, concatenated. Copies of the data set keep theirs.

        ``dataset.x = values`` does the same for the attributes that are stored in files, and ``dataset.x = None``
        removes one of them.

        Args:
            name: Name of the attribute. Edge attributes start with ``edge_``, ``y`` is the target of each graph, and
                all others are node attributes. Names other than those of the constructor are not stored in files.
            values: Values with a row per edge, graph or node. ``edge_index`` is ``[2, E]`` with node indices local to
                the graph.
        """
        if name == "edge_index":
            self._check_edge_index(values)
        else:
            expected = self._edge_ptr if name.startswith("edge_") else self._node_ptr
            _check_length(name, values, len(self) if name == "y" else int(expected[-1]))
        self._data = Data(**self._data.to_dict() | {name: values})  # not in place, because copies share it

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace a tensor of all graphs, or remove it with ``None``."""
        if name in _FIXED and name in vars(self):
            raise AttributeError(f"{name} of a GraphDataset cannot be assigned; create a new GraphDataset instead")
        if name not in _STORED:
            super().__setattr__(name, value)
        elif value is None:
            self._data = Data(**{key: values for key, values in self._data.to_dict().items() if key != name})
        else:
            self.add(name, value)

    def __getattr__(self, key: str) -> Any:
        """Return a tensor of all graphs, as PyG does. It is ``None`` if the graphs do not have it."""
        if key in _STORED and "_data" in vars(self):
            return self._data.get(key)
        return super().__getattr__(key)

    def _check_edge_index(self, edge_index: Tensor) -> None:
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise ValueError(f"edge_index must have shape [2, E], got {list(edge_index.shape)}")
        _check_length("edge_index", edge_index[0], int(self._edge_ptr[-1]))
        limits = self.num_nodes.repeat_interleave(self.num_edges)
        outside = (edge_index < 0) | (edge_index >= limits)
        if bool(outside.any()):
            end, edge = outside.nonzero()[0].tolist()
            node, size = int(edge_index[end, edge]), int(limits[edge])
            raise ValueError(f"edge_index contains node {node}, but its graph has {size} nodes")

    # ---- access as in PyG --------------------------------------------------------------------------------------

    def len(self) -> int:
        """Return the number of graphs."""
        return len(self.num_nodes)

    def __getitem__(self, idx: Any) -> Any:
        """Return a graph for an integer, or a data set for a slice, a list, or a tensor of indices or booleans."""
        if isinstance(idx, int) and not -len(self) <= idx < len(self):
            raise IndexError(f"graph index {idx} is out of range for {len(self)} graphs")
        return super().__getitem__(idx)

    def get(self, idx: Any) -> Any:
        """Return a graph without its transform. Its tensors are views, unless edges are stored in one direction."""
        nodes = slice(int(self._node_ptr[idx]), int(self._node_ptr[idx + 1]))
        edges = slice(int(self._edge_ptr[idx]), int(self._edge_ptr[idx + 1]))
        graph = Data(num_nodes=nodes.stop - nodes.start)
        for name, values in self._data.to_dict().items():
            rows = slice(idx, idx + 1) if name == "y" else edges if name.startswith("edge_") else nodes
            selected = values[:, rows] if name == "edge_index" else values[rows]
            graph[name] = selected if self.directed else _add_reverse_edges(name, selected)
        return graph

    def index_select(self, idx: Any) -> GraphDataset:
        """Return the selected graphs as a new data set with its own tensors.

        All attributes, such as ``y`` and ``graph_id``, are those of the selected graphs. The split and the published
        folds are not kept, because their indices refer to all graphs.

        Args:
            idx: Slice, list or tensor of indices, or a mask.
        """
        if isinstance(idx, (Tensor, np.ndarray)):
            idx = np.arange(len(self))[np.asarray(idx).reshape(-1)].tolist()
        indices = torch.tensor(list(super().index_select(idx).indices()), dtype=torch.int64)
        dataset = copy.copy(self)
        dataset.__dict__.pop("split", None)
        dataset.test_folds, dataset.unreadable = None, ()
        dataset._set_counts(self.num_nodes[indices], self.num_edges[indices])
        dataset._data = Data(**self._gather(indices, dataset.num_nodes, dataset.num_edges))
        if self.graph_id is not None:
            dataset.graph_id = self.graph_id[indices]
        if self.smiles is not None:
            dataset.smiles = [self.smiles[index] for index in indices.tolist()]
        if self.split_codes is not None:
            dataset.split_codes = self.split_codes[indices]
        return dataset

    def copy(self, idx: Any = None) -> GraphDataset:
        """Return a deep copy of all graphs, or of the graphs that :meth:`index_select` selects."""
        dataset = self.index_select(slice(None) if idx is None else idx)
        if idx is None:
            for name in {"split", "test_folds"} & vars(self).keys():
                setattr(dataset, name, getattr(self, name))
        return dataset

    # ---- fast batches ------------------------------------------------------------------------------------------

    def batch(self, indices: Tensor | Sequence[int]) -> Batch:
        """Collate graphs into a batch, as PyG's ``Batch.from_data_list`` does, without a loop over graphs.

        If each stored edge stands for both directions, all edges come first and then all their reverses, while PyG
        keeps the edges of each graph together. ``to_data_list`` cannot be used on the batch. With a ``transform``, the
        batch is made by PyG.

        Args:
            indices: Indices of the graphs, int64 ``[B]`` or a list, or a Boolean mask of all graphs. Negative indices
                count from the end.
        """
        indices = torch.as_tensor(indices)
        indices = indices.nonzero().flatten() if indices.dtype == torch.bool else indices.long()
        size = len(self.num_nodes)
        outside = (indices < -size) | (indices >= size)
        if bool(outside.any()):
            raise IndexError(f"graph index {int(indices[outside][0])} is out of range for {size} graphs")
        if self.transform is not None:
            return Batch.from_data_list([self[index] for index in indices.tolist()])
        indices = torch.where(indices < 0, indices + size, indices)
        num_nodes, num_edges = self.num_nodes[indices], self.num_edges[indices]
        tensors = self._gather(indices, num_nodes, num_edges)
        ptr = _pointer(num_nodes)
        total = int(ptr[-1])
        if "edge_index" in tensors:
            tensors["edge_index"] += _repeat(ptr[:-1], num_edges, tensors["edge_index"].size(1))
        graph_index = _repeat(torch.arange(len(indices)), num_nodes, total)
        batch = Batch(num_nodes=total, batch=graph_index, ptr=ptr)
        for name, values in tensors.items():
            batch[name] = values if self.directed else _add_reverse_edges(name, values)
        return batch

    def _gather(self, indices: Tensor, num_nodes: Tensor, num_edges: Tensor) -> dict[str, Tensor]:
        """Copy the stored tensors of some graphs, which are concatenated again."""
        nodes, edges = _ranges(self._node_ptr[indices], num_nodes), _ranges(self._edge_ptr[indices], num_edges)
        tensors = {}
        for name, values in self._data.to_dict().items():
            rows = indices if name == "y" else edges if name.startswith("edge_") else nodes
            tensors[name] = values.index_select(1 if name == "edge_index" else 0, rows)  # faster than values[rows]
        return tensors

    def degrees(self, indices: Tensor) -> Tensor:
        """Compute the in-degree of each node of some graphs, in the order of :meth:`batch`."""
        total = int(self._node_ptr[-1])
        degree = torch.zeros(total, dtype=torch.int64)
        if self.edge_index is not None:
            first = self._node_ptr[:-1].repeat_interleave(self.num_edges)
            for ends in self.edge_index[1:] if self.directed else self.edge_index:
                degree += torch.bincount(ends + first, minlength=total)
        return degree[_ranges(self._node_ptr[indices], self.num_nodes[indices])]

    # ---- tensors of all graphs ---------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the graphs, as they are hashed and stored.

        Positional encodings are left out, because they are computed, and their last bits depend on the machine.
        """
        tensors = {"num_nodes": self.num_nodes, **self._data.to_dict()}
        if self.num_encodings:
            tensors["x"] = tensors["x"][:, : -self.num_encodings]
        if self.edge_index is None:
            return tensors
        return tensors | {"num_edges": self.num_edges, "directed": torch.tensor([self.directed])}

    def without_edge_features(self) -> GraphDataset:
        """Return a copy without ``edge_attr``. Edge weights and metadata are kept."""
        dataset = copy.copy(self)
        dataset.edge_attr = None
        return dataset

    def stored_split(self) -> Split | None:
        """Return the split that is stored with the graphs, or ``None``."""
        return None if self.split_codes is None else from_codes("published", self.split_codes)

    def __repr__(self) -> str:
        return f"GraphDataset({len(self):,} graphs, {int(self._node_ptr[-1]):,} nodes)"


def pack(graphs: Sequence[Data | Mapping[str, Tensor]], split: Tensor | None = None) -> GraphDataset:
    """Concatenate a list of graphs that all have the same attributes.

    Args:
        graphs: ``Data`` objects or dictionaries of their tensors.
        split: 0 (training), 1 (validation) or 2 (test) for each graph.
    """
    members = [graph if isinstance(graph, Data) else Data.from_dict(dict(graph)) for graph in graphs]
    arrays: dict[str, object] = {
        "num_nodes": [graph.num_nodes for graph in members],
        "num_edges": [graph.num_edges for graph in members],
        "edge_index": torch.cat([graph.edge_index for graph in members], dim=1),
        "directed": True,
        "y": torch.cat([torch.as_tensor(graph.y).reshape(1, -1) for graph in members]).squeeze(1),
    }
    kept = [name for name in _STORED if name not in arrays and members[0].get(name) is not None]
    arrays |= {name: torch.cat([graph[name] for graph in members]) for name in kept}
    return GraphDataset(arrays | ({} if split is None else {"split": split}))


def _counts(arrays: Mapping[str, np.ndarray], name: str) -> Tensor:
    if name not in arrays:
        raise ValueError(f"a data set of graphs needs the array {name!r}, but there are only {sorted(arrays)}")
    counts = as_int64(arrays[name], name)
    if counts.dim() != 1 or bool((counts < 0).any()):
        raise ValueError(f"{name} must be a one-dimensional array of non-negative integers")
    return counts


def _stored_tensor(arrays: Mapping[str, np.ndarray], name: str) -> Tensor:
    """Convert an array to a tensor, multiplied by its scale if it has one."""
    if name == "edge_index":
        return as_int64(arrays[name], name)
    values = as_tensor(arrays[name], name)
    scale = arrays.get(f"{name}_scale")
    if scale is None:
        return values.float() if name == "edge_weight" else values
    if scale.size != 1 or scale.dtype.kind not in "iuf":
        raise ValueError(f"{name}_scale must be a single number, got {scale.dtype} {list(scale.shape)}")
    return values.float() * float(scale.reshape(()))


def _check_length(name: str, values: Tensor | StringIds, expected: int) -> None:
    if len(values) != expected:
        raise ValueError(f"{name} must have {expected} entries, got {len(values)}")


def _ranges(first: Tensor, count: Tensor) -> Tensor:
    """Concatenate the ranges ``first[i], first[i] + 1, ...`` with ``count[i]`` entries each."""
    end = count.cumsum(0)
    total = int(end[-1]) if len(end) else 0
    return torch.arange(total) + _repeat(first - end + count, count, total)


def _repeat(values: Tensor, count: Tensor, total: int) -> Tensor:
    """Repeat each entry ``count[i]`` times. Torch need not compute the sum of the counts, which is ``total``."""
    return values.repeat_interleave(count, output_size=total)


def _add_reverse_edges(name: str, values: Tensor) -> Tensor:
    """Append the reverse edges to ``edge_index``, and to edge attributes their own. Other tensors are unchanged."""
    if name == "edge_index":
        return torch.cat([values, values.flip(0)], dim=1)
    return torch.cat([values, values]) if name.startswith("edge_") else values


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
