"""Backend ``torch``: no code of our own to compile, on any device torch has.

A product is a sum of logarithms, and a sum over neighbours is a sparse matrix product: log2 |z| in float64, and the
number of negative factors for the sign. Rows that this cannot serve (see :class:`~.problem.Saved`), and factors that
differ from edge to edge, are taken edge by edge, in blocks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from .graph import Graph, Grouping
from .problem import Gradients, Problem, Saved, Wanted, saved_scale
from .reference import finite

name = "torch"

_BLOCK = 2**23  # numbers in a block of edges x columns


def unavailable() -> str | None:
    return None


def unsupported(problem: Problem) -> str | None:
    return None


def forward(problem: Problem, save: bool) -> tuple[Tensor, Saved | None]:
    if problem.has_edge_terms:
        logs, negative, zeros = _edgewise_products(problem)
        logs.masked_fill_(zeros > 0, -math.inf)
    else:
        logs, negative = _products(problem)
    odd = negative.remainder_(2)
    product = logs.exp2_().mul_(odd.mul_(-2).add_(1))
    if not save:
        return _activated(product, problem)[0], None
    out, state = _activated(product, problem)
    least = _least_factor(problem)
    rows = torch.full((problem.graph.num_dst,), least, dtype=state.dtype, device=state.device)
    if not problem.tanh or least * saved_scale(problem.tanh, state.dtype) < 1:
        size = state.abs()
        info = torch.finfo(state.dtype)
        rows.masked_fill_(((size < info.tiny) | (size > info.max)).any(1), 0)
    return out, Saved(state, rows)


def backward(problem: Problem, grad: Tensor, saved: Saved, wanted: Wanted) -> Gradients:
    if problem.has_edge_terms:
        return _edgewise_gradients(problem, grad, wanted, None)
    q = grad * saved.state
    wide = saved.least == 0
    info = torch.finfo(q.dtype)
    if problem.graph.num_dst:
        if not float(q.abs().max()) <= info.max:
            wide |= ~(q.abs() <= info.max).all(1)
        if float(saved.least.min()) * saved_scale(problem.tanh, q.dtype) < 1:
            wide |= ((q.abs() < info.tiny) & (grad != 0) & (saved.state != 0)).any(1)
    any_wide = bool(wide.any())
    if any_wide:
        q.masked_fill_(wide.unsqueeze(1), 0)
    total = _matrix(problem.graph, "src", torch.float64) @ q.double()
    total.div_(problem.z).div_(saved_scale(problem.tanh, q.dtype))
    if any_wide or saved.least.numel() == 0 or float(saved.least.min()) == 0:
        total.masked_fill_(problem.z == 0, 0)
    if any_wide:
        extra = _edgewise_gradients(problem, grad, wanted, wide).z
        assert extra is not None
        total += extra
    return Gradients(finite(total, problem.z.dtype).to(problem.z.dtype), None, None)


def _activated(product: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    """``act(P)`` and the state ``S``, scaled; ``product`` is float64 and is used up."""
    dtype = problem.z.dtype
    if not problem.tanh:
        return product.to(dtype), product.to(dtype, copy=True)
    out = torch.tanh(product).to(dtype)
    slope = torch.cosh(product).pow_(-2).mul_(saved_scale(True, dtype))
    return out, slope.mul_(finite(product)).to(dtype)


def _least_factor(problem: Problem) -> float:
    if problem.has_edge_terms or problem.z.numel() == 0:
        return 0.0
    return float(problem.z.abs().min().nan_to_num(0.0))


# ---- by sparse matrix products -------------------------------------------------------------------------------


def _products(problem: Problem) -> tuple[Tensor, Tensor]:
    """log2 |P|, and the number of negative factors."""
    logs = _matrix(problem.graph, "dst", torch.float64) @ problem.z.abs().double().log2_()
    counts = torch.float32 if problem.graph.num_edges < 2**24 else torch.float64  # counts must be exact
    negative = _matrix(problem.graph, "dst", counts) @ (problem.z < 0).to(counts)
    return logs, negative


def _matrix(graph: Graph, by: str, dtype: torch.dtype) -> Tensor:
    """The adjacency matrix that sums over a group's far ends, of ones; kept with the graph."""
    key = (by, dtype)
    if key not in graph.matrices:
        grouping = graph.by_dst() if by == "dst" else graph.by_src()
        shape = (graph.num_dst, graph.num_src) if by == "dst" else (graph.num_src, graph.num_dst)
        values = torch.ones(graph.num_edges, dtype=dtype, device=grouping.ptr.device)
        with warnings.catch_warnings():  # torch says once that sparse CSR is in beta
            warnings.simplefilter("ignore", UserWarning)
            graph.matrices[key] = torch.sparse_csr_tensor(
                grouping.ptr.to(grouping.other.dtype), grouping.other, values, shape, check_invariants=False
            )
    return graph.matrices[key]


# ---- edge by edge --------------------------------------------------------------------------------------------


def _blocks(by: Grouping, rank: int, groups: Tensor | None) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """Blocks of whole groups (all, or those listed) and of columns: the groups, their edges' places, the columns."""
    if groups is None:
        groups = torch.arange(by.num_groups, device=by.ptr.device)
    degree = by.ptr.diff()[groups]
    if groups.numel() == 0:
        return
    width = min(rank, max(1, _BLOCK // max(1, int(degree.max()))))
    edges_per_block = max(1, _BLOCK // width)
    block = (degree.cumsum(0) - 1).clamp(min=0) // edges_per_block
    for members in torch.split(groups, torch.unique_consecutive(block, return_counts=True)[1].tolist()):
        sizes = by.ptr.diff()[members]
        within = torch.arange(int(sizes.sum()), device=members.device)
        places = within + (by.ptr[members] - (sizes.cumsum(0) - sizes)).repeat_interleave(sizes)
        for column in range(0, rank, width):
            yield members, places, slice(column, min(rank, column + width))


def _edge_factors(problem: Problem, sources: Tensor, edges: Tensor, columns: slice) -> tuple[Tensor, Tensor]:
    """The factors f of some edges, and z + y."""
    own = problem.z[sources, columns].double()
    if problem.addend is not None:
        own = own + problem.addend[edges, columns].double()
    if problem.weight is None:
        return own, own
    w = problem.weight[edges].double().unsqueeze(1)
    return w * own + (1 - w), own


def _sum_groups(values: Tensor, sizes: Tensor) -> Tensor:
    return torch.segment_reduce(values, "sum", lengths=sizes, axis=0, initial=0.0, unsafe=True)


def _edgewise_products(problem: Problem, rows: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Of every destination (or of those listed): log2 of the product of factors that are not zero, the number of
    negative ones, the number of zeros."""
    by = problem.graph.by_dst()
    count = problem.graph.num_dst
    logs, negative, zeros = (problem.z.new_zeros(count, problem.rank, dtype=torch.float64) for _ in range(3))
    for members, places, columns in _blocks(by, problem.rank, rows):
        edges = places if by.edge is None else by.edge[places]
        f, _ = _edge_factors(problem, by.other[places].long(), edges, columns)
        sizes = by.ptr.diff()[members]
        is_zero = f == 0
        logs[members, columns] = _sum_groups(f.abs().masked_fill_(is_zero, 1).log2_(), sizes)
        negative[members, columns] = _sum_groups((f < 0).double(), sizes)
        zeros[members, columns] = _sum_groups(is_zero.double(), sizes)
    return logs, negative, zeros


def _edgewise_gradients(problem: Problem, grad: Tensor, wanted: Wanted, only: Tensor | None) -> Gradients:
    """Gradients through all destinations, or through those where the mask ``only`` is true (float64, of z alone)."""
    rows = None if only is None else only.nonzero().squeeze(1)
    logs, negative, zeros = _edgewise_products(problem, rows)
    sign = 1 - 2 * negative.remainder(2)
    outer = grad.double() * sign
    if problem.tanh:
        product = torch.exp2(logs).masked_fill_(zeros > 0, 0)
        outer = outer * torch.cosh(product).pow_(-2)
    by, dtype = problem.graph.by_src(), problem.z.dtype
    total = torch.zeros_like(problem.z, dtype=torch.float64)
    grad_addend = None if problem.addend is None else torch.zeros_like(problem.addend)
    grad_weight = None if problem.weight is None else torch.zeros_like(problem.weight, dtype=torch.float64)
    for members, places, columns in _blocks(by, problem.rank, None):
        sizes, target = by.ptr.diff()[members], by.other[places].long()
        sources = members.repeat_interleave(sizes)
        edges = places if by.edge is None else by.edge[places]
        f, own = _edge_factors(problem, sources, edges, columns)
        is_zero = f == 0
        others = logs[target, columns] - f.abs().masked_fill_(is_zero, 1).log2_()  # log2 |product of the others|
        d = outer[target, columns]
        d = torch.where(d == 0, d, d * torch.exp2(others)) * torch.where(f < 0, -1.0, 1.0)
        d = finite(d).masked_fill_(zeros[target, columns] != is_zero.double(), 0)
        if only is not None:
            d.masked_fill_(~only[target].unsqueeze(1), 0)
        if grad_weight is not None:
            grad_weight[edges] += finite(d * (own - 1)).sum(1)
        if problem.weight is not None:
            d = d * problem.weight[edges].double().unsqueeze(1)
        if grad_addend is not None:
            grad_addend[edges, columns] = finite(d, dtype).to(dtype)
        total[members, columns] = _sum_groups(d, sizes)
    if only is not None:
        return Gradients(total, None, None)
    weight = None if grad_weight is None else finite(grad_weight, dtype).to(dtype)
    return Gradients(finite(total, dtype).to(dtype), grad_addend, weight)
