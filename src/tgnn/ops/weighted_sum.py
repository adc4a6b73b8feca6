"""Weighted sums over neighbours as operators that torch knows, differentiable any number of times.

``neighbor_sum`` is linear in the rows and in the weights: its gradients are itself on the transposed graph, and
``edge_dot``, whose gradients are ``neighbor_sum`` again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tgnn.ops.backend_reference import finite
from tgnn.ops.dispatch import DEVICES, GRAPH, backend_for, forced_backend, make_problem, remembered_backend, widened
from tgnn.ops.graph import graph_of
from tgnn.ops.tracing import as_function, is_plain_eager

torch.library.define("tgnn::neighbor_sum", f"(Tensor x, Tensor? weight, {GRAPH}, bool transposed) -> Tensor")
torch.library.define("tgnn::edge_dot", f"(Tensor a, Tensor b, {GRAPH}) -> Tensor")
torch.library.define("tgnn::degrees", f"({GRAPH}) -> Tensor")
_sum_op = torch.ops.tgnn.neighbor_sum.default
_dot_op = torch.ops.tgnn.edge_dot.default

_BLOCK = 2**23  # numbers gathered at a time


# ---- neighbor_sum ----------------------------------------------------------------------------------------------


def _sum(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    *graph, transposed = rest
    problem = make_problem(x, None, weight, graph, False)
    return backend_for(problem).sum(problem, transposed).to(x.dtype)


def _sum_shape(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    num_src, num_dst, transposed = rest[-3:]
    return x.new_empty(num_src if transposed else num_dst, x.size(1))


def _remember_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, index, columns, *ctx.rest, ctx.transposed = inputs
    ctx.backend = forced_backend()
    ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight, index, columns)


def _differentiate_sum(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, weight, index, columns = ctx.saved_tensors
    graph = (index, columns, *ctx.rest)
    grad_x = grad_weight = None
    with remembered_backend(ctx.backend):
        if ctx.needs_input_grad[0]:
            grad_x = _call_sum(grad, weight, *graph, not ctx.transposed)
        if ctx.needs_input_grad[1]:
            ends = (x, grad) if ctx.transposed else (grad, x)
            grad_weight = finite(_dot_op(*ends, *graph), weight.dtype).to(weight.dtype)
    return (grad_x, grad_weight, *(None,) * 6)


# ---- edge_dot --------------------------------------------------------------------------------------------------


def _dot(a: Tensor, b: Tensor, *graph: Any) -> Tensor:
    """``a_v . b_u`` for every edge (u, v), in the caller's order; half precision is widened."""
    index, columns, kind, num_src, num_dst = graph
    by = graph_of(kind, index, columns, num_src, num_dst).by_dst()
    owners = by.owners()
    out = a.new_empty(owners.numel(), dtype=widened(a.dtype))
    step = max(1, _BLOCK // max(1, a.size(1)))
    for first in range(0, owners.numel(), step):
        places = slice(first, first + step)
        left, right = a[owners[places]].to(out.dtype), b[by.other[places]].to(out.dtype)
        torch.linalg.vecdot(left, right, out=out[places])
    if by.edge is None:
        return out
    ordered = torch.empty_like(out)
    ordered[by.edge] = out
    return ordered


def _dot_shape(a: Tensor, b: Tensor, *graph: Any) -> Tensor:
    edges = graph[0].size(-1) if graph[1] is None else graph[1].size(-1)
    return a.new_empty(edges, dtype=widened(a.dtype))


def _remember_dot(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.kind, ctx.num_src, ctx.num_dst = inputs
    ctx.backend = forced_backend()
    ctx.save_for_backward(*tensors)


def _differentiate_dot(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    a, b, index, columns = ctx.saved_tensors
    graph = (index, columns, ctx.kind, ctx.num_src, ctx.num_dst)
    with remembered_backend(ctx.backend):
        grad_a = _call_sum(b, grad, *graph, False) if ctx.needs_input_grad[0] else None
        grad_b = _call_sum(a, grad, *graph, True) if ctx.needs_input_grad[1] else None
    return (grad_a, grad_b, *(None,) * 5)


# ---- degrees ---------------------------------------------------------------------------------------------------


def _degrees(*graph: Any) -> Tensor:
    index, columns, kind, num_src, num_dst = graph
    return graph_of(kind, index, columns, num_src, num_dst).by_dst().ptr.diff()


def _degrees_shape(*graph: Any) -> Tensor:
    return torch.empty(graph[-1], dtype=torch.int64, device=graph[0].device)


for _name, _function, _shape in (
    ("neighbor_sum", _sum, _sum_shape),
    ("edge_dot", _dot, _dot_shape),
    ("degrees", _degrees, _degrees_shape),
):
    for _device in DEVICES:
        torch.library.impl(f"tgnn::{_name}", _device, _function)
    torch.library.register_fake(f"tgnn::{_name}", _shape)
torch.library.register_autograd("tgnn::neighbor_sum", _differentiate_sum, setup_context=_remember_sum)
torch.library.register_autograd("tgnn::edge_dot", _differentiate_dot, setup_context=_remember_dot)


_sum_function = as_function(_sum, _remember_sum, _differentiate_sum)


def _call_sum(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    compute: Callable[..., Any] = _sum_op
    if is_plain_eager(x):
        tracked = torch.is_grad_enabled() and (x.requires_grad or (weight is not None and weight.requires_grad))
        compute = _sum_function if tracked else _sum
    out: Tensor = compute(x, weight, *rest)
    return out


def weighted_sum(x: Tensor, weight: Tensor | None, graph: Sequence[Any]) -> Tensor:
    """``sum w_e x_u`` over the edges (u, v) into each v; ``sum.py`` is the front that checks the input."""
    return _call_sum(x, weight, *graph, False)


def degrees_of(graph: Sequence[Any]) -> Tensor:
    """How many edges go into each node."""
    out: Tensor = torch.ops.tgnn.degrees.default(*graph)
    return out
