"""Graphs in the format of the kernels: edges by destination (CSC) and by source (CSR), checked once and cached."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from tgnn.ops import cpp_build
from tgnn.ops.graph_cache import cached_by_content, cached_on


@dataclass(frozen=True)
class CompressedEdges:
    """Edges grouped by one endpoint, as in a CSR or CSC matrix: group ``i`` has the positions ``ptr[i]:ptr[i + 1]``."""

    ptr: Tensor
    """int64 ``[groups + 1]``: first position of each group."""
    index: Tensor
    """``[E]``: node at the other endpoint of each edge, int32 (int64 if the node indices do not fit)."""
    perm: Tensor | None
    """int64 ``[E]``: position of each edge in the caller's ``edge_index``; ``None`` if the order is the same."""

    @cached_property
    def num_groups(self) -> int:
        return self.ptr.numel() - 1

    @cached_property
    def kernel_args(self) -> tuple[int, int, int, int | None]:
        """The arguments of a kernel that describe these edges: their number of groups, and addresses of the tensors."""
        perm = None if self.perm is None else self.perm.data_ptr()
        return self.num_groups, self.ptr.data_ptr(), self.index.data_ptr(), perm

    @cached_property
    def is_int32(self) -> bool:
        """Whether node indices fit into 32 bits."""
        return self.index.dtype == torch.int32

    def owners(self) -> Tensor:
        """Return the group of each edge, ``[E]``."""
        groups = torch.arange(self.num_groups, dtype=self.index.dtype, device=self.ptr.device)
        return groups.repeat_interleave(self.ptr.diff(), output_size=self.index.numel())


class PackedEdges(CompressedEdges):
    """Compressed edges in one buffer. Their tensors are created when they are used: the kernels need only addresses."""

    _parts: tuple[Tensor, int, list[int], bool]

    def __init__(self, buffer: Tensor, num_groups: int, num_edges: int, places: list[int], is_sorted: bool) -> None:
        ptr, index, perm = (buffer.data_ptr() + 8 * place for place in places)
        vars(self).update(
            num_groups=num_groups,
            kernel_args=(num_groups, ptr, index, None if is_sorted else perm),
            is_int32=True,
            _parts=(buffer, num_edges, places, is_sorted),
        )

    def __getattr__(self, name: str) -> Tensor | None:
        if name not in ("ptr", "index", "perm"):
            raise AttributeError(name)
        buffer, num_edges, (ptr, index, perm), is_sorted = self._parts
        part: Tensor | None = buffer[ptr : ptr + self.num_groups + 1]
        if name == "index":
            part = buffer.view(torch.int32)[2 * index : 2 * index + num_edges]
        elif name == "perm":
            part = None if is_sorted else buffer[perm : perm + num_edges]
        vars(self)[name] = part
        return part


@dataclass
class Graph:
    """Edges from ``num_src`` sources to ``num_dst`` destinations, in CSC and CSR form.

    The CSR form is computed on first use: only the backward pass needs it.
    """

    num_src: int
    num_dst: int
    num_edges: int
    _by_dst: CompressedEdges
    _by_src: CompressedEdges | None = None
    matrices: dict[tuple[str, torch.dtype], Tensor] = field(default_factory=dict, repr=False)
    """Sparse adjacency matrices that the torch backend has built for this graph."""

    def by_dst(self) -> CompressedEdges:
        """Return the edges grouped by destination (CSC); ``index`` holds the sources."""
        return self._by_dst

    def by_src(self) -> CompressedEdges:
        """Return the edges grouped by source (CSR); ``index`` holds the destinations."""
        if self._by_src is None:  # two threads may both compute it, with the same result
            self._by_src = _transpose(self._by_dst, self.num_src)
        return self._by_src


def _transpose(edges: CompressedEdges, num_groups: int) -> CompressedEdges:
    """Group the same edges by their other endpoint; edges of a group keep the caller's order."""
    if edges.perm is None:
        return group(edges.index, edges.owners(), num_groups, edges.index.dtype)
    order = torch.empty_like(edges.perm)
    order[edges.perm] = torch.arange(edges.perm.numel(), device=edges.perm.device)
    return group(edges.index[order], edges.owners()[order], num_groups, edges.index.dtype)


def _node_dtype(*counts: int) -> torch.dtype:
    """Return the smallest integer type that can index these numbers of sources, destinations and edges."""
    return torch.int32 if max(counts) < 2**31 else torch.int64


def group(key: Tensor, other: Tensor | None, num_groups: int, node_dtype: torch.dtype) -> CompressedEdges:
    """Group edges by ``key`` with a stable sort.

    Args:
        key: Endpoint to group by, ``[E]``.
        other: Other endpoint, ``[E]``; ``None`` means that edge ``e`` comes from node ``e``.
        num_groups: Number of groups.
        node_dtype: Integer type of ``index`` in the result.
    """
    is_sorted = bool((key[1:] >= key[:-1]).all())
    if not is_sorted and key.device.type == "cpu" and node_dtype == torch.int32 and (lib := cpp_build.load()):
        return CompressedEdges(*lib.group(key, other, num_groups))
    ptr = torch.zeros(num_groups + 1, dtype=torch.int64, device=key.device)
    torch.cumsum(torch.bincount(key, minlength=num_groups), 0, out=ptr[1:])
    if other is None:
        other = torch.arange(key.numel(), device=key.device)
    if is_sorted:
        return CompressedEdges(ptr, other.to(node_dtype, copy=True).contiguous(), None)
    perm = torch.sort(key, stable=True).indices
    return CompressedEdges(ptr, other[perm].to(node_dtype), perm)


# ---- building graphs from the inputs of the operators ----------------------------------------------------------
# A Graph cannot be an argument of a torch.library operator. One or two tensors and the name of their format can:
#
#   format   index                                                       columns
#   edges    edge_index [2, E]
#   csr      ptr: the entries ptr[i] .. ptr[i + 1] are edges into i      source of each entry (a sparse adj_t)
#   index    [E]: item e belongs to group index[e]
#   ptr      items ptr[i] .. ptr[i + 1] belong to group i
#
# "edges+self" and "csr+self" add a self-loop to every node that has none, after all edges. A trailing "!" (VOLATILE)
# says that the tensors may have changed in place without a new version counter, so the cache compares their content.

WITH_SELF_LOOPS, VOLATILE = "+self", "!"


def materialized(x: Tensor) -> Tensor:
    """Return a tensor whose memory holds its values: not a negative view, and not a tensor of implicit zeros."""
    return x.clone() if x.is_neg() or x._is_zerotensor() else x


def _build(format: str, index: Tensor, columns: Tensor | None, num_src: int, num_dst: int) -> Graph:
    index = materialized(index)
    if format.endswith(WITH_SELF_LOOPS):
        if columns is not None:  # the entries of a matrix are grouped already, so nothing is sorted below
            in_edges = _build("csr", index, columns, num_src, num_dst).by_dst()
            index = torch.stack([in_edges.index, in_edges.owners()])
        _check_edges(index, num_src, num_dst)
        return _build("edges", _add_self_loops(index, num_dst), None, num_src, num_dst)
    if format == "edges":
        if graph := _build_small(index, num_src, num_dst):
            return graph
        _check_edges(index, num_src, num_dst)
        node_dtype = _node_dtype(num_src, num_dst, index.size(1))
        return Graph(num_src, num_dst, index.size(1), _by_dst=group(index[1], index[0], num_dst, node_dtype))
    if format == "csr":
        assert columns is not None
        _check_range(columns, num_src, "the column indices of adj_t (the sources)", "num_src")
        node_dtype = _node_dtype(num_src, num_dst, columns.numel())
        by_dst = _compressed(index.clone(), columns, None, num_dst, node_dtype, "The row pointer of adj_t")
        return Graph(num_src, num_dst, columns.numel(), _by_dst=by_dst)
    node_dtype = _node_dtype(num_src, num_dst)
    if format == "index":
        _check_range(index, num_dst, "index", "dim_size")
        return Graph(num_src, num_dst, num_src, _by_dst=group(index, None, num_dst, node_dtype))
    items = torch.arange(num_src, device=index.device)
    by_dst = _compressed(index.clone(), items, None, num_dst, node_dtype, "ptr")
    return Graph(num_src, num_dst, num_src, _by_dst=by_dst)


_SMALL = 2**18  # below this number of edges, the CSR form is computed together with the CSC form, in one call


def _build_small(edge_index: Tensor, num_src: int, num_dst: int) -> Graph | None:
    """Build both forms of a small graph in one call of the C++ library, or return ``None`` if it cannot be used."""
    small = edge_index.size(1) < _SMALL and max(num_src, num_dst) < _SMALL
    if not small or edge_index.device.type != "cpu" or edge_index.dtype != torch.int64 or not (lib := cpp_build.load()):
        return None
    buffer, places, found = lib.group_both(edge_index.contiguous(), num_src, num_dst)
    low_src, high_src, low_dst, high_dst, src_sorted, dst_sorted = found
    if min(low_src, low_dst) < 0 or high_src >= num_src or high_dst >= num_dst:
        _check_edges(edge_index, num_src, num_dst)  # raises an error that names the wrong index
    num_edges = edge_index.size(1)
    by_dst = PackedEdges(buffer, num_dst, num_edges, places[:3], bool(dst_sorted))
    by_src = PackedEdges(buffer, num_src, num_edges, places[3:], bool(src_sorted))
    return Graph(num_src, num_dst, num_edges, _by_dst=by_dst, _by_src=by_src)


def _add_self_loops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Append a self-loop for every node that has none."""
    src, dst = edge_index
    has_loop = torch.zeros(num_nodes, dtype=torch.bool, device=src.device)
    has_loop[src[src == dst].long()] = True
    loops = (~has_loop).nonzero().squeeze(1).to(src.dtype)
    return torch.cat([edge_index, loops.expand(2, -1)], dim=1)


def from_edge_index(edges: EdgeIndex) -> Graph:
    """Build the graph of a sorted ``EdgeIndex`` of known size from its own (cached) CSC and CSR forms."""
    num_src, num_dst = (int(n) for n in edges.sparse_size() if n is not None)
    _check_edges(edges.as_tensor(), num_src, num_dst)
    (ptr_dst, src), perm_dst = edges.get_csc()
    (ptr_src, dst), perm_src = edges.get_csr()
    node_dtype = _node_dtype(num_src, num_dst, src.numel())
    by_dst = _compressed(ptr_dst, src, perm_dst, num_dst, node_dtype, "The pointer of EdgeIndex.get_csc()")
    by_src = _compressed(ptr_src, dst, perm_src, num_src, node_dtype, "The pointer of EdgeIndex.get_csr()")
    for compressed, end in ((by_dst, edges.as_tensor()[1]), (by_src, edges.as_tensor()[0])):
        expected = end if compressed.perm is None else end[compressed.perm]
        if not torch.equal(compressed.owners(), expected.to(compressed.index.dtype)):
            raise ValueError(
                f"The EdgeIndex is not sorted, but its sort_order is {edges.sort_order!r}; "
                "call EdgeIndex.validate() for details."
            )
    return Graph(num_src, num_dst, src.numel(), _by_dst=by_dst, _by_src=by_src)


def _check_edges(edge_index: Tensor, num_src: int, num_dst: int) -> None:
    _check_range(edge_index[0], num_src, "edge_index[0] (the sources)", "num_src")
    _check_range(edge_index[1], num_dst, "edge_index[1] (the destinations)", "num_dst")


def _check_range(index: Tensor, bound: int, name: str, bound_name: str) -> None:
    if index.numel() == 0:
        return
    low, high = (int(value) for value in torch.aminmax(index))
    if low < 0 or high >= bound:
        wrong = low if low < 0 else high
        raise ValueError(f"{name} contains {wrong}, but must lie in [0, {bound_name} - 1] = [0, {bound - 1}].")


def _compressed(
    ptr: Tensor, index: Tensor, perm: Tensor | None, num_groups: int, node_dtype: torch.dtype, name: str
) -> CompressedEdges:
    """Check the pointers of a compressed format and copy it."""
    if ptr.numel() != num_groups + 1:
        raise ValueError(f"{name} has {ptr.numel()} entries, but {num_groups} groups need {num_groups + 1}.")
    if int(ptr[0]) != 0 or int(ptr[-1]) != index.numel() or bool((ptr[1:] < ptr[:-1]).any()):
        raise ValueError(
            f"{name} must not decrease and must run from 0 to the number of entries, {index.numel()}, "
            f"but it runs from {int(ptr[0])} to {int(ptr[-1])}."
        )
    perm = None if perm is None else perm.to(torch.int64)
    return CompressedEdges(ptr.to(torch.int64), index.to(node_dtype, copy=True).contiguous(), perm)


class _Recent(NamedTuple):
    """The most recent graph: the backward pass, and the next layer, find it without a search in the cache."""

    format: str
    tensor: weakref.ref[Tensor]
    version: int
    address: int
    graph: Graph

    def matches(self, format: str, index: Tensor, columns: Tensor | None, num_src: int, num_dst: int) -> bool:
        return (
            self.tensor() is index
            and columns is None
            and format == self.format
            and num_src == self.graph.num_src
            and num_dst == self.graph.num_dst
            and index._version == self.version
            and index.data_ptr() == self.address
        )


_most_recent: _Recent | None = None


def _forget(tensor: weakref.ref[Tensor]) -> None:
    """Drop the most recent graph if its tensor has been freed."""
    global _most_recent
    if _most_recent is not None and _most_recent.tensor is tensor:
        _most_recent = None


def get_graph(
    format: str,
    index: Tensor,
    columns: Tensor | None,
    num_src: int,
    num_dst: int,
    build: Callable[[], Graph] | None = None,
) -> Graph:
    """Return the graph of these tensors: checked and compressed once, then cached while the tensors do not change.

    Args:
        format: Format of the tensors, see the table above.
        index: First tensor of the format.
        columns: Second tensor of the format ``"csr"``, else ``None``.
        num_src: Number of sources.
        num_dst: Number of destinations.
        build: Builds the graph if the caller has a faster way; called only if the graph is not cached.
    """
    global _most_recent
    recent = _most_recent
    if recent is not None and recent.matches(format, index, columns, num_src, num_dst):
        return recent.graph
    tensors = (index,) if columns is None else (index, columns)
    if format.endswith(VOLATILE):
        format = format.removesuffix(VOLATILE)
        rebuild = partial(_build, format, index, columns, num_src, num_dst)
        return cached_by_content((format, num_src, num_dst), tensors, rebuild)
    make = build or partial(_build, format, index, columns, num_src, num_dst)
    graph = cached_on((format, num_src, num_dst), tensors, make)
    if columns is None and not index.is_inference():
        _most_recent = _Recent(format, weakref.ref(index, _forget), index._version, index.data_ptr(), graph)
    return graph
