"""Operators whose operands belong to edges: products of edge factors, gated sums, and sums over the other edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tgnn.ops.backend_reference import gated_sum_of_edges
from tgnn.ops.dispatch import GRAPH_SCHEMA, NeedsGrad, backend_for, check_weights, compute_dtype, readable
from tgnn.ops.graph import Graph, get_graph
from tgnn.ops.library_operator import Operator, Tensors
from tgnn.ops.operands import EdgeProduct, EdgeTerms, GatedSum
from tgnn.ops.second_order import tree_product
from tgnn.ops.tracing import is_plain_eager

_TERMS = ("src", "dst", "edge")


def _graph(rest: Sequence[Any]) -> Graph:
    """Return the graph of the arguments ``edge_type, index, columns, format, num_src, num_dst, ...``."""
    _, index, columns, format, num_src, num_dst, *_ = rest
    return get_graph(format, index, columns, num_src, num_dst)


def _num_edges(rest: Sequence[Any]) -> int:
    """Return the number of edges from the shapes of the arguments, without self-loops that the format adds."""
    index, columns, format, num_src = rest[1:5]
    if format.startswith(("index", "ptr")):
        return int(num_src)
    return index.size(-1) if columns is None else columns.size(-1)  # type: ignore[no-any-return]


def _prepared(tensors: Tensors, rest: Sequence[Any]) -> list[Any]:
    """Convert the tensors to the type in which the backends compute, and append the types of the edges as int32."""
    dtype = compute_dtype(*(t.dtype for t in tensors if t is not None))
    prepared: list[Any] = [None if t is None else readable(t, dtype) for t in tensors]
    return [*prepared, None if rest[0] is None else readable(rest[0], torch.int32)]


def _first(tensors: Tensors) -> Tensor:
    return next(t for t in tensors if t is not None)


# ---- products --------------------------------------------------------------------------------------------------


def _check_types(edge: Tensor | None, edge_type: Tensor | None) -> None:
    if edge is None or edge_type is None or edge_type.numel() == 0:
        return
    low, high = (int(value) for value in torch.aminmax(edge_type))
    if low < 0 or high >= edge.size(0):
        wrong = low if low < 0 else high
        raise ValueError(f"edge_type contains {wrong}, but edge_addend has {edge.size(0)} rows, one per type.")


@torch.library.custom_op("tgnn::check_edge_weight", mutates_args=())
def _checked_copy(weight: Tensor) -> Tensor:
    check_weights(weight)
    return weight.clone()


_checked_copy.register_fake(torch.empty_like)
_checked_copy.register_autograd(lambda ctx, grad: grad)


def check_edge_weight(weight: Tensor) -> Tensor:
    """Return the weights of factors, after a check that they lie in [0, 1]. Compiled code checks them when it runs."""
    if is_plain_eager(weight):
        check_weights(weight)
        return weight
    copy: Tensor = _checked_copy(weight)
    return copy


def _describe_product(tensors: Tensors, rest: Sequence[Any], prepare: bool = True) -> EdgeProduct:
    given = _prepared(tensors, rest) if prepare else [*tensors, rest[0]]
    src, dst, edge, scale, shift, gate, edge_type = given
    return EdgeProduct(_graph(rest), src, dst, edge, edge_type, scale, shift, gate, *rest[6:])


def _product(*arguments: Any) -> Tensor:
    tensors, rest = arguments[:6], arguments[6:]
    check_weights(tensors[5])
    _check_types(tensors[2], rest[0])
    op = _describe_product(tensors, rest)
    return backend_for(op.example, op.graph).edge_product(op).to(_first(tensors).dtype)


def _product_fake(*arguments: Any) -> Tensor:
    example, rest = _first(arguments[:6]), arguments[6:]
    return example.new_empty(_num_edges(rest) if rest[-1] else rest[5], example.size(1))


def _product_gradients(
    grad: Tensor, outputs: Tensors, tensors: Tensors, rest: Sequence[Any], needs_grad: NeedsGrad
) -> dict[str, Tensor]:
    op = _describe_product(tensors, rest)
    backend = backend_for(op.example, op.graph)
    return backend.edge_product_backward(op, readable(grad, op.example.dtype), needs_grad)


def _product_definition(tensors: Tensors, rest: Sequence[Any]) -> Tensor:
    return tree_product(_describe_product(tensors, rest, prepare=False))


edge_product = Operator(
    "edge_product",
    (*_TERMS, "scale", "shift", "gate"),
    f"Tensor? edge_type, {GRAPH_SCHEMA}, str factor_act, float bound, float exponent, bool tanh, bool exclusive",
    1,
    _product,
    _product_fake,
    _product_gradients,
    _product_definition,
).register()


# ---- gated sums ------------------------------------------------------------------------------------------------


def _describe_gated(tensors: Tensors, rest: Sequence[Any], prepare: bool = True) -> GatedSum:
    given = _prepared(tensors, rest) if prepare else [*tensors, rest[0]]
    src, dst, edge, x, weight, edge_type = given
    return GatedSum(_graph(rest), src, dst, edge, edge_type, x, weight, *rest[6:])


def _gated(*arguments: Any) -> tuple[Tensor, Tensor]:
    tensors, rest = arguments[:5], arguments[5:]
    _check_types(tensors[2], rest[0])
    op = _describe_gated(tensors, rest)
    out, total = backend_for(op.x, op.graph).gated_sum(op)
    return out.to(arguments[3].dtype), total


def _gated_fake(*arguments: Any) -> tuple[Tensor, Tensor]:
    x, rest = arguments[3], arguments[5:]
    dtype = compute_dtype(*(t.dtype for t in arguments[:5] if t is not None))
    return x.new_empty(rest[5], x.size(1)), x.new_empty(rest[5] if rest[6] else 0, x.size(1), dtype=dtype)


def _gated_gradients(
    grad: Tensor, outputs: Tensors, tensors: Tensors, rest: Sequence[Any], needs_grad: NeedsGrad
) -> dict[str, Tensor]:
    op = _describe_gated(tensors, rest)
    out, total = outputs
    assert out is not None
    assert total is not None
    dtype, backend = op.x.dtype, backend_for(op.x, op.graph)
    return backend.gated_sum_backward(op, readable(grad, dtype), readable(out, dtype), total, needs_grad)


def _gated_definition(tensors: Tensors, rest: Sequence[Any]) -> Tensor:
    return gated_sum_of_edges(_describe_gated(tensors, rest, prepare=False))


gated_sum = Operator(
    "gated_sum",
    (*_TERMS, "x", "weight"),
    f"Tensor? edge_type, {GRAPH_SCHEMA}, bool normalize, float eps",
    2,
    _gated,
    _gated_fake,
    _gated_gradients,
    _gated_definition,
).register()


# ---- rows of edges ---------------------------------------------------------------------------------------------


def _describe_terms(tensors: Tensors, rest: Sequence[Any]) -> EdgeTerms:
    return EdgeTerms(_graph(rest), *_prepared(tensors, rest))


def _rows(*arguments: Any) -> Tensor:
    tensors, rest = arguments[:3], arguments[3:]
    _check_types(tensors[2], rest[0])
    terms = _describe_terms(tensors, rest)
    return backend_for(terms.example, terms.graph).edge_rows(terms).to(_first(tensors).dtype)


def _rows_fake(*arguments: Any) -> Tensor:
    example = _first(arguments[:3])
    return example.new_empty(_num_edges(arguments[3:]), example.size(1))


def _rows_gradients(
    grad: Tensor, outputs: Tensors, tensors: Tensors, rest: Sequence[Any], needs_grad: NeedsGrad
) -> dict[str, Tensor]:
    terms = _describe_terms(tensors, rest)
    grad = readable(grad, terms.example.dtype)
    return backend_for(terms.example, terms.graph).edge_rows_backward(terms, grad, needs_grad)


def _rows_definition(tensors: Tensors, rest: Sequence[Any]) -> Tensor:
    src, dst, edge = tensors
    in_edges = _graph(rest).by_dst()
    u, v = in_edges.index.long(), in_edges.owners().long()
    e = torch.arange(u.numel(), device=u.device) if in_edges.perm is None else in_edges.perm
    row = e if rest[0] is None else rest[0].long()[e]
    present = [t.double()[i] for t, i in ((src, u), (dst, v), (edge, row)) if t is not None]
    total = torch.stack(present).sum(0)
    return torch.zeros_like(total).index_copy(0, e, total)


edge_rows = Operator(
    "edge_rows",
    _TERMS,
    f"Tensor? edge_type, {GRAPH_SCHEMA}",
    1,
    _rows,
    _rows_fake,
    _rows_gradients,
    _rows_definition,
).register()


# ---- sums over the other edges ---------------------------------------------------------------------------------


def _exclusive(x: Tensor, *rest: Any) -> Tensor:
    rows, graph = readable(x, compute_dtype(x.dtype)), _graph(rest)
    return backend_for(rows, graph).exclusive_sum(rows, graph).to(x.dtype)


def _exclusive_fake(x: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(x)


def _exclusive_gradients(
    grad: Tensor, outputs: Tensors, tensors: Tensors, rest: Sequence[Any], needs_grad: NeedsGrad
) -> dict[str, Tensor]:
    return {"x": _exclusive(grad, *rest)}  # the operator is its own adjoint


def _exclusive_definition(tensors: Tensors, rest: Sequence[Any]) -> Tensor:
    in_edges = _graph(rest).by_dst()
    v = in_edges.owners().long()
    (x,) = tensors
    assert x is not None
    x = x.double()
    e = torch.arange(v.numel(), device=v.device) if in_edges.perm is None else in_edges.perm
    total = x.new_zeros(in_edges.num_groups, x.size(1)).index_add(0, v, x[e])
    return torch.zeros_like(x).index_copy(0, e, total[v] - x[e])


exclusive_rows_sum = Operator(
    "exclusive_sum",
    ("x",),
    f"Tensor? edge_type, {GRAPH_SCHEMA}",
    1,
    _exclusive,
    _exclusive_fake,
    _exclusive_gradients,
    _exclusive_definition,
).register()
