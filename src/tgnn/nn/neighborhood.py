"""Neighborhoods: which messages, edge weights and edge features each destination aggregates, and how."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import scatter

from tgnn.ops import degrees, edges_with_self_loops, neighbor_sum
from tgnn.ops.graph_cache import cached_on
from tgnn.ops.tracing import is_plain_eager

T = TypeVar("T")
FillValue = float | Tensor | str | None
"""Edge features of self-loops: numbers, a reduction of the features of the node's in-edges, or none."""

_MAX_LOG = 80.0  # exp(80) is finite in float32, and tanh is 1 far below it


class Messages(NamedTuple):
    """Messages of each source node. A source sends the same message to all its neighbors."""

    factors: Tensor | None
    """CP factors ``W_1^T [x_u; 1]`` of the product branch, ``[N_src, R]``."""
    summands: Tensor | None
    """Summands ``W_2^T x_u`` of the sum branch, ``[N_src, d]``."""
    gates: Tensor | None
    """Terms ``B x_u`` of the gates of a gated sum branch, ``[N_src, d]``."""


class Neighborhood(NamedTuple):
    """The neighborhood S(v) of every node (Section 2 of the paper): its neighbors and, with self-loops, v itself."""

    x: Tensor
    """Features of the source nodes."""
    graph: Any
    """``edge_index``, ``EdgeIndex`` or ``adj_t``."""
    size: tuple[int, int]
    """``(N_src, N_dst)``."""
    self_loops: bool
    """Whether the operators must add self-loops; ``False`` if ``graph`` already contains them."""
    weight: Tensor | None
    """Weight of each edge; weight 0 removes the edge."""
    edge_attr: Tensor | None
    """Edge features, without rows for self-loops added at the end of ``graph`` unless ``fill_value`` is given."""
    bipartite: bool = False
    """Whether sources and destinations are two sets of nodes, with separate degrees."""

    def sum(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Sum ``x`` over each neighborhood, weighted by ``weight`` or the weights of the edges."""
        weight = self.weight if weight is None else weight
        return neighbor_sum(x, self.graph, size=self.size, edge_weight=weight, self_loops=self.self_loops)

    def pad_self_loops(self, edge_rows: Tensor) -> Tensor:
        """Append zero rows for the added self-loops to the rows of the given edges."""
        loops = as_edge_index(self.graph).size(1) - edge_rows.size(0)
        return torch.cat([edge_rows, edge_rows.new_zeros(loops, edge_rows.size(1))]) if loops else edge_rows

    def degrees(self) -> Tensor:
        """Return the (weighted) in-degree of each destination, ``[N_dst]``."""
        if self.weight is None:
            return degrees(self.graph, self.size, self_loops=self.self_loops)
        weight = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32))
        ones = torch.ones(self.size[0], 1, dtype=weight.dtype, device=weight.device)
        return self.sum(ones, weight).squeeze(1)

    def deg_inv_sqrt(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return ``deg ** -0.5`` of the sources and of the destinations, 0 for nodes of degree 0.

        In a graph with one set of nodes, both are in-degrees, as in ``gcn_norm`` of PyG.
        """
        wide = torch.promote_types(dtype, torch.float32)  # half precision cannot count beyond 256
        of_dst = inv_sqrt(self.degrees().to(wide))
        if not self.bipartite:
            return of_dst.to(dtype), of_dst.to(dtype)
        edge_index = as_edge_index(self.graph)
        weight = torch.ones(edge_index.size(1), device=of_dst.device) if self.weight is None else self.weight
        out_degree = torch.zeros(self.size[0], dtype=wide, device=of_dst.device)
        out_degree = out_degree.index_add(0, edge_index[0], weight.to(wide))
        return inv_sqrt(out_degree).to(dtype), of_dst.to(dtype)

    def gcn_weight(self, deg_inv_sqrt: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
        """Return ``w_uv / sqrt(d_u d_v)`` of every edge, clamped to 1 (small weights give small degrees)."""
        of_src, of_dst = (values.to(dtype) for values in deg_inv_sqrt)
        src, dst = as_edge_index(self.graph)
        weight = of_src[src] * of_dst[dst]
        return (weight if self.weight is None else weight * self.weight.to(dtype)).clamp(max=1)

    def sum_edge_attr(self) -> Tensor:
        """Sum the edge features of each destination. This precedes the linear map, because it has fewer columns."""
        attr, weight = self.edge_attr, self.weight
        assert attr is not None
        num_edges = attr.size(0)  # without self-loops
        attr = attr if weight is None else attr * weight[:num_edges].to(attr.dtype).unsqueeze(1)
        dst = as_edge_index(self.graph)[1, :num_edges]
        return attr.new_zeros(self.size[1], attr.size(1)).index_add(0, dst, attr)


def weighted_power(y: Tensor, neighborhood: Neighborhood, exponent: float, exclusive: bool) -> Tensor:
    r"""Turn powers :math:`\operatorname{sign}(P) |P|^{n^{-p}}` into :math:`\operatorname{sign}(P) |P|^{d^{-p}}`.

    Args:
        y: Powers of the products of :math:`n` edges, one row per destination or, if ``exclusive``, per edge.
        neighborhood: Neighborhood with edge weights. Their sum, at least 1, is the degree :math:`d`.
        exponent: :math:`p`.
        exclusive: Whether each product, :math:`n` and :math:`d` leave out one edge.
    """
    graph, size = neighborhood.graph, neighborhood.size
    count, degree = degrees(graph, size), neighborhood.degrees()
    if exclusive:
        weight, dst = neighborhood.weight, as_edge_index(graph)[1]
        assert weight is not None
        count, degree = count[dst] - 1, degree[dst] - weight.to(degree.dtype)
    wide = y.to(torch.promote_types(y.dtype, torch.float32))
    ratio = (degree.clamp(min=1) / count.clamp(min=1)).to(wide.dtype).pow(-exponent).unsqueeze(1)
    info = torch.finfo(wide.dtype)
    logs = ratio * wide.abs().clamp(info.tiny, info.max).log()
    powers = wide.detach().sign() * logs.clamp(max=_MAX_LOG).exp()
    return torch.where(ratio == 1, wide, powers).to(y.dtype)


def inv_sqrt(degree: Tensor) -> Tensor:
    """Return ``degree ** -0.5``, and 0 where the degree is 0."""
    return torch.where(degree > 0, degree.clamp(min=torch.finfo(degree.dtype).tiny).rsqrt(), 0)


def make_neighborhood(
    x: Tensor | tuple[Tensor, Tensor | None],
    graph: Any,
    weight: Tensor | None,
    edge_attr: Tensor | None,
    size: tuple[int, int] | None,
    self_loops: bool,
    loops_as_edges: bool,
    fill_value: FillValue = None,
) -> Neighborhood:
    """Check the arguments of a layer and add self-loops. Values stored in ``adj_t`` are edge weights.

    Self-loops must be explicit edges (``loops_as_edges``) if the caller computes a weight per edge. ``fill_value``
    gives them edge features.
    """
    if edge_attr is not None and edge_attr.dim() == 1:
        edge_attr = edge_attr.unsqueeze(1)
    stored_weight = _stored_values(graph)
    if stored_weight is not None:
        if weight is not None:
            raise ValueError("edge_weight is given, but adj_t also stores values; pass only one of them.")
        weight = stored_weight
        graph = as_edge_index(graph)
    if weight is not None or edge_attr is not None:
        _check_lengths(as_edge_index(graph), weight, edge_attr)
    if isinstance(x, Tensor):
        num_nodes = x.size(0)
        size = size or (num_nodes, num_nodes)
        if self_loops and size[0] != size[1]:
            raise ValueError(f"Self-loops need one set of nodes, but size is {size}; use add_self_loops=False.")
        if not self_loops or (weight is None and edge_attr is None and not loops_as_edges):
            return Neighborhood(x, graph, size, self_loops, weight, edge_attr)
        edges = as_edge_index(graph)
        with_loops, loop_weight = _cached(("self-loops", num_nodes), edges, partial(_add_self_loops, edges, num_nodes))
        if weight is not None or loop_weight is not None:
            weight = edges.new_ones(edges.size(1), dtype=torch.float32) if weight is None else weight
            loop_weight = weight.new_ones(num_nodes) if loop_weight is None else loop_weight.to(weight.dtype)
            weight = torch.cat([weight, loop_weight])
        return Neighborhood(x, with_loops, size, False, weight, _fill(edge_attr, edges, num_nodes, fill_value))
    x_src, x_dst = x
    if not self_loops:
        if size is None:
            if x_dst is None:
                raise ValueError("x is (x_src, None), so size=(N_src, N_dst) must be given.")
            size = (x_src.size(0), x_dst.size(0))
        return Neighborhood(x_src, graph, size, False, weight, edge_attr, bipartite=True)
    neighborhood = _add_bipartite_self_loops(x_src, x_dst, graph, weight, edge_attr)
    num_dst = neighborhood.size[1]
    filled = _fill(edge_attr, as_edge_index(graph), num_dst, fill_value)
    neighborhood = neighborhood._replace(edge_attr=filled)
    if size is not None and tuple(size) != (x_src.size(0), num_dst):
        raise ValueError(f"size is {tuple(size)}, but x has {x_src.size(0)} sources and {num_dst} destinations.")
    return neighborhood


def _add_bipartite_self_loops(
    x_src: Tensor, x_dst: Tensor | None, graph: Any, weight: Tensor | None, edge_attr: Tensor | None
) -> Neighborhood:
    """Append each destination to the sources, with one edge to itself."""
    if x_dst is None:
        raise ValueError(
            "Self-loops need the features of the destinations, but x_dst is None; use add_self_loops=False."
        )
    if x_src.size(1) != x_dst.size(1):
        raise ValueError(
            f"Self-loops need equal numbers of features, but x_src has {x_src.size(1)} and x_dst has {x_dst.size(1)}; "
            "use add_self_loops=False (root_weight=True still uses the features of the destinations)."
        )
    if torch.strided not in (x_src.layout, x_dst.layout):
        raise TypeError("Self-loops do not support a pair of sparse feature matrices; use add_self_loops=False.")
    num_src, num_dst = x_src.size(0), x_dst.size(0)
    edges = as_edge_index(graph)

    def add_loops() -> Tensor:
        dst = torch.arange(num_dst, dtype=edges.dtype, device=edges.device)
        return torch.cat([edges, torch.stack([dst + num_src, dst])], dim=1)

    with_loops = _cached(("bipartite", num_src, num_dst), edges, add_loops)
    if weight is not None:
        weight = torch.cat([weight, weight.new_ones(num_dst)])
    x = torch.cat([x_src, x_dst])
    size = (num_src + num_dst, num_dst)
    return Neighborhood(x, with_loops, size, False, weight, edge_attr, bipartite=True)


def _fill(edge_attr: Tensor | None, edges: Tensor, num_nodes: int, fill_value: FillValue) -> Tensor | None:
    """Append edge features of one self-loop per node, as ``add_self_loops`` of PyG does."""
    if edge_attr is None or fill_value is None:
        return edge_attr
    if isinstance(fill_value, str):
        of_loops = scatter(edge_attr, edges[1].long(), 0, num_nodes, reduce=fill_value)
    else:
        fill = torch.as_tensor(fill_value, dtype=edge_attr.dtype, device=edge_attr.device)
        if fill.numel() not in (1, edge_attr.size(1)):
            raise ValueError(f"fill_value has {fill.numel()} entries, but edge_attr has {edge_attr.size(1)} columns.")
        of_loops = fill.view(1, -1).expand(num_nodes, edge_attr.size(1))
    return torch.cat([edge_attr, of_loops])


def _add_self_loops(edges: Tensor, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    """Call :func:`edges_with_self_loops`, and drop the loop weights if they are all 1 (in eager mode only)."""
    with_loops, weight = edges_with_self_loops(edges, num_nodes)
    return with_loops, None if is_plain_eager(edges) and bool(weight.all()) else weight


def _cached(name: Hashable, edges: Tensor, make: Callable[[], T]) -> T:
    """Cache ``make()`` while the edges do not change (in eager mode only: a compiler must see the computation)."""
    return cached_on(name, [edges], make) if is_plain_eager(edges) else make()


def _check_lengths(edges: Tensor, weight: Tensor | None, edge_attr: Tensor | None) -> None:
    """Check shapes before self-loops are appended or values are broadcast, which would hide a wrong length."""
    for name, value, dims in (("edge_weight", weight, 1), ("edge_attr", edge_attr, 2)):
        if value is not None and (value.dim() != dims or value.size(0) != edges.size(1)):
            expected = f"[{edges.size(1)}{', edge_dim' if dims == 2 else ''}]"
            raise ValueError(f"{name} must have shape {expected}, one row per edge, got {list(value.shape)}.")


def as_edge_index(graph: Any) -> Tensor:
    """Convert a graph to ``edge_index`` ``[2, E]``, with the edges in the order that the operators use."""
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
        got = graph.layout if isinstance(graph, Tensor) else type(graph).__name__
        raise TypeError(
            f"The graph must be an edge_index, an EdgeIndex, a torch CSR tensor or a SparseTensor, got {got}."
        )
    ptr, col = graph.crow_indices(), graph.col_indices()

    def expand() -> Tensor:
        row = torch.arange(ptr.numel() - 1, dtype=col.dtype, device=col.device)
        return torch.stack([col, row.repeat_interleave(ptr.diff(), output_size=col.numel())])

    return cached_on("edge_index", [ptr, col], expand) if is_plain_eager(col) else expand()


def _stored_values(graph: Any) -> Tensor | None:
    """Return the values of a sparse matrix, or ``None`` if there are none or all are 1."""
    if isinstance(graph, SparseTensor):
        values = graph.storage.value()
    elif isinstance(graph, Tensor) and not isinstance(graph, EdgeIndex) and graph.layout == torch.sparse_csr:
        values = graph.values()
    else:
        return None
    return None if values is None or (not values.requires_grad and bool((values == 1).all())) else values
