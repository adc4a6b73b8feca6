"""A graph as the kernels want it: its edges grouped by destination and by source, checked once and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from tgnn.ops import cpp_build
from tgnn.ops.graph_cache import cached_on, remembered_by_content


@dataclass(frozen=True)
class Grouping:
    """Edges grouped by one end: group ``i`` holds the positions ``ptr[i] .. ptr[i + 1]``."""

    ptr: Tensor
    """int64 ``[groups + 1]``"""
    other: Tensor
    """Node at the far end of each edge, int32 (int64 where a node number needs it)."""
    edge: Tensor | None
    """int64: place of each edge in the caller's order; ``None``: the same place."""

    @property
    def num_groups(self) -> int:
        return self.ptr.numel() - 1

    def owners(self) -> Tensor:
        """The group that each position belongs to."""
        groups = torch.arange(self.num_groups, dtype=self.other.dtype, device=self.ptr.device)
        return groups.repeat_interleave(self.ptr.diff(), output_size=self.other.numel())


@dataclass
class Graph:
    """Edges from ``num_src`` to ``num_dst`` nodes, grouped both ways; the second way is made when first needed."""

    num_src: int
    num_dst: int
    num_edges: int
    _by_dst: Grouping
    _by_src: Grouping | None = None
    matrices: dict[tuple[str, torch.dtype], Tensor] = field(default_factory=dict, repr=False)
    """Adjacency matrices that the torch backend has made of it."""

    def by_dst(self) -> Grouping:
        return self._by_dst

    def by_src(self) -> Grouping:
        if self._by_src is None:  # two threads may both make it; they make the same
            self._by_src = _transpose(self._by_dst, self.num_src)
        return self._by_src


def _transpose(by: Grouping, num_groups: int) -> Grouping:
    """The same edges grouped by their other end, in the order of the caller's edges within a group."""
    if by.edge is None:
        return group(by.other, by.owners(), num_groups, by.other.dtype)
    order = torch.empty_like(by.edge)
    order[by.edge] = torch.arange(by.edge.numel(), device=by.edge.device)
    return group(by.other[order], by.owners()[order], num_groups, by.other.dtype)


def _node_type(*counts: int) -> torch.dtype:
    """What holds the numbers of so many sources, destinations and edges."""
    return torch.int32 if max(counts) < 2**31 else torch.int64


def group(key: Tensor, other: Tensor | None, num_groups: int, node_type: torch.dtype) -> Grouping:
    """Groups edges by ``key``, stably. ``other=None``: the far end of edge ``e`` is ``e`` itself."""
    is_sorted = bool((key[1:] >= key[:-1]).all())
    if not is_sorted and key.device.type == "cpu" and node_type == torch.int32 and (lib := cpp_build.load()):
        return Grouping(*lib.group(key, other, num_groups))
    ptr = torch.zeros(num_groups + 1, dtype=torch.int64, device=key.device)
    torch.cumsum(torch.bincount(key, minlength=num_groups), 0, out=ptr[1:])
    if other is None:
        other = torch.arange(key.numel(), device=key.device)
    if is_sorted:
        return Grouping(ptr, other.to(node_type, copy=True).contiguous(), None)
    edge = torch.sort(key, stable=True).indices
    return Grouping(ptr, other[edge].to(node_type), edge)


# ---- from what callers have -----------------------------------------------------------------------------------
# A layout is a kind and one or two tensors; unlike a Graph it can pass through torch.library.
#
#   kind     index                                                       columns
#   edges    edge_index [2, E]
#   csr      ptr: the entries ptr[i] .. ptr[i + 1] are edges into i      source of each entry (a sparse adj_t)
#   index    [E]: item e belongs to group index[e]
#   ptr      items ptr[i] .. ptr[i + 1] belong to group i
#
# "edges+self" and "csr+self": with a loop at every node that has none, after all edges. "edges!" and so on: the tensors
# may have changed since they were seen last, although nothing says so.

CLOSED, DOUBTFUL = "+self", "!"


def _build(kind: str, index: Tensor, columns: Tensor | None, num_src: int, num_dst: int) -> Graph:
    if kind.endswith(CLOSED):
        if columns is not None:  # the entries of a matrix as edges: they are grouped already, so this sorts nothing
            by = _build("csr", index, columns, num_src, num_dst).by_dst()
            index = torch.stack([by.other, by.owners()])
        _check_edges(index, num_src, num_dst)
        return _build("edges", _closed(index, num_dst), None, num_src, num_dst)
    if kind == "edges":
        _check_edges(index, num_src, num_dst)
        node_type = _node_type(num_src, num_dst, index.size(1))
        return Graph(num_src, num_dst, index.size(1), _by_dst=group(index[1], index[0], num_dst, node_type))
    if kind == "csr":
        assert columns is not None
        _check_range(columns, num_src, "the column indices of adj_t (the sources)", "num_src")
        node_type = _node_type(num_src, num_dst, columns.numel())
        by_dst = _grouping(index.clone(), columns, None, num_dst, node_type, "adj_t")
        return Graph(num_src, num_dst, columns.numel(), _by_dst=by_dst)
    node_type = _node_type(num_src, num_dst)
    if kind == "index":
        _check_range(index, num_dst, "index", "dim_size")
        return Graph(num_src, num_dst, num_src, _by_dst=group(index, None, num_dst, node_type))
    items = torch.arange(num_src, device=index.device)
    by_dst = _grouping(index.clone(), items, None, num_dst, node_type, "ptr")
    return Graph(num_src, num_dst, num_src, _by_dst=by_dst)


def _closed(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The edges, and a loop at every node that has none."""
    src, dst = edge_index
    has_loop = torch.zeros(num_nodes, dtype=torch.bool, device=src.device)
    has_loop[src[src == dst].long()] = True
    loops = (~has_loop).nonzero().squeeze(1).to(src.dtype)
    return torch.cat([edge_index, loops.expand(2, -1)], dim=1)


def from_edge_index(edges: EdgeIndex) -> Graph:
    """The graph of a sorted EdgeIndex of known size, from the two groupings that it has made or makes itself."""
    num_src, num_dst = (int(n) for n in edges.sparse_size() if n is not None)
    _check_edges(edges.as_tensor(), num_src, num_dst)
    (ptr_dst, src), edge_dst = edges.get_csc()
    (ptr_src, dst), edge_src = edges.get_csr()
    node_type = _node_type(num_src, num_dst, src.numel())
    by_dst = _grouping(ptr_dst, src, edge_dst, num_dst, node_type, "EdgeIndex.get_csc()")
    by_src = _grouping(ptr_src, dst, edge_src, num_src, node_type, "EdgeIndex.get_csr()")
    for by, end in ((by_dst, edges.as_tensor()[1]), (by_src, edges.as_tensor()[0])):
        if not torch.equal(by.owners(), (end if by.edge is None else end[by.edge]).to(by.other.dtype)):
            raise ValueError("the EdgeIndex is not sorted as its sort_order says; EdgeIndex.validate() tells more")
    return Graph(num_src, num_dst, src.numel(), _by_dst=by_dst, _by_src=by_src)


def _check_edges(edge_index: Tensor, num_src: int, num_dst: int) -> None:
    _check_range(edge_index[0], num_src, "edge_index[0] (the sources)", "num_src")
    _check_range(edge_index[1], num_dst, "edge_index[1] (the destinations)", "num_dst")


def _check_range(index: Tensor, bound: int, what: str, bound_name: str) -> None:
    if index.numel() == 0:
        return
    low, high = (int(value) for value in torch.aminmax(index))
    if low < 0 or high >= bound:
        wrong = low if low < 0 else high
        raise ValueError(f"{what} contains {wrong}, but must lie in [0, {bound_name} - 1] = [0, {bound - 1}]")


def _grouping(
    ptr: Tensor, other: Tensor, edge: Tensor | None, num_groups: int, node_type: torch.dtype, what: str
) -> Grouping:
    if ptr.numel() != num_groups + 1:
        raise ValueError(f"the pointer of {what} has {ptr.numel()} entries, but {num_groups} groups need one more")
    if int(ptr[0]) != 0 or int(ptr[-1]) != other.numel() or bool((ptr[1:] < ptr[:-1]).any()):
        raise ValueError(
            f"the pointer of {what} must rise from 0 to the number of entries, {other.numel()}, and never fall; "
            f"it runs from {int(ptr[0])} to {int(ptr[-1])}"
        )
    place = None if edge is None else edge.to(torch.int64)
    return Grouping(ptr.to(torch.int64), other.to(node_type, copy=True).contiguous(), place)


def graph_of(
    kind: str,
    index: Tensor,
    columns: Tensor | None,
    num_src: int,
    num_dst: int,
    build: Callable[[], Graph] | None = None,
) -> Graph:
    """The graph of a layout: checked and grouped once, then found again while its tensors live unchanged.

    ``build`` makes the graph where the caller knows a quicker way.
    """
    tensors = (index,) if columns is None else (index, columns)
    if kind.endswith(DOUBTFUL):
        sure = kind.removesuffix(DOUBTFUL)
        anew = partial(_build, sure, index, columns, num_src, num_dst)
        return remembered_by_content((sure, num_src, num_dst), tensors, anew)
    make = build or partial(_build, kind, index, columns, num_src, num_dst)
    return cached_on((kind, num_src, num_dst), tensors, make)
