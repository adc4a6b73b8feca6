"""Many small graphs in one ``.npz``: arrays of all graphs one after the other, cut by their sizes.

=========================== ====================== ==============================================================
``num_nodes``               ``[G]``                nodes of each graph; per-node arrays are in this order
``num_edges, edge_index``   ``[G], [2, sum]``      stored edges, node numbers local to the graph; or absent
``directed``                scalar                 false: each stored edge stands for both directions
``x, edge_attr, pos``       ``[sum, F]``           features as stored; times ``x_scale``, ``pos_scale`` where given
``edge_weight``             ``[sum]``              from 0 to 1; or absent
``y``                       ``[G]`` or ``[G, T]``  target; absent: there is none
``split``                   ``[G]``                0 train, 1 validation, 2 test; or absent
``origin``                  text                   where they come from; or absent
``graph_id``                ``[G]``, or JSON       ids as the user has them: numbers, or words; or absent
``smiles``                  JSON                   of each molecule; or absent
``encoding, test_folds``    JSON                   how a user's tables were encoded; published folds; or absent
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

from tgnn.data.readers.beside import from_array, to_array
from tgnn.data.readers.npz import as_tensor, read_npz, small, whole, write_npz
from tgnn.data.readers.word_ids import WordIds
from tgnn.data.splits import Split

if TYPE_CHECKING:
    from tgnn.data.dataset_info import DatasetInfo

_NODE, _EDGE = ("x", "pos"), ("edge_attr", "edge_weight")
_BESIDE = ("graph_id", "encoding", "smiles", "test_folds")
_WHAT = "a file of packed graphs"


class GraphDataset:
    """A list of graphs that are cut out of the packed arrays when asked for; nothing loops over all graphs.

    Args:
        arrays: As above.

    Example:
        >>> arrays = {"num_nodes": [2, 1], "num_edges": [1, 0], "edge_index": [[0], [1]], "y": [0, 1]}
        >>> graphs = GraphDataset(arrays | {"directed": False})
        >>> len(graphs), graphs[0].edge_index.tolist()
        (2, [[0, 1], [1, 0]])
    """

    info: DatasetInfo
    """What is known of the graphs; set by :func:`tgnn.data.load`, as are the following."""
    split: Split
    y: Any
    """Target of each graph; ``None``: there is none, as in new data."""
    graph_id: Tensor | WordIds | None = None
    """Of each graph, as the user has it."""
    encoding: dict[str, Any] | None = None
    """How features and labels of the user's were encoded, in plain values."""
    test_folds: Sequence[Sequence[int]] | None = None
    """Published folds, where their file lies with the data."""
    smiles: Sequence[str] | None = None
    """Of each graph, where they are molecules of the user's."""

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
            whole(self._arrays["split"], "split")
        for name in _BESIDE:
            if name in self._arrays:  # kept as it is used; arrays() stores it again
                setattr(self, name, from_array(self._arrays.pop(name), name, len(self)))
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
        self.edge_index = whole(self._arrays["edge_index"], "edge_index")
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
        most = self.num_nodes.repeat_interleave(counts)
        if bool((self.edge_index < 0).any()) or bool((self.edge_index >= most).any()):
            raise ValueError("edge_index has a node number outside of its graph")

    def _counts(self, name: str) -> Tensor:
        if name not in self._arrays:
            raise ValueError(f"packed graphs need the array {name!r}, found only {sorted(self._arrays)}")
        counts = whole(self._arrays[name], name)
        if counts.dim() != 1 or bool((counts < 0).any()):
            raise ValueError(f"{name} must be a list of numbers that are not negative")
        return counts

    def _feature(self, name: str) -> Tensor:
        values = as_tensor(self._arrays[name], name)
        scale = self._arrays.get(f"{name}_scale")
        if scale is None:
            return values
        if scale.size != 1 or scale.dtype.kind not in "iuf":
            raise ValueError(f"{name}_scale must be one number, got {scale.dtype} {list(scale.shape)}")
        return values.float() * float(scale.reshape(()))

    @staticmethod
    def _check(name: str, found: int, wanted: int) -> None:
        if found != wanted:
            raise ValueError(f"{name} has {found} entries, but {wanted} are needed")

    def __len__(self) -> int:
        return len(self.num_nodes)

    def __getitem__(self, number: int | slice) -> Any:
        """A graph, or a list of them."""
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"graph {number} is not one of {len(self)}")
        number %= len(self)
        nodes = slice(int(self._node_ptr[number]), int(self._node_ptr[number + 1]))
        y = None if self.y is None else self.y[number : number + 1]
        graph = Data(y=y, num_nodes=nodes.stop - nodes.start)
        for name, values in self._node.items():
            graph[name] = values[nodes]
        if self.edge_index is not None:
            edges = slice(int(self._edge_ptr[number]), int(self._edge_ptr[number + 1]))
            graph.edge_index = self._both_ways(self.edge_index[:, edges])
            for name, values in self._edge.items():
                graph[name] = values[edges] if self.directed else torch.cat([values[edges]] * 2)
        return graph

    def batch(self, numbers: Tensor | Sequence[int]) -> Batch:
        """Some graphs as one, side by side: what PyG's ``Batch.from_data_list`` makes, without a loop over graphs.

        Where each stored edge stands for both directions, all edges come first and then all their reverses, while PyG
        has those of one graph after those of another. It cannot be taken apart again by ``to_data_list``.

        Args:
            numbers: Which graphs, int64 ``[B]`` or a list; negative ones count from the end.
        """
        numbers = torch.as_tensor(numbers, dtype=torch.int64)
        outside = (numbers < -len(self)) | (numbers >= len(self))
        if bool(outside.any()):
            raise IndexError(f"graph {int(numbers[outside][0])} is not one of {len(self)}")
        numbers = torch.where(numbers < 0, numbers + len(self), numbers)
        count = self.num_nodes[numbers]
        ptr = _pointer(count)
        nodes = _ranges(self._node_ptr[numbers], count)
        graph = torch.arange(len(numbers)).repeat_interleave(count)
        y = None if self.y is None else self.y[numbers]
        batch = Batch(y=y, num_nodes=int(ptr[-1]), batch=graph, ptr=ptr)
        for name, values in self._node.items():
            batch[name] = values[nodes]
        if self.edge_index is not None:
            edges_of = self._edge_ptr[numbers + 1] - self._edge_ptr[numbers]
            edges = _ranges(self._edge_ptr[numbers], edges_of)
            edge_index = self.edge_index[:, edges] + ptr[:-1].repeat_interleave(edges_of)
            batch.edge_index = self._both_ways(edge_index)
            for name, values in self._edge.items():
                batch[name] = values[edges] if self.directed else torch.cat([values[edges]] * 2)
        return batch

    def degrees(self, numbers: Tensor) -> Tensor:
        """Edges into each node of some graphs, graph after graph, as :meth:`batch` has them; features are not touched.

        Args:
            numbers: Which graphs, int64 ``[B]``.
        """
        total = int(self._node_ptr[-1])
        into = torch.zeros(total, dtype=torch.int64)
        if self.edge_index is not None:
            first = self._node_ptr[:-1].repeat_interleave(self.num_edges)
            for ends in self.edge_index[1:] if self.directed else self.edge_index:
                into += torch.bincount(ends + first, minlength=total)
        return into[_ranges(self._node_ptr[numbers], self.num_nodes[numbers])]

    def _both_ways(self, edge_index: Tensor) -> Tensor:
        return edge_index if self.directed else torch.cat([edge_index, edge_index.flip(0)], dim=1)

    def __iter__(self) -> Iterator[Data]:
        return (self[number] for number in range(len(self)))

    def published_split(self) -> Split | None:
        """The split that is stored with the graphs; a graph that is in no part has another number there."""
        if "split" not in self._arrays:
            return None
        part = torch.from_numpy(self._arrays["split"].astype(np.int64))
        return Split("published", None, len(self), *((part == i).nonzero().squeeze(1) for i in range(3)))

    @property
    def x(self) -> Tensor | None:
        """Features of all nodes, graph after graph."""
        return self._node.get("x")

    @property
    def pos(self) -> Tensor | None:
        """Positions of all nodes, graph after graph."""
        return self._node.get("pos")

    def add(self, name: str, values: Tensor) -> None:
        """Gives all nodes, graph after graph, one more row of numbers; it is not stored."""
        self._check(name, len(values), int(self._node_ptr[-1]))
        self._node = {**self._node, name: values}  # a copy shares its arrays, and must not be given this one

    @property
    def edge_attr(self) -> Tensor | None:
        """Features of all stored edges, graph after graph."""
        return self._edge.get("edge_attr")

    @property
    def edge_weight(self) -> Tensor | None:
        """Weights of all stored edges, graph after graph."""
        return self._edge.get("edge_weight")

    @property
    def num_edges(self) -> Tensor:
        """Stored edges of each graph."""
        return torch.zeros_like(self.num_nodes) if self.edge_index is None else self._edge_ptr.diff()

    def tensors(self) -> dict[str, Tensor]:
        """All that is learned from, as it is in memory and not as it is stored."""
        found = {"num_nodes": self.num_nodes, **self._node, **({} if self.y is None else {"y": self.y})}
        if self.edge_index is None:
            return found
        directed = torch.tensor([self.directed])
        return found | {"edge_index": self.edge_index, "num_edges": self.num_edges, "directed": directed, **self._edge}

    def without_edge_features(self) -> GraphDataset:
        """The same graphs with their weights; whatever was said of them is kept."""
        slim = copy.copy(self)
        slim._edge = {name: values for name, values in self._edge.items() if name != "edge_attr"}
        return slim

    @property
    def total_edges(self) -> int:
        """Edges of all graphs, as their ``edge_index`` has them."""
        if self.edge_index is None:
            return 0
        return self.edge_index.size(1) * (1 if self.directed else 2)

    @property
    def origin(self) -> str:
        """What the file says of where it comes from."""
        return str(self._arrays.get("origin", ""))

    def arrays(self) -> dict[str, np.ndarray]:
        """What is stored, to be written or changed; not to be changed in place."""
        beside = {name: getattr(self, name) for name in _BESIDE}
        return self._arrays | {name: to_array(value) for name, value in beside.items() if value is not None}

    def __repr__(self) -> str:
        return f"GraphDataset({len(self):,} graphs, {int(self._node_ptr[-1]):,} nodes)"


def read_packed(path: Path | str) -> GraphDataset:
    """Reads packed graphs; nothing is unpickled.

    Args:
        path: The ``.npz``.
    """
    arrays = read_npz(path, _WHAT)
    try:
        return GraphDataset(arrays)
    except ValueError as error:
        raise ValueError(f"{path} is not {_WHAT}: {error}") from error


def write_packed(graphs: GraphDataset, path: Path | str, origin: str = "") -> None:
    """Writes packed graphs: whole or not at all.

    Args:
        graphs: What to write.
        path: The ``.npz``.
        origin: Where they come from, in a sentence that stays with them.
    """
    arrays = graphs.arrays() | ({"origin": np.array(origin)} if origin else {})
    write_npz(path, {name: small(array) for name, array in arrays.items()})


def pack(graphs: Sequence[Data | Mapping[str, Tensor]], split: Tensor | None = None) -> GraphDataset:
    """Packs a list of graphs that all have the same attributes.

    Args:
        graphs: ``Data`` or dictionaries, with ``y`` and ``edge_index``, and any of ``x``, ``pos``, ``edge_attr``,
            ``edge_weight``.
        split: 0 train, 1 validation, 2 test for each.

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
    """``first[0], first[0] + 1, ...`` (``count[0]`` of them), then those of the next."""
    before = count.cumsum(0) - count
    return torch.arange(int(count.sum())) + (first - before).repeat_interleave(count)


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
