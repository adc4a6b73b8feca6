"""Backend ``torch``: no code of our own to compile, on any device torch has.

A product is a sum of logarithms, and a sum over neighbours is a sparse matrix product: log2 |z| in float64, and the
number of negative factors for the sign. Rows that this cannot serve (see :class:`~.problem.Saved`), and factors that
differ from edge to edge, are taken edge by edge, in blocks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.ops.backend_reference import finite
from tgnn.ops.graph import Graph, Grouping
from tgnn.ops.problem import LARGEST_GRAD, Gradients, Problem, Saved, Wanted, saved_scale

name = "torch"

_BLOCK = 2**23  # numbers in a block of edges x columns
_SATURATED = 10.0  # log2 of a product beyond which tanh is 1 and its slope 0 in float64


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
    if problem.tanh:
        logs.clamp_(max=_SATURATED)
    product = logs.exp2_().mul_(_sign(negative))
    dtype = problem.z.dtype
    out = torch.tanh(product.to(dtype)) if problem.tanh else product.to(dtype)
    if not save:
        return out, None
    if problem.tanh:  # S = P * 4 e / (1 + e)^2 with e = exp(-2 |P|)
        decay = product.abs().mul_(-2).exp_()
        product.mul_(decay).mul_(4 * saved_scale(True, dtype)).div_(decay.add_(1).square_())
    state = product.to(dtype, copy=True)
    least = _least_factors(problem)
    # A row whose factors are not minute loses nothing that a gradient of ordinary size could bring back.
    doubtful = (least < LARGEST_GRAD / saved_scale(True, dtype)) | (not problem.tanh)
    rows = doubtful.nonzero().squeeze(1)
    if rows.numel():
        size = state[rows].abs()
        lost = (size < torch.finfo(dtype).tiny) | (size > torch.finfo(dtype).max)
        least[rows[lost.any(1)]] = 0
    return out, Saved(state, least)


def backward(problem: Problem, grad: Tensor, saved: Saved, wanted: Wanted) -> Gradients:
    if problem.has_edge_terms:
        return _rounded(_edgewise_gradients(problem, grad), problem.z.dtype)
    scale, info = saved_scale(problem.tanh, problem.z.dtype), torch.finfo(problem.z.dtype)
    q = grad * saved.state
    wide = saved.least == 0
    if q.numel() and not float(q.abs().max()) <= info.max:
        wide |= ~(q.abs() <= info.max).all(1)
    if q.numel() and float(torch.linalg.vector_norm(grad, math.inf)) > LARGEST_GRAD:
        wide |= (grad.abs() > LARGEST_GRAD).any(1)
    rows = (saved.least * scale < 1).nonzero().squeeze(1)
    if rows.numel():
        wide[rows] |= ((q[rows].abs() < info.tiny) & (grad[rows] != 0) & (saved.state[rows] != 0)).any(1)
    rows = wide.nonzero().squeeze(1)
    q[rows] = 0
    total = _sum(problem.graph, "src", q).double()
    if not math.isfinite(float(total.sum())):  # rather look twice than at every number
        total = _sum(problem.graph, "src", q.double())
    total.div_(problem.z).div_(scale).masked_fill_(problem.z == 0, 0)  # every row with a zero factor is wide
    if rows.numel():
        part, sources = _part_into(problem, rows)
        extra = _edgewise_gradients(part, grad[rows]).z
        assert extra is not None
        total[sources] += extra
    return _rounded(Gradients(total, None, None), problem.z.dtype)


def sum(problem: Problem, transposed: bool) -> Tensor:
    graph, by = problem.graph, "src" if transposed else "dst"
    if problem.weight is None:
        return _sum(graph, by, problem.z)
    grouping = graph.by_src() if transposed else graph.by_dst()
    weight = problem.weight if grouping.edge is None else problem.weight[grouping.edge]
    return _matmul(_with_values(graph, by, weight), problem.z)


def _sign(negative: Tensor) -> Tensor:
    """-1 where the number of negative factors is odd, else 1; the argument is used up."""
    return negative.mul_(0.5).frac_().mul_(-4).add_(1)


def _rounded(gradients: Gradients, dtype: torch.dtype) -> Gradients:
    return Gradients(*(None if g is None else finite(g, dtype).to(dtype) for g in gradients))


def _least_factors(problem: Problem) -> Tensor:
    """Smallest |f| of every row."""
    by = problem.graph.by_dst()
    if problem.has_edge_terms or problem.rank == 0:
        return problem.z.new_zeros(by.num_groups)
    of_sources = problem.z.abs().amin(1)
    return torch.segment_reduce(
        of_sources[by.other], "min", lengths=by.ptr.diff(), initial=torch.finfo(problem.z.dtype).max, unsafe=True
    )


# ---- by sparse matrix products -------------------------------------------------------------------------------


def _products(problem: Problem) -> tuple[Tensor, Tensor]:
    """log2 |P|, and the number of negative factors."""
    logs = _sum(problem.graph, "dst", problem.z.abs().double().log2_())
    counts = torch.float32 if problem.graph.num_edges < 2**24 else torch.float64  # counts must be exact
    negative = _sum(problem.graph, "dst", (problem.z < 0).to(counts))
    return logs, negative


def _sum(graph: Graph, by: str, x: Tensor) -> Tensor:
    """Sums the rows of x over each group. The matrix of ones that does it is kept with the graph."""
    key = (by, x.dtype)
    if key not in graph.matrices:
        graph.matrices[key] = _with_values(graph, by, torch.ones(graph.num_edges, dtype=x.dtype, device=x.device))
    return _matmul(graph.matrices[key], x)


def _matmul(matrix: Tensor, x: Tensor) -> Tensor:
    out = x.new_empty(matrix.size(0), x.size(1))
    return torch.addmm(out, matrix, x, beta=0, out=out)  # unlike @, it does not fill the result with zeros first


def _with_values(graph: Graph, by: str, values: Tensor) -> Tensor:
    """The adjacency matrix that sums over a group's far ends."""
    grouping = graph.by_dst() if by == "dst" else graph.by_src()
    shape = (graph.num_dst, graph.num_src) if by == "dst" else (graph.num_src, graph.num_dst)
    with warnings.catch_warnings():  # torch says once that sparse CSR is in beta
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            grouping.ptr.to(grouping.other.dtype), grouping.other, values, shape, check_invariants=False
        )


# ---- edge by edge --------------------------------------------------------------------------------------------


class _Block(NamedTuple):
    groups: slice
    columns: slice
    sizes: Tensor
    """Edges of each group."""
    other: Tensor
    """Far end of each edge."""
    edges: Tensor
    """Place of each edge in the caller's order."""


def _blocks(by: Grouping, rank: int) -> Iterator[_Block]:
    """A grouping in blocks of whole groups and of columns, each of about ``_BLOCK`` numbers."""
    largest = int(by.ptr.diff().max()) if by.num_groups else 0
    width = min(rank, max(1, _BLOCK // max(1, largest)))
    first = 0
    while first < by.num_groups and width:
        most = by.ptr[first] + _BLOCK // width
        last = max(first + 1, int(torch.searchsorted(by.ptr, most, right=True)) - 1)
        places = slice(int(by.ptr[first]), int(by.ptr[last]))
        edges = torch.arange(places.start, places.stop, device=by.ptr.device) if by.edge is None else by.edge[places]
        for column in range(0, rank, width):
            columns = slice(column, min(rank, column + width))
            sizes = by.ptr[first : last + 1].diff()
            yield _Block(slice(first, last), columns, sizes, by.other[places].long(), edges)
        first = last


def _part_into(problem: Problem, rows: Tensor) -> tuple[Problem, Tensor]:
    """The problem of some destinations alone, without edge terms; and which sources it has."""
    by = problem.graph.by_dst()
    sizes = by.ptr.diff()[rows]
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    places = torch.arange(int(ptr[-1]), device=ptr.device) + (by.ptr[rows] - ptr[:-1]).repeat_interleave(sizes)
    sources, other = torch.unique(by.other[places], return_inverse=True)
    sources = sources.long()
    graph = Graph(sources.numel(), rows.numel(), places.numel(), Grouping(ptr, other.to(by.other.dtype), None))
    return Problem(problem.z[sources], None, None, graph, problem.tanh), sources


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


def _edgewise_products(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """log2 |product of the factors that are not zero|, and the numbers of negative factors and of zeros."""
    by = problem.graph.by_dst()
    shape = (by.num_groups, problem.rank)
    logs, negative, zeros = (problem.z.new_zeros(shape, dtype=torch.float64) for _ in range(3))
    for block in _blocks(by, problem.rank):
        f, _ = _edge_factors(problem, block.other, block.edges, block.columns)
        is_zero = f == 0
        part = block.groups, block.columns
        logs[part] = _sum_groups(f.abs().masked_fill_(is_zero, 1).log2_(), block.sizes)
        negative[part] = _sum_groups((f < 0).double(), block.sizes)
        zeros[part] = _sum_groups(is_zero.double(), block.sizes)
    return logs, negative, zeros


def _edgewise_gradients(problem: Problem, grad: Tensor) -> Gradients:
    """Gradients in float64, each factor's from the product of the others."""
    logs, negative, zeros = _edgewise_products(problem)
    outer = grad.double() * _sign(negative)
    if problem.tanh:
        outer = outer * torch.cosh(torch.exp2(logs).masked_fill_(zeros > 0, 0)).pow_(-2)
    by = problem.graph.by_src()
    grad_z, grad_addend, grad_weight = (
        None if t is None else torch.zeros_like(t, dtype=torch.float64)
        for t in (problem.z, problem.addend, problem.weight)
    )
    assert grad_z is not None
    for block in _blocks(by, problem.rank):
        sources = torch.arange(block.groups.start, block.groups.stop, device=by.ptr.device)
        f, own = _edge_factors(problem, sources.repeat_interleave(block.sizes), block.edges, block.columns)
        is_zero = f == 0
        there = block.other, block.columns
        others = logs[there] - f.abs().masked_fill_(is_zero, 1).log2_()  # log2 |product of the others|
        d = outer[there]
        d = torch.where(d == 0, d, d * torch.exp2(others)) * torch.where(f < 0, -1.0, 1.0)
        d = finite(d).masked_fill_(zeros[there] != is_zero.double(), 0)
        if grad_weight is not None and problem.weight is not None:
            grad_weight[block.edges] += finite(d * (own - 1)).sum(1)
            d = d * problem.weight[block.edges].double().unsqueeze(1)
        if grad_addend is not None:
            grad_addend[block.edges, block.columns] = d
        grad_z[block.groups, block.columns] = _sum_groups(d, block.sizes)
    return Gradients(grad_z, grad_addend, grad_weight)
