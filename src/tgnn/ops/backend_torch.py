"""Backend ``torch``: only torch operations, nothing to compile, on every device of torch.

Plain products in float32: the logarithm of a product is a sum over neighbors, and such a sum is a sparse matrix
product. So ``log2 |z|`` is summed in float64, and the number of negative factors gives the sign. All other products,
and wide rows (see :class:`~.operands.Saved`), are multiplied by a :class:`~.product_tree.ProductTree`, in blocks of
columns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tgnn.ops.backend_reference import (
    EdgeGradients,
    as_edge_product,
    chain_rule,
    edge_factors,
    gate_arguments,
    nothing_saved,
    slope_of_result,
)
from tgnn.ops.graph import CompressedEdges, Graph
from tgnn.ops.operands import LARGEST_GRAD, EdgeProduct, EdgeTerms, GatedSum, Operands, Saved, saved_scale
from tgnn.ops.product_tree import ProductTree
from tgnn.ops.scaled import Dual, Scaled, clamp_to_finite, pointwise

name = "torch"

_BLOCK = 2**22  # entries of a block of edges x columns
_SATURATED = 10.0  # log2 of the product above which tanh is 1 and its slope is 0 in float64


def unavailable() -> str | None:
    return None


def unsupported(x: Tensor, graph: Graph) -> str | None:
    return None


# ---- plain and weighted factors --------------------------------------------------------------------------------


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    dtype = operands.z.dtype
    if dtype == torch.float64 or operands.weight is not None:  # a sum of logarithms is less accurate than float64
        out = edge_product(as_edge_product(operands))
        return out, nothing_saved(out) if save else None
    logs, negative = _products(operands)
    powers = as_edge_product(operands).powers() if operands.exponent else None
    if powers is not None:
        logs.mul_(powers)
    if operands.tanh:
        logs.clamp_(max=_SATURATED)
    product = logs.exp2_().mul_(_sign(negative))
    out = torch.tanh(product.to(dtype)) if operands.tanh else product.to(dtype)
    if not save:
        return out, None
    if operands.tanh:  # S = P * 4 e / (1 + e)^2 with e = exp(-2 |P|)
        decay = product.abs().mul_(-2).exp_()
        product.mul_(decay).mul_(4 * saved_scale(True, dtype)).div_(decay.add_(1).square_())
    if powers is not None:
        product.mul_(powers)
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


def backward(
    operands: Operands, grad: Tensor, saved: Saved, needs_grad: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    if operands.z.dtype == torch.float64 or operands.weight is not None:
        gradients = edge_product_backward(as_edge_product(operands), grad, None)
        return gradients["src"], gradients.get("gate")
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
    # Rows with a zero or a NaN among their factors are wide, see below.
    total.div_(operands.z).div_(scale).masked_fill_((operands.z.abs() > 0).logical_not_(), 0)
    if rows.numel():
        part, sources = _restrict_to(operands, rows)
        total[sources] += edge_product_backward(as_edge_product(part), grad[rows], None)["src"]
    return total, None


def _sign(negative: Tensor) -> Tensor:
    """Return -1 where the number of negative factors is odd, else 1. Overwrites its argument."""
    return negative.mul_(0.5).frac_().mul_(-4).add_(1)


def _min_factors(operands: Operands) -> Tensor:
    """Return the smallest ``|z|`` of every row."""
    in_edges = operands.graph.by_dst()
    if operands.rank == 0:
        return operands.z.new_zeros(in_edges.num_groups)
    of_sources = operands.z.abs().amin(1)[in_edges.index]
    largest = torch.finfo(operands.z.dtype).max
    return torch.segment_reduce(of_sources, "min", lengths=in_edges.ptr.diff(), initial=largest, unsafe=True)


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


def _restrict_to(operands: Operands, rows: Tensor) -> tuple[Operands, Tensor]:
    """Return the operands of some destinations only, and the sources of their edges."""
    in_edges = operands.graph.by_dst()
    sizes = in_edges.ptr.diff()[rows]
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    shift = (in_edges.ptr[rows] - ptr[:-1]).repeat_interleave(sizes)
    positions = torch.arange(int(ptr[-1]), device=ptr.device) + shift
    sources, index = torch.unique(in_edges.index[positions], return_inverse=True)
    sources = sources.long()
    part = CompressedEdges(ptr, index.to(in_edges.index.dtype), None)
    graph = Graph(sources.numel(), rows.numel(), positions.numel(), part)
    return replace(operands, z=operands.z[sources], graph=graph), sources


# ---- products of edge factors ----------------------------------------------------------------------------------


class _Edges:
    """Endpoints of all edges, sorted by destination, and the tree of each destination."""

    def __init__(self, graph: Graph) -> None:
        in_edges = graph.by_dst()
        self.u, self.v = in_edges.index.long(), in_edges.owners().long()
        self.e = torch.arange(self.u.numel(), device=self.u.device) if in_edges.perm is None else in_edges.perm
        self.sizes = in_edges.ptr.diff()
        self.rows = self.sizes.nonzero().squeeze(1)
        self.row_of_edge = torch.arange(self.rows.numel(), device=self.u.device).repeat_interleave(
            self.sizes[self.rows], output_size=self.u.numel()
        )

    @property
    def ends(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.u, self.v, self.e


def _column_blocks(num_edges: int, rank: int) -> Iterator[slice]:
    width = max(1, _BLOCK // max(1, num_edges))
    for first in range(0, rank, width):
        yield slice(first, min(rank, first + width))


def _ones(rows: int, columns: slice, device: torch.device) -> Scaled:
    return Scaled.of(torch.ones(rows, columns.stop - columns.start, dtype=torch.float64, device=device))


def edge_product(op: EdgeProduct) -> Tensor:
    edges, tree, powers = _Edges(op.graph), ProductTree(op.graph.by_dst().ptr.diff()), op.powers()
    out = op.example.new_empty(op.graph.num_edges if op.exclusive else op.graph.num_dst, op.rank)
    for columns in _column_blocks(op.graph.num_edges, op.rank):
        f = edge_factors(op, *edges.ends, columns).f
        if op.exclusive:
            others = tree.exclusive_products(f, _ones(edges.rows.numel(), columns, out.device))
            y = (others.signed_power(powers[edges.v]) if op.exponent else others).to_float()
            out[edges.e, columns] = (pointwise(torch.tanh, y) if op.tanh else y).to(out.dtype)
        else:
            product = tree.products(f)
            product = product.signed_power(powers[edges.rows]) if op.exponent else product
            y = torch.ones(out.size(0), product.mantissa.size(1), dtype=torch.float64, device=out.device)
            y[edges.rows] = product.to_float()
            out[:, columns] = (pointwise(torch.tanh, y) if op.tanh else y).to(out.dtype)
    return out


def edge_product_backward(op: EdgeProduct, grad: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    """Compute the gradients as ``backend_reference.edge_product_backward`` defines them."""
    edges, tree, powers = _Edges(op.graph), ProductTree(op.graph.by_dst().ptr.diff()), op.powers()
    out = {
        term: torch.zeros_like(x, dtype=torch.float64)
        for term in ("src", "dst", "edge", "scale", "shift", "gate")
        if (x := getattr(op, term)) is not None
    }
    small = {term: torch.zeros_like(x) for term, x in out.items() if x.dim() == 1}  # scaled sums, see _add_columns
    for columns in _column_blocks(op.graph.num_edges, op.rank):
        factors = edge_factors(op, *edges.ends, columns)
        one = _ones(edges.rows.numel(), columns, grad.device)
        others = tree.exclusive_products(factors.f, one)
        if op.exclusive:
            outer = Scaled.of(grad[edges.e, columns]) * slope_of_result(op, others, powers[edges.v])
            zero = Scaled.of(torch.zeros_like(one.mantissa))
            d = tree.exclusive_products(Dual(factors.f, outer), Dual(one, zero)).slope
        else:
            slope = slope_of_result(op, tree.products(factors.f), powers[edges.rows])
            outer = Scaled.of(grad[edges.rows, columns]) * slope
            d = outer[edges.row_of_edge] * others
        by_dst = chain_rule(op, d, factors, edges.e, columns)
        gradients = EdgeGradients(*(torch.empty_like(x).index_copy(0, edges.e, x) for x in by_dst))
        for term, owner in owners(op).items():
            out[term][:, columns] = _sum_rows(gradients.a, owner)
        for term in ("scale", "shift", "gate"):
            if term in small:
                _add_columns(getattr(gradients, term), out[term], small[term])
            elif term in out:
                out[term][:, columns] = getattr(gradients, term)
    for term, scaled in small.items():
        out[term] = torch.where(out[term].isfinite(), out[term], clamp_to_finite(scaled * _UP))
    return out


_DOWN, _UP = 2.0**-64, 2.0**64


def _add_columns(x: Tensor, total: Tensor, scaled: Tensor) -> None:
    """Add the columns of ``x`` to ``total``, and to ``scaled`` times 2^-64, which cannot overflow."""
    total += x.sum(1)
    scaled += (x * _DOWN).sum(1)


def owners(op: EdgeTerms) -> dict[str, CompressedEdges | None]:
    """Return the edges grouped by the row of each term that they read; ``None`` if each edge has its own row."""
    owners: dict[str, CompressedEdges | None] = {}
    if op.src is not None:
        owners["src"] = op.graph.by_src()
    if op.dst is not None:
        owners["dst"] = op.graph.by_dst()
    if op.edge is not None and op.edge_type is None:
        owners["edge"] = None
    elif op.edge is not None and op.edge_type is not None:
        types = op.edge_type.long()
        ptr = torch.nn.functional.pad(torch.bincount(types, minlength=op.edge.size(0)).cumsum(0), (1, 0))
        owners["edge"] = CompressedEdges(ptr, types, torch.sort(types, stable=True).indices)
    return owners


def _sum_rows(x: Tensor, by: CompressedEdges | None) -> Tensor:
    """Sum rows ``[E, W]`` over each group. Large summands of both signs do not give ``inf - inf``."""
    if by is None:
        return x
    x = x if by.perm is None else x[by.perm]
    sizes = by.ptr.diff()
    total = torch.segment_reduce(x, "sum", lengths=sizes, axis=0, initial=0.0, unsafe=True)
    if not math.isfinite(float(total.sum())):
        scaled = torch.segment_reduce(x * _DOWN, "sum", lengths=sizes, axis=0, initial=0.0, unsafe=True)
        total = torch.where(total.isfinite(), total, clamp_to_finite(scaled * _UP, x.dtype))
    return total


# ---- sums ------------------------------------------------------------------------------------------------------


def sum(x: Tensor, weight: Tensor | None, graph: Graph, transposed: bool) -> Tensor:
    by = "src" if transposed else "dst"
    if weight is None:
        return _sum(graph, by, x)
    edges = graph.by_src() if transposed else graph.by_dst()
    weight = weight if edges.perm is None else weight[edges.perm]
    return _sparse_matmul(_adjacency(graph, by, weight), x)


def exclusive_sum(x: Tensor, graph: Graph) -> Tensor:
    """Compute for every edge the sum of ``x`` ``[E, R]`` over the other edges into the same destination."""
    out = torch.empty_like(x)
    edges, tree = _Edges(graph), ProductTree(graph.by_dst().ptr.diff())
    for columns in _column_blocks(graph.num_edges, x.size(1)):
        rows = x[edges.e, columns].double()
        # The slope of a product of dual numbers 1 + x epsilon is the sum of x.
        ones = Scaled.of(torch.ones_like(rows))
        one = Dual(ones[: edges.rows.numel()], Scaled.of(torch.zeros_like(rows[: edges.rows.numel()])))
        total = tree.exclusive_products(Dual(ones, Scaled.of(rows)), one).slope.to_float()
        out[edges.e, columns] = total.to(x.dtype)
    return out


def edge_rows(terms: EdgeTerms) -> Tensor:
    """Compute ``src_u + dst_v + edge_e`` for every edge, ``[E, R]``."""
    edges = _Edges(terms.graph)
    rows = _edge_rows(terms, *edges.ends)
    return torch.empty_like(rows).index_copy_(0, edges.e, rows)


def _edge_rows(terms: EdgeTerms, u: Tensor, v: Tensor, e: Tensor, columns: slice = slice(None)) -> Tensor:
    row = e if terms.edge_type is None else terms.edge_type[e].long()
    present = [t[i, columns] for t, i in ((terms.src, u), (terms.dst, v), (terms.edge, row)) if t is not None]
    total = present[0]
    for term in present[1:]:
        total = total + term
    return total


def edge_rows_backward(terms: EdgeTerms, grad: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    return {term: _sum_rows(grad, owner) for term, owner in owners(terms).items()}


def gated_sum(op: GatedSum) -> tuple[Tensor, Tensor]:
    """Return the gated sum or mean and, for the backward pass, ``sum of eta + eps`` (empty if not normalized)."""
    edges, in_edges = _Edges(op.graph), op.graph.by_dst()
    by_dst = CompressedEdges(in_edges.ptr, in_edges.index, None)
    out = op.x.new_empty(op.graph.num_dst, op.rank)
    total = torch.empty_like(out) if op.normalize else out.new_empty(0, op.rank)
    for columns in _column_blocks(op.graph.num_edges, op.rank):
        eta = _weights(op, edges) * _sigmoid(_gate_arguments(op, edges, columns))
        sums = _sum_rows(eta * op.x[edges.u, columns], by_dst)
        if op.normalize:
            total[:, columns] = _sum_rows(eta, by_dst) + op.eps
            sums = sums / total[:, columns]
        out[:, columns] = sums
    return out, total


def _gate_arguments(op: GatedSum, edges: _Edges, columns: slice) -> Tensor:
    if op.x.dtype == torch.float64:
        return gate_arguments(op, *edges.ends, columns)
    return _edge_rows(op, *edges.ends, columns)


def _sigmoid(a: Tensor) -> Tensor:
    return pointwise(torch.sigmoid, a) if a.dtype == torch.float64 else torch.sigmoid(a)


def _weights(op: GatedSum, edges: _Edges) -> Tensor | float:
    return 1.0 if op.weight is None else op.weight[edges.e].unsqueeze(1)


def gated_sum_backward(op: GatedSum, grad: Tensor, out: Tensor, total: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    """Compute the gradients of the terms, of ``x`` and of the weights; the gates are computed again."""
    edges = _Edges(op.graph)
    gradients = {
        term: torch.zeros_like(x)
        for term in ("src", "dst", "edge", "x", "weight")
        if (x := getattr(op, term)) is not None
    }
    for columns in _column_blocks(op.graph.num_edges, op.rank):
        a, weight = _gate_arguments(op, edges, columns), _weights(op, edges)
        gate, closed = _sigmoid(a), _sigmoid(-a)  # 1 - gate would cancel
        g = grad[:, columns] / total[:, columns] if op.normalize else grad[:, columns]
        g = g[edges.v]
        d = g * (op.x[edges.u, columns] - out[edges.v, columns] if op.normalize else op.x[edges.u, columns])  # d eta
        of_a = torch.empty_like(d).index_copy_(0, edges.e, weight * gate * closed * d)
        for term, owner in owners(op).items():
            gradients[term][:, columns] = _sum_rows(of_a, owner)
        of_x = torch.empty_like(d).index_copy_(0, edges.e, weight * gate * g)
        gradients["x"][:, columns] = _sum_rows(of_x, op.graph.by_src())
        if op.weight is not None:
            gradients["weight"][edges.e] += (gate * d).sum(1)
    return gradients
