"""Backend ``torch``: only torch operations, nothing to compile, on every device of torch.

The logarithm of a product is a sum over neighbors, and such a sum is a sparse matrix product. So ``log2 |z|`` is summed
in float64, and the number of negative factors gives the sign. Wide rows (see :class:`~.operands.Saved`) and factors
that differ from edge to edge are computed edge by edge, in blocks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.ops.backend_reference import clamp_to_finite
from tgnn.ops.graph import CompressedEdges, Graph
from tgnn.ops.operands import LARGEST_GRAD, Gradients, NeedsGrad, Operands, Saved, saved_scale

name = "torch"

_BLOCK = 2**23  # entries of a block of edges x columns
_SATURATED = 10.0  # log2 of the product above which tanh is 1 and its slope is 0 in float64


def unavailable() -> str | None:
    return None


def unsupported(operands: Operands) -> str | None:
    return None


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    if operands.has_edge_terms:
        logs, negative, zeros = _edgewise_products(operands)
        logs.masked_fill_(zeros > 0, -math.inf)
    else:
        logs, negative = _products(operands)
    if operands.tanh:
        logs.clamp_(max=_SATURATED)
    product = logs.exp2_().mul_(_sign(negative))
    dtype = operands.z.dtype
    out = torch.tanh(product.to(dtype)) if operands.tanh else product.to(dtype)
    if not save:
        return out, None
    if operands.tanh:  # S = P * 4 e / (1 + e)^2 with e = exp(-2 |P|)
        decay = product.abs().mul_(-2).exp_()
        product.mul_(decay).mul_(4 * saved_scale(True, dtype)).div_(decay.add_(1).square_())
    state = product.to(dtype, copy=True)
    min_factor = _min_factors(operands)
    # If no factor of a row is tiny, its state cannot underflow for gradients up to LARGEST_GRAD.
    may_underflow = (min_factor < LARGEST_GRAD / saved_scale(True, dtype)) | (not operands.tanh)
    rows = may_underflow.nonzero().squeeze(1)
    if rows.numel():
        size = state[rows].abs()
        lost = (size < torch.finfo(dtype).tiny) | (size > torch.finfo(dtype).max)
        min_factor[rows[lost.any(1)]] = 0
    return out, Saved(state, min_factor)


def backward(operands: Operands, grad: Tensor, saved: Saved, needs_grad: NeedsGrad) -> Gradients:
    if operands.has_edge_terms:
        return _rounded(_edgewise_gradients(operands, grad), operands.z.dtype)
    scale, info = saved_scale(operands.tanh, operands.z.dtype), torch.finfo(operands.z.dtype)
    q = grad * saved.state
    wide = saved.min_factor == 0
    if q.numel() and not float(q.abs().max()) <= info.max:
        wide |= ~(q.abs() <= info.max).all(1)
    if q.numel() and float(torch.linalg.vector_norm(grad, math.inf)) > LARGEST_GRAD:
        wide |= (grad.abs() > LARGEST_GRAD).any(1)
    rows = (saved.min_factor * scale < 1).nonzero().squeeze(1)
    if rows.numel():
        wide[rows] |= ((q[rows].abs() < info.tiny) & (grad[rows] != 0) & (saved.state[rows] != 0)).any(1)
    rows = wide.nonzero().squeeze(1)
    q[rows] = 0
    total = _sum(operands.graph, "src", q).double()
    if not math.isfinite(float(total.sum())):  # one sum is cheaper than a test of every entry
        total = _sum(operands.graph, "src", q.double())
    total.div_(operands.z).div_(scale).masked_fill_(operands.z == 0, 0)  # rows with a zero factor are wide, see below
    if rows.numel():
        part, sources = _restrict_to(operands, rows)
        extra = _edgewise_gradients(part, grad[rows]).z
        assert extra is not None
        total[sources] += extra
    return _rounded(Gradients(total, None, None), operands.z.dtype)


def sum(operands: Operands, transposed: bool) -> Tensor:
    graph, by = operands.graph, "src" if transposed else "dst"
    if operands.weight is None:
        return _sum(graph, by, operands.z)
    edges = graph.by_src() if transposed else graph.by_dst()
    weight = operands.weight if edges.perm is None else operands.weight[edges.perm]
    return _sparse_matmul(_adjacency(graph, by, weight), operands.z)


def _sign(negative: Tensor) -> Tensor:
    """Return -1 where the number of negative factors is odd, else 1. Overwrites its argument."""
    return negative.mul_(0.5).frac_().mul_(-4).add_(1)


def _rounded(gradients: Gradients, dtype: torch.dtype) -> Gradients:
    return Gradients(*(None if g is None else clamp_to_finite(g, dtype).to(dtype) for g in gradients))


def _min_factors(operands: Operands) -> Tensor:
    """Return the smallest ``|f|`` of every row."""
    in_edges = operands.graph.by_dst()
    if operands.has_edge_terms or operands.rank == 0:
        return operands.z.new_zeros(in_edges.num_groups)
    of_sources = operands.z.abs().amin(1)[in_edges.index]
    largest = torch.finfo(operands.z.dtype).max
    return torch.segment_reduce(of_sources, "min", lengths=in_edges.ptr.diff(), initial=largest, unsafe=True)


# ---- by sparse matrix products -------------------------------------------------------------------------------


def _products(operands: Operands) -> tuple[Tensor, Tensor]:
    """Return ``log2 |P|`` and the number of negative factors."""
    logs = _sum(operands.graph, "dst", operands.z.abs().double().log2_())
    counts = torch.float32 if operands.graph.num_edges < 2**24 else torch.float64  # counts must be exact
    negative = _sum(operands.graph, "dst", (operands.z < 0).to(counts))
    return logs, negative


def _sum(graph: Graph, by: str, x: Tensor) -> Tensor:
    """Sum the rows of ``x`` over each group. The adjacency matrix is cached in the graph."""
    key = (by, x.dtype)
    if key not in graph.matrices:
        graph.matrices[key] = _adjacency(graph, by, torch.ones(graph.num_edges, dtype=x.dtype, device=x.device))
    return _sparse_matmul(graph.matrices[key], x)


def _sparse_matmul(matrix: Tensor, x: Tensor) -> Tensor:
    out = x.new_empty(matrix.size(0), x.size(1))
    return torch.addmm(out, matrix, x, beta=0, out=out)  # unlike @, it does not first fill the result with zeros


def _adjacency(graph: Graph, by: str, values: Tensor) -> Tensor:
    """Return the sparse adjacency matrix with these values."""
    edges = graph.by_dst() if by == "dst" else graph.by_src()
    shape = (graph.num_dst, graph.num_src) if by == "dst" else (graph.num_src, graph.num_dst)
    with warnings.catch_warnings():  # torch warns that sparse CSR is in beta
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            edges.ptr.to(edges.index.dtype), edges.index, values, shape, check_invariants=False
        )


# ---- edge by edge --------------------------------------------------------------------------------------------


class _Block(NamedTuple):
    groups: slice
    columns: slice
    sizes: Tensor
    """Number of edges of each group."""
    nodes: Tensor
    """Node at the other endpoint of each edge."""
    positions: Tensor
    """Position of each edge in the caller's order."""


def _blocks(edges: CompressedEdges, rank: int) -> Iterator[_Block]:
    """Split edges x columns into blocks of whole groups with about ``_BLOCK`` entries each."""
    largest = int(edges.ptr.diff().max()) if edges.num_groups else 0
    width = min(rank, max(1, _BLOCK // max(1, largest)))
    first = 0
    while first < edges.num_groups and width:
        end = edges.ptr[first] + _BLOCK // width
        last = max(first + 1, int(torch.searchsorted(edges.ptr, end, right=True)) - 1)
        part = slice(int(edges.ptr[first]), int(edges.ptr[last]))
        if edges.perm is None:
            positions = torch.arange(part.start, part.stop, device=edges.ptr.device)
        else:
            positions = edges.perm[part]
        for column in range(0, rank, width):
            columns = slice(column, min(rank, column + width))
            sizes = edges.ptr[first : last + 1].diff()
            yield _Block(slice(first, last), columns, sizes, edges.index[part].long(), positions)
        first = last


def _restrict_to(operands: Operands, rows: Tensor) -> tuple[Operands, Tensor]:
    """Return the operands of some destinations only, without edge terms, and the sources of their edges."""
    in_edges = operands.graph.by_dst()
    sizes = in_edges.ptr.diff()[rows]
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    shift = (in_edges.ptr[rows] - ptr[:-1]).repeat_interleave(sizes)
    positions = torch.arange(int(ptr[-1]), device=ptr.device) + shift
    sources, index = torch.unique(in_edges.index[positions], return_inverse=True)
    sources = sources.long()
    part = CompressedEdges(ptr, index.to(in_edges.index.dtype), None)
    graph = Graph(sources.numel(), rows.numel(), positions.numel(), part)
    return Operands(operands.z[sources], None, None, graph, operands.tanh), sources


def _edge_factors(operands: Operands, sources: Tensor, edges: Tensor, columns: slice) -> tuple[Tensor, Tensor]:
    """Return the factors ``f`` of some edges, and ``z + y``."""
    own = operands.z[sources, columns].double()
    if operands.addend is not None:
        own = own + operands.addend[edges, columns].double()
    if operands.weight is None:
        return own, own
    w = operands.weight[edges].double().unsqueeze(1)
    return w * own + (1 - w), own


def _sum_groups(values: Tensor, sizes: Tensor) -> Tensor:
    return torch.segment_reduce(values, "sum", lengths=sizes, axis=0, initial=0.0, unsafe=True)


def _edgewise_products(operands: Operands) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``log2 |P|`` over the nonzero factors, the number of negative factors and the number of zeros."""
    in_edges = operands.graph.by_dst()
    shape = (in_edges.num_groups, operands.rank)
    logs, negative, zeros = (operands.z.new_zeros(shape, dtype=torch.float64) for _ in range(3))
    for block in _blocks(in_edges, operands.rank):
        f, _ = _edge_factors(operands, block.nodes, block.positions, block.columns)
        is_zero = f == 0
        part = block.groups, block.columns
        logs[part] = _sum_groups(f.abs().masked_fill_(is_zero, 1).log2_(), block.sizes)
        negative[part] = _sum_groups((f < 0).double(), block.sizes)
        zeros[part] = _sum_groups(is_zero.double(), block.sizes)
    return logs, negative, zeros


def _edgewise_gradients(operands: Operands, grad: Tensor) -> Gradients:
    """Compute the gradients in float64 by exclusive products, as ``backend_reference.backward`` defines them.

    A factor that is the only zero of its row gets the product of the others. In all other cases a zero in the row makes
    the gradient 0.
    """
    logs, negative, zeros = _edgewise_products(operands)
    outer = grad.double() * _sign(negative)
    if operands.tanh:
        outer = outer * torch.cosh(torch.exp2(logs).masked_fill_(zeros > 0, 0)).pow_(-2)
    out_edges = operands.graph.by_src()
    grad_z, grad_addend, grad_weight = (
        None if t is None else torch.zeros_like(t, dtype=torch.float64)
        for t in (operands.z, operands.addend, operands.weight)
    )
    assert grad_z is not None
    for block in _blocks(out_edges, operands.rank):
        sources = torch.arange(block.groups.start, block.groups.stop, device=out_edges.ptr.device)
        sources = sources.repeat_interleave(block.sizes)
        f, own = _edge_factors(operands, sources, block.positions, block.columns)
        is_zero = f == 0
        destinations = block.nodes, block.columns
        others = logs[destinations] - f.abs().masked_fill_(is_zero, 1).log2_()  # log2 |exclusive product|
        d = outer[destinations]
        d = torch.where(d == 0, d, d * torch.exp2(others)) * torch.where(f < 0, -1.0, 1.0)
        d = clamp_to_finite(d).masked_fill_(zeros[destinations] != is_zero.double(), 0)
        if grad_weight is not None and operands.weight is not None:
            grad_weight[block.positions] += clamp_to_finite(d * (own - 1)).sum(1)
            d = d * operands.weight[block.positions].double().unsqueeze(1)
        if grad_addend is not None:
            grad_addend[block.positions, block.columns] = d
        grad_z[block.groups, block.columns] = _sum_groups(d, block.sizes)
    return Gradients(grad_z, grad_addend, grad_weight)
