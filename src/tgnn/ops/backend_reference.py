"""Backend ``reference``: the definition of the operators and of their gradients, which all others are tested against.

:class:`~.operands.EdgeProduct` states the equations. The factors of a destination are multiplied one by one. The
gradient of a factor is the product of all *other* factors of its row (the exclusive product), times the gradient of the
result and the slope of the activation. This is the rule for zero factors:

* One zero in a row: the gradient of the zero factor is the product of the others. The gradients of the others are 0.
* Two or more zeros in a row: all gradients are 0.
* With a degree exponent ``d ** -p`` below 1, the slope at the product 0 is infinite. All gradients of such a row are 0.

A NaN factor makes the result and all gradients of its row NaN, even if another factor is 0.

The exclusive product is ``prefix[k] * suffix[k + 1]``, the products before and after a factor, so nothing is divided by
a factor. This backend loops in Python: use it on small graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from tgnn.ops.graph import CompressedEdges, Graph
from tgnn.ops.operands import EdgeProduct, EdgeTerms, GatedSum, Operands, Saved
from tgnn.ops.scaled import Dual, Scaled, clamp_to_finite, finite_sum, pointwise, tanh_slope

name = "reference"


def unavailable() -> str | None:
    return None


def unsupported(x: Tensor, graph: Graph) -> str | None:
    return None


# ---- the factor of an edge -------------------------------------------------------------------------------------


def edge_sums(terms: EdgeTerms, u: Tensor, v: Tensor, e: Tensor, columns: slice = slice(None)) -> Scaled:
    """Return ``a_e = src_u + dst_v + edge_e`` for some edges e = (u, v)."""
    row = e if terms.edge_type is None else terms.edge_type[e].long()
    present = [
        Scaled.of(term[rows, columns])
        for term, rows in ((terms.src, u), (terms.dst, v), (terms.edge, row))
        if term is not None
    ]
    total = present[0]
    for term in present[1:]:
        total = total.plus(term)
    return total


class Factors(NamedTuple):
    """Factors of some edges and the steps of their computation, see :class:`~.operands.EdgeProduct`."""

    h: Scaled
    """``phi(a)``."""
    slope: Tensor
    """``phi'(a)``."""
    affine: Scaled
    """``scale h + shift``."""
    f: Scaled
    """The factor: ``1 + gate (affine - 1)``."""


def edge_factors(op: EdgeProduct, u: Tensor, v: Tensor, e: Tensor, columns: slice = slice(None)) -> Factors:
    a = edge_sums(op, u, v, e, columns)
    h, slope = _activate(op, a)
    affine = h
    if op.scale is not None:
        affine = affine * _coefficient(op.scale, e, columns)
    if op.shift is not None:
        affine = affine.plus(_coefficient(op.shift, e, columns))
    f = affine
    if op.gate is not None:  # the neutral element of a product is 1, so gate 0 removes the neighbor
        f = (f * _coefficient(op.gate, e, columns)).plus(_coefficient(1 - op.gate.double(), e, columns))
    return Factors(h, slope, affine, f)


def _activate(op: EdgeProduct, a: Scaled) -> tuple[Scaled, Tensor]:
    """Return ``phi(a)`` and ``phi'(a)``."""
    if op.factor_act == "identity":
        return a, torch.ones_like(a.mantissa)
    x = clamp_to_finite(a.to_float())
    if op.factor_act == "sigmoid":
        value = pointwise(torch.sigmoid, x)
        return Scaled.of(value), value * pointwise(torch.sigmoid, -x)
    value, slope = pointwise(torch.tanh, x), tanh_slope(x.detach()).to_float()
    if op.factor_act == "bounded":
        value, slope = 1 + op.bound * value, op.bound * slope
    return Scaled.of(value), slope


def _coefficient(x: Tensor, e: Tensor, columns: slice) -> Scaled:
    return Scaled.of(x[e].unsqueeze(1) if x.dim() == 1 else x[e, columns])


class EdgeGradients(NamedTuple):
    """Gradients of the steps of the factors of some edges, in float64 and finite."""

    a: Tensor
    scale: Tensor
    shift: Tensor
    gate: Tensor


def chain_rule(op: EdgeProduct, d: Scaled, factors: Factors, e: Tensor, columns: slice = slice(None)) -> EdgeGradients:
    """Turn ``d = d loss / d f`` into the gradients of the steps of the factor."""
    minus_one = Scaled.of(-torch.ones_like(factors.slope))
    of_gate = d * factors.affine.plus(minus_one)
    if op.gate is not None:
        d = d * _coefficient(op.gate, e, columns)
    of_shift, of_scale = d, d * factors.h
    if op.scale is not None:
        d = d * _coefficient(op.scale, e, columns)
    of_a = d * Scaled.of(factors.slope)
    return EdgeGradients(*(clamp_to_finite(x.to_float()) for x in (of_a, of_scale, of_shift, of_gate)))


# ---- products --------------------------------------------------------------------------------------------------

Number = TypeVar("Number", Scaled, Dual)


def _cumulative_products(factors: list[Number], one: Number) -> list[Number]:
    """Return ``[1, f_0, f_0 f_1, ...]``."""
    products = [one]
    for f in factors:
        products.append(products[-1] * f)
    return products


def _exclusive_products(factors: list[Number], one: Number) -> list[Number]:
    """Return the product of all factors but ``f_k``, for every k."""
    prefix = _cumulative_products(factors, one)
    suffix = _cumulative_products(factors[::-1], one)[::-1]
    return [prefix[k] * suffix[k + 1] for k in range(len(factors))]


def _rows(edges: CompressedEdges) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the sources, the destinations and the positions of the edges into each destination."""
    for v in range(edges.num_groups):
        part = slice(int(edges.ptr[v]), int(edges.ptr[v + 1]))
        u = edges.index[part].long()
        yield u, torch.full_like(u, v), torch.arange(part.start, part.stop) if edges.perm is None else edges.perm[part]


def slope_of(y: Scaled, tanh: bool) -> Scaled:
    """Return ``act'(y)``. It is NaN where ``y`` is NaN."""
    x = y.to_float()
    return tanh_slope(x) if tanh else Scaled.of(torch.where(x.isnan(), x, 1.0))


def edge_product(op: EdgeProduct) -> Tensor:
    graph, one = op.graph, Scaled.of(op.example.new_ones(op.rank))
    out = op.example.new_empty(graph.num_edges if op.exclusive else graph.num_dst, op.rank)
    powers = op.powers()
    for v, (u, v_of_edges, e) in enumerate(_rows(graph.by_dst())):
        f = edge_factors(op, u, v_of_edges, e).f
        factors = [f[k] for k in range(e.numel())]
        if op.exclusive:
            rows = [(int(edge), x) for edge, x in zip(e, _exclusive_products(factors, one))]
        else:
            rows = [(v, _cumulative_products(factors, one)[-1])]
        for row, product in rows:
            y = product.signed_power(powers[v]) if op.exponent else product
            out[row] = torch.tanh(y.to_float()) if op.tanh else y.to_float()
    return out


def edge_product_backward(op: EdgeProduct, grad: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    """Compute the gradients of the terms and coefficients that are present, in float64.

    Inclusive: the gradient of factor ``f_k`` is ``g act'(y) dy/dP`` times the product of the other factors.
    Exclusive: the gradient of ``f_k`` is the sum over the other edges e of ``g_e act'(y_e) dy_e/dP_e`` times the
    product of all factors but ``f_e`` and ``f_k``. This is the slope of an exclusive product of dual numbers.
    """
    graph, one = op.graph, Scaled.of(op.example.new_ones(op.rank))
    powers = op.powers()
    shape = (graph.num_edges, op.rank)
    per_edge = EdgeGradients(*(op.example.new_zeros(shape, dtype=torch.float64) for _ in EdgeGradients._fields))
    for v, (u, v_of_edges, e) in enumerate(_rows(graph.by_dst())):
        factors = edge_factors(op, u, v_of_edges, e)
        f = [factors.f[k] for k in range(e.numel())]
        others = _exclusive_products(f, one)
        if op.exclusive:
            outer = [Scaled.of(grad[edge]) * slope_of_result(op, x, powers[v]) for edge, x in zip(e, others)]
            zero = Scaled.of(torch.zeros_like(one.mantissa))
            duals = _exclusive_products([Dual(*pair) for pair in zip(f, outer)], Dual(one, zero))
            d = [dual.slope for dual in duals]
        else:
            outer_v = Scaled.of(grad[v]) * slope_of_result(op, _cumulative_products(f, one)[-1], powers[v])
            d = [outer_v * x for x in others]
        if d:
            stacked = Scaled(torch.stack([x.mantissa for x in d]), torch.stack([x.exponent for x in d]))
            for target, value in zip(per_edge, chain_rule(op, stacked, factors, e)):
                target[e] = value
    return _sum_over_edges(op, per_edge)


def slope_of_result(op: EdgeProduct, product: Scaled, power: Tensor) -> Scaled:
    """Return ``act'(y) dy/dP`` for the signed power y of a product P."""
    if op.exponent == 0:
        return slope_of(product, op.tanh)
    return slope_of(product.signed_power(power), op.tanh) * slope_of_power(product, power)


def slope_of_power(product: Scaled, power: Tensor) -> Scaled:
    """Return the slope ``power |P| ** (power - 1)`` of the signed power, with 0 at ``P = 0`` unless the power is 1."""
    magnitude = Scaled(product.mantissa.abs(), product.exponent)
    inverse = Scaled(1 / magnitude.mantissa, -magnitude.exponent)
    slope = Scaled.of(power) * magnitude.signed_power(power) * inverse
    vanishing = (product.mantissa == 0) & (power != 1)
    mantissa = torch.where((power == 1) & ~product.mantissa.isnan(), 1.0, slope.mantissa).masked_fill(vanishing, 0)
    exponent = torch.where(power == 1, 0, slope.exponent)
    return Scaled(mantissa, exponent.masked_fill(product.mantissa == 0, 0))


def _sum_over_edges(op: EdgeTerms, per_edge: EdgeGradients) -> dict[str, Tensor]:
    """Add the gradients of the edges that share a source, a destination, a type or a coefficient."""
    edges = op.graph.by_dst()
    none = torch.empty(0, dtype=torch.int64)
    u, v, e = (torch.cat([none, *parts]) for parts in zip(*_rows(edges))) if edges.num_groups else (none,) * 3
    out = {}
    owners = {"src": u, "dst": v, "edge": e if op.edge_type is None else op.edge_type.long()[e]}
    for term, owner in owners.items():
        if (x := getattr(op, term)) is not None:
            rows = [finite_sum(per_edge.a[e[owner == i]], 0) for i in range(x.size(0))]
            out[term] = torch.stack(rows) if rows else torch.zeros_like(x, dtype=torch.float64)
    for coefficient in ("scale", "shift", "gate"):
        if (x := getattr(op, coefficient, None)) is not None:
            gradient = getattr(per_edge, coefficient)
            out[coefficient] = gradient if x.dim() == 2 else finite_sum(gradient, 1)
    return out


# ---- plain and weighted factors --------------------------------------------------------------------------------


def as_edge_product(operands: Operands) -> EdgeProduct:
    """Describe a product of plain or weighted factors in the general form."""
    absent = (None,) * 5
    options = ("identity", 1.0, operands.exponent, operands.tanh)
    return EdgeProduct(operands.graph, operands.z, *absent, operands.weight, *options, exclusive=False)


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    out = edge_product(as_edge_product(operands))
    return out, nothing_saved(out) if save else None


def nothing_saved(out: Tensor) -> Saved:
    """Mark every row as wide, so that the backward pass computes its product again."""
    return Saved(torch.zeros_like(out), out.new_zeros(out.size(0)))


def backward(
    operands: Operands, grad: Tensor, saved: Saved, needs_grad: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    gradients = edge_product_backward(as_edge_product(operands), grad, None)
    return gradients["src"], gradients.get("gate")


# ---- sums ------------------------------------------------------------------------------------------------------


def sum(x: Tensor, weight: Tensor | None, graph: Graph, transposed: bool) -> Tensor:
    edges = graph.by_src() if transposed else graph.by_dst()
    out = x.new_zeros(edges.num_groups, x.size(1))
    for i, (other, _, e) in enumerate(_rows(edges)):
        for u, edge in zip(other, e):
            out[i] += (1.0 if weight is None else weight[edge]) * x[u]
    return out


def exclusive_sum(x: Tensor, graph: Graph) -> Tensor:
    """Compute for every edge the sum of ``x`` ``[E, R]`` over the other edges into the same destination."""
    out = torch.empty_like(x)
    for _, _, e in _rows(graph.by_dst()):
        rows = x[e].double()
        for k, edge in enumerate(e):
            out[edge] = torch.cat([rows[:k], rows[k + 1 :]]).sum(0)
    return out


def edge_rows(terms: EdgeTerms) -> Tensor:
    """Compute ``src_u + dst_v + edge_e`` for every edge, ``[E, R]``."""
    out = terms.example.new_empty(terms.graph.num_edges, terms.rank)
    for u, v, e in _rows(terms.graph.by_dst()):
        out[e] = edge_sums(terms, u, v, e).to_float().to(out.dtype)
    return out


def edge_rows_backward(terms: EdgeTerms, grad: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    return _sum_over_edges(terms, EdgeGradients(*[grad.double()] * 4))


def gated_sum(op: GatedSum) -> tuple[Tensor, Tensor]:
    """Return the gated sum or mean and, for the backward pass, ``sum of eta + eps`` (empty if not normalized)."""
    out = torch.zeros(op.graph.num_dst, op.rank, dtype=torch.float64)
    total = torch.full_like(out, op.eps)
    for v, (u, v_of_edges, e) in enumerate(_rows(op.graph.by_dst())):
        eta = gates(op, u, v_of_edges, e)
        out[v] = (eta * op.x[u].double()).sum(0)
        total[v] += eta.sum(0)
    if not op.normalize:
        return out.to(op.x.dtype), op.x.new_empty(0, op.rank)
    return (out / total).to(op.x.dtype), total.to(op.x.dtype)


def gates(op: GatedSum, u: Tensor, v: Tensor, e: Tensor, columns: slice = slice(None)) -> Tensor:
    """Return ``eta_e = w_e sigmoid(a_e)`` of some edges."""
    eta = pointwise(torch.sigmoid, gate_arguments(op, u, v, e, columns))
    return eta if op.weight is None else eta * op.weight[e].double().unsqueeze(1)


def gate_arguments(op: GatedSum, u: Tensor, v: Tensor, e: Tensor, columns: slice = slice(None)) -> Tensor:
    return clamp_to_finite(edge_sums(op, u, v, e, columns).to_float())


def gated_sum_backward(op: GatedSum, grad: Tensor, out: Tensor, total: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    """Compute the gradients of the terms, of ``x`` and of the weights."""
    shape = (op.graph.num_edges, op.rank)
    of_a, of_x, of_weight = (torch.zeros(shape, dtype=torch.float64) for _ in range(3))
    outer = (grad.double() / total.double()) if op.normalize else grad.double()  # d loss / d sum of eta x
    for v, (u, v_of_edges, e) in enumerate(_rows(op.graph.by_dst())):
        eta, gate = gates(op, u, v_of_edges, e), gates(replace(op, weight=None), u, v_of_edges, e)
        closed = pointwise(torch.sigmoid, -gate_arguments(op, u, v_of_edges, e))  # 1 - gate would cancel
        of_eta = outer[v] * (op.x[u].double() - (out[v].double() if op.normalize else 0.0))
        of_a[e], of_x[e], of_weight[e] = eta * closed * of_eta, eta * outer[v], gate * of_eta
    gradients = _sum_over_edges(op, EdgeGradients(*[of_a] * 4))
    gradients["x"] = _sum_over_edges(EdgeTerms(op.graph, op.x, None, None, None), EdgeGradients(*[of_x] * 4))["src"]
    if op.weight is not None:
        gradients["weight"] = of_weight.sum(1)
    return gradients


def gated_sum_of_edges(op: GatedSum) -> Tensor:
    """Compute the gated sum by differentiable torch operations on a matrix ``[E, R]``."""
    in_edges = op.graph.by_dst()
    u, v = in_edges.index.long(), in_edges.owners().long()
    e = torch.arange(u.numel(), device=u.device) if in_edges.perm is None else in_edges.perm
    eta = gates(op, u, v, e)
    zeros = eta.new_zeros(op.graph.num_dst, op.rank)
    out = zeros.index_add(0, v, eta * op.x.double()[u])
    return out / (zeros.index_add(0, v, eta) + op.eps) if op.normalize else out
