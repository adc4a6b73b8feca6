"""Sources of sampled training: the edges and features of a graph in memory or on disk."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.on_disk import DiskGraph
from tgnn.data.sampler import get_in_edges
from tgnn.ops.graph import CompressedEdges


class Source(Protocol):
    """A graph to sample neighborhoods from. Its methods are thread-safe."""

    in_edges: CompressedEdges
    """Edges grouped by destination."""
    y: Tensor
    """Target of each node."""

    def rows(self, index: Tensor) -> Tensor:
        """Return the dense features of some nodes."""

    def beside(self, nodes: Tensor, edges: Tensor) -> dict[str, Tensor]:
        """Return the other attributes of some nodes and edges, by their names in ``Data``."""


class InMemory:
    """A graph in memory.

    Args:
        data: The graph. Its tensors are not copied.
    """

    def __init__(self, data: Data) -> None:
        if data.x is None:
            raise ValueError("Sampled training needs node features.")
        self._x: Tensor = data.x
        self.y: Tensor = data.y
        if self._x.layout == torch.sparse_csr:
            if self._x.numel() >= 2**28:
                raise ValueError(
                    "Sampled training needs dense features, and these sparse features are too large to be made dense."
                )
            self._x = self._x.to_dense()
        self.in_edges = get_in_edges(data.edge_index, data.num_nodes)
        more = {key: value for key, value in data.to_dict().items() if isinstance(value, Tensor)}
        for key in ("x", "y", "edge_index"):
            more.pop(key, None)
        self._of_nodes = {key: value for key, value in more.items() if data.is_node_attr(key)}
        self._of_edges = {key: value for key, value in more.items() if data.is_edge_attr(key)}

    def rows(self, index: Tensor) -> Tensor:
        return self._x.index_select(0, index)  # on one thread, 8 times as fast as self._x[index]

    def beside(self, nodes: Tensor, edges: Tensor) -> dict[str, Tensor]:
        of_nodes = {key: value.index_select(0, nodes) for key, value in self._of_nodes.items()}
        return of_nodes | {key: value.index_select(0, edges) for key, value in self._of_edges.items()}


class OnDisk:
    """A graph on disk.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: DiskGraph) -> None:
        assert graph.y is not None
        self._graph, self.y, self.in_edges = graph, graph.y, graph.in_edges

    def rows(self, index: Tensor) -> Tensor:
        return self._graph.rows(index)

    def beside(self, nodes: Tensor, edges: Tensor) -> dict[str, Tensor]:
        return {}
