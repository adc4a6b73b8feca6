"""Weighted sums over neighbors as operators of ``torch.library``, differentiable any number of times.

``neighbor_sum`` is linear in the rows and in the weights. The gradient of the rows is ``neighbor_sum`` on the
transposed graph. The gradient of the weights is ``edge_dot``, whose gradients are ``neighbor_sum`` again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tgnn.ops.dispatch import (
    DEVICES,
    GRAPH_SCHEMA,
    backend_for,
    compute_dtype,
    forced_backend,
    readable,
    restored_backend,
)
from tgnn.ops.graph import get_graph
from tgnn.ops.scaled import clamp_to_finite
from tgnn.ops.tracing import as_autograd_function, is_plain_eager

torch.library.define("tgnn::neighbor_sum", f"(Tensor x, Tensor? weight, {GRAPH_SCHEMA}, bool transposed) -> Tensor")
torch.library.define("tgnn::edge_dot", f"(Tensor a, Tensor b, {GRAPH_SCHEMA}) -> Tensor")
torch.library.define("tgnn::degrees", f"({GRAPH_SCHEMA}) -> Tensor")
_sum_op = torch.ops.tgnn.neighbor_sum.default
_dot_op = torch.ops.tgnn.edge_dot.default

_BLOCK = 2**23  # entries gathered at a time


# ---- neighbor_sum ----------------------------------------------------------------------------------------------


def _sum(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    index, columns, format, num_src, num_dst, transposed = rest
    graph = get_graph(format, index, columns, num_src, num_dst)
    dtype = compute_dtype(x.dtype) if weight is None else compute_dtype(x.dtype, weight.dtype)
    rows = readable(x, dtype)
    weight = None if weight is None else readable(weight, dtype)
    return backend_for(rows, graph).sum(rows, weight, graph, transposed).to(x.dtype)


def _sum_fake(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    num_src, num_dst, transposed = rest[-3:]
    return x.new_empty(num_src if transposed else num_dst, x.size(1))


def _setup_sum_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, index, columns, *ctx.rest, ctx.transposed = inputs
    ctx.backend = forced_backend()
    ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight, index, columns)


def _sum_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, weight, index, columns = ctx.saved_tensors
    graph_args = (index, columns, *ctx.rest)
    grad_x = grad_weight = None
    with restored_backend(ctx.backend):
        if ctx.needs_input_grad[0]:
            grad_x = _call_sum(grad, weight, *graph_args, not ctx.transposed)
        if ctx.needs_input_grad[1]:
            ends = (x, grad) if ctx.transposed else (grad, x)
            grad_weight = clamp_to_finite(_dot_op(*ends, *graph_args), weight.dtype).to(weight.dtype)
    return (grad_x, grad_weight, *(None,) * 6)


# ---- edge_dot --------------------------------------------------------------------------------------------------


def _dot(a: Tensor, b: Tensor, *graph_args: Any) -> Tensor:
    """Compute ``a_v . b_u`` for every edge (u, v), in the caller's order; half precision is computed in float32."""
    index, columns, format, num_src, num_dst = graph_args
    in_edges = get_graph(format, index, columns, num_src, num_dst).by_dst()
    owners = in_edges.owners()
    out = a.new_empty(owners.numel(), dtype=compute_dtype(a.dtype))
    step = max(1, _BLOCK // max(1, a.size(1)))
    for first in range(0, owners.numel(), step):
        part = slice(first, first + step)
        left, right = a[owners[part]].to(out.dtype), b[in_edges.index[part]].to(out.dtype)
        torch.linalg.vecdot(left, right, out=out[part])
    if in_edges.perm is None:
        return out
    ordered = torch.empty_like(out)
    ordered[in_edges.perm] = out
    return ordered


def _dot_fake(a: Tensor, b: Tensor, *graph_args: Any) -> Tensor:
    edges = graph_args[0].size(-1) if graph_args[1] is None else graph_args[1].size(-1)
    return a.new_empty(edges, dtype=compute_dtype(a.dtype))


def _setup_dot_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.format, ctx.num_src, ctx.num_dst = inputs
    ctx.backend = forced_backend()
    ctx.save_for_backward(*tensors)


def _dot_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    a, b, index, columns = ctx.saved_tensors
    graph_args = (index, columns, ctx.format, ctx.num_src, ctx.num_dst)
    with restored_backend(ctx.backend):
        grad_a = _call_sum(b, grad, *graph_args, False) if ctx.needs_input_grad[0] else None
        grad_b = _call_sum(a, grad, *graph_args, True) if ctx.needs_input_grad[1] else None
    return (grad_a, grad_b, *(None,) * 5)


# ---- degrees ---------------------------------------------------------------------------------------------------


def _degrees(*graph_args: Any) -> Tensor:
    index, columns, format, num_src, num_dst = graph_args
    return get_graph(format, index, columns, num_src, num_dst).by_dst().ptr.diff()


def _degrees_fake(*graph_args: Any) -> Tensor:
    return torch.empty(graph_args[-1], dtype=torch.int64, device=graph_args[0].device)


for _name, _impl, _fake in (
    ("neighbor_sum", _sum, _sum_fake),
    ("edge_dot", _dot, _dot_fake),
    ("degrees", _degrees, _degrees_fake),
):
    for _device in DEVICES:
        torch.library.impl(f"tgnn::{_name}", _device, _impl)
    torch.library.register_fake(f"tgnn::{_name}", _fake)
torch.library.register_autograd("tgnn::neighbor_sum", _sum_backward, setup_context=_setup_sum_context)
torch.library.register_autograd("tgnn::edge_dot", _dot_backward, setup_context=_setup_dot_context)


_sum_autograd = as_autograd_function(_sum, _setup_sum_context, _sum_backward)


def _call_sum(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    compute: Callable[..., Any] = _sum_op
    if is_plain_eager(x):
        tracked = torch.is_grad_enabled() and (x.requires_grad or (weight is not None and weight.requires_grad))
        compute = _sum_autograd if tracked else _sum
    out: Tensor = compute(x, weight, *rest)
    return out


def weighted_sum(x: Tensor, weight: Tensor | None, graph_args: Sequence[Any]) -> Tensor:
    """Compute ``sum w_e x_u`` over the edges (u, v) into each v. ``sum.py`` checks the input."""
    return _call_sum(x, weight, *graph_args, False)


def in_degrees(graph_args: Sequence[Any]) -> Tensor:
    """Return the number of edges into each node."""
    out: Tensor = torch.ops.tgnn.degrees.default(*graph_args)
    return out
