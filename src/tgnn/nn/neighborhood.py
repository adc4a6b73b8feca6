"""Whom each node pools: the graph as given, made ready for a layer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor

from tgnn.ops import degrees, edges_with_self_loops, neighbor_sum
from tgnn.ops.graph_cache import cached_on
from tgnn.ops.tracing import is_plain_eager

T = TypeVar("T")


class Neighborhood(NamedTuple):
    """The set S(v) of each node, Section 2 of the paper: its neighbors, and itself where self-loops are wanted."""

    x: Tensor
    """Features of the sources."""
    graph: Any
    """``edge_index``, ``EdgeIndex`` or ``adj_t``"""
    size: tuple[int, int]
    self_loops: bool
    """Whether the operators are to add a loop at each node (where the graph has them already: no)."""
    weight: Tensor | None
    """One number per edge; 0: as if the edge were not there."""
    edge_attr: Tensor | None
    """One row per edge of the graph as it was given: without the loops that were added at its end."""
    bipartite: bool = False
    """Whether sources and destinations are nodes of two kinds, with degrees of their own."""

    def sum(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        weight = self.weight if weight is None else weight
        return neighbor_sum(x, self.graph, size=self.size, edge_weight=weight, self_loops=self.self_loops)

    def of_all_edges(self, rows: Tensor) -> Tensor:
        """Rows of the edges as they were given, then zeros for the loops."""
        loops = as_edge_index(self.graph).size(1) - rows.size(0)
        return torch.cat([rows, rows.new_zeros(loops, rows.size(1))]) if loops else rows

    def degrees(self) -> Tensor:
        """Total weight into each node, ``[N_dst]``."""
        if self.weight is None:
            return degrees(self.graph, self.size, self_loops=self.self_loops)
        weight = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32))
        ones = torch.ones(self.size[0], 1, dtype=weight.dtype, device=weight.device)
        return self.sum(ones, weight).squeeze(1)

    def inverse_roots(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """``d ** -0.5`` of sources and of destinations, 0 where d is 0. A graph on one set of nodes has one degree per
        node, that of the edges into it, as PyG's ``gcn_norm`` has.
        """
        wide = torch.promote_types(dtype, torch.float32)  # half precision does not count beyond 256
        into = inverse_root(self.degrees().to(wide))
        if not self.bipartite:
            return into.to(dtype), into.to(dtype)
        edge_index = as_edge_index(self.graph)
        weight = torch.ones(edge_index.size(1), device=into.device) if self.weight is None else self.weight
        out_of = torch.zeros(self.size[0], dtype=wide, device=into.device)
        return inverse_root(out_of.index_add(0, edge_index[0], weight.to(wide))).to(dtype), into.to(dtype)


def inverse_root(degree: Tensor) -> Tensor:
    return torch.where(degree > 0, degree.clamp(min=torch.finfo(degree.dtype).tiny).rsqrt(), 0)


def neighborhood(
    x: Tensor | tuple[Tensor, Tensor | None],
    graph: Any,
    weight: Tensor | None,
    edge_attr: Tensor | None,
    size: tuple[int, int] | None,
    self_loops: bool,
    edgewise: bool,
) -> Neighborhood:
    """Readies a graph.

    Args:
        x: Features, or those of sources and of destinations.
        graph: ``edge_index``, ``EdgeIndex`` or ``adj_t``; values stored in ``adj_t`` are weights.
        weight: One number per edge.
        edge_attr: One row per edge.
        size: ``(N_src, N_dst)`` where ``x`` does not tell.
        self_loops: Whether v is in S(v).
        edgewise: Whether something else will be said of each single edge, so that loops must be edges too.
    """
    own_weight = _stored_values(graph)
    if own_weight is not None:
        if weight is not None:
            raise ValueError("edge_weight is given, but adj_t stores values of its own; give one of them")
        weight = own_weight
        graph = as_edge_index(graph)
    if weight is not None or edge_attr is not None:
        _check_lengths(as_edge_index(graph), weight, edge_attr)
    if isinstance(x, Tensor):
        num_nodes = x.size(0)
        size = size or (num_nodes, num_nodes)
        if self_loops and size[0] != size[1]:
            raise ValueError(f"self-loops need one set of nodes, but size is {size}; use add_self_loops=False")
        if not self_loops or (weight is None and edge_attr is None and not edgewise):
            return Neighborhood(x, graph, size, self_loops, weight, edge_attr)
        edges = as_edge_index(graph)
        closed, loop_weight = _made_once(("closed", num_nodes), edges, partial(_closed, edges, num_nodes))
        if weight is not None or loop_weight is not None:
            weight = edges.new_ones(edges.size(1), dtype=torch.float32) if weight is None else weight
            loop_weight = weight.new_ones(num_nodes) if loop_weight is None else loop_weight.to(weight.dtype)
            weight = torch.cat([weight, loop_weight])
        return Neighborhood(x, closed, size, False, weight, edge_attr)
    sources, destinations = x
    if not self_loops:
        if size is None:
            if destinations is None:
                raise ValueError("x is (x_src, None): give size=(N_src, N_dst) as well")
            size = (sources.size(0), destinations.size(0))
        return Neighborhood(sources, graph, size, False, weight, edge_attr, bipartite=True)
    near = _closed_bipartite(sources, destinations, graph, weight, edge_attr)
    if size is not None and tuple(size) != (sources.size(0), near.size[1]):
        raise ValueError(f"size is {tuple(size)}, but x has {sources.size(0)} sources and {near.size[1]} destinations")
    return near


def _closed_bipartite(
    sources: Tensor, destinations: Tensor | None, graph: Any, weight: Tensor | None, edge_attr: Tensor | None
) -> Neighborhood:
    """Each destination becomes a source as well, with one edge, to itself."""
    if destinations is None:
        raise ValueError(
            "each node is to be its own neighbor, but x_dst is None; give it, or use add_self_loops=False"
        )
    if sources.size(1) != destinations.size(1):
        raise ValueError(
            f"each node is to be its own neighbor, but sources have {sources.size(1)} features and destinations "
            f"{destinations.size(1)}; use add_self_loops=False (root_weight=True keeps a channel for the node itself)"
        )
    if torch.strided not in (sources.layout, destinations.layout):
        raise TypeError("a pair of sparse feature matrices does not go with self-loops; use add_self_loops=False")
    num_src, num_dst = sources.size(0), destinations.size(0)
    edges = as_edge_index(graph)

    def close() -> Tensor:
        own = torch.arange(num_dst, dtype=edges.dtype, device=edges.device)
        return torch.cat([edges, torch.stack([own + num_src, own])], dim=1)

    closed = _made_once(("bipartite", num_src, num_dst), edges, close)
    if weight is not None:
        weight = torch.cat([weight, weight.new_ones(num_dst)])
    both = torch.cat([sources, destinations])
    size = (num_src + num_dst, num_dst)
    return Neighborhood(both, closed, size, False, weight, edge_attr, bipartite=True)


def _closed(edges: Tensor, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    """As :func:`edges_with_self_loops`, but no weight where no node has a loop already, and one may look."""
    closed, weight = edges_with_self_loops(edges, num_nodes)
    return closed, None if is_plain_eager(edges) and bool(weight.all()) else weight


def _made_once(what: Hashable, edges: Tensor, make: Callable[[], T]) -> T:
    """Remembered while the edges live unchanged, unless someone watches what is computed."""
    return cached_on(what, [edges], make) if is_plain_eager(edges) else make()


def _check_lengths(edges: Tensor, weight: Tensor | None, edge_attr: Tensor | None) -> None:
    """Before anything is lengthened or spread: a wrong length must not be hidden."""
    for name, value, dims in (("edge_weight", weight, 1), ("edge_attr", edge_attr, 2)):
        if value is not None and (value.dim() != dims or value.size(0) != edges.size(1)):
            wanted = f"[{edges.size(1)}{', edge_dim' if dims == 2 else ''}]"
            raise ValueError(f"{name} must have shape {wanted}, one row per edge, got {list(value.shape)}")


def as_edge_index(graph: Any) -> Tensor:
    """``[2, E]``, in the order in which the operators count the edges of that graph."""
    edge_index: Tensor
    if isinstance(graph, EdgeIndex):
        edge_index = graph.as_tensor()
        return edge_index
    if isinstance(graph, Tensor) and graph.layout == torch.strided:
        return graph
    if isinstance(graph, SparseTensor):
        row, col, _ = graph.coo()
        return torch.stack([col, row])
    if not isinstance(graph, Tensor) or graph.layout != torch.sparse_csr:
        what = graph.layout if isinstance(graph, Tensor) else type(graph).__name__
        raise TypeError(
            f"the graph must be an edge_index, an EdgeIndex, a torch CSR tensor or a SparseTensor, got {what}"
        )
    ptr, col = graph.crow_indices(), graph.col_indices()

    def unfold() -> Tensor:
        row = torch.arange(ptr.numel() - 1, dtype=col.dtype, device=col.device)
        return torch.stack([col, row.repeat_interleave(ptr.diff(), output_size=col.numel())])

    return cached_on("unfolded", [ptr, col], unfold) if is_plain_eager(col) else unfold()


def _stored_values(graph: Any) -> Tensor | None:
    """Values of a sparse matrix that are not all 1."""
    if isinstance(graph, SparseTensor):
        values = graph.storage.value()
    elif isinstance(graph, Tensor) and not isinstance(graph, EdgeIndex) and graph.layout == torch.sparse_csr:
        values = graph.values()
    else:
        return None
    return None if values is None or (not values.requires_grad and bool((values == 1).all())) else values
