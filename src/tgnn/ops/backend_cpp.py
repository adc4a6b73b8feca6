"""Backend ``cpp``: the C++ kernels of ``kernels/``, run on the threads of torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tgnn.ops import cpp_build
from tgnn.ops.graph import Graph
from tgnn.ops.operands import FACTOR_ACTIVATIONS, EdgeProduct, EdgeTerms, GatedSum, Operands, Saved

name = "cpp"

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def unavailable() -> str | None:
    return cpp_build.why_unavailable()


def unsupported(x: Tensor, graph: Graph) -> str | None:
    if x.device.type != "cpu":
        return f"it runs on the CPU, but z is on {x.device}"
    if not graph.by_dst().is_int32:
        return "the node indices do not fit into 32 bits"
    return None


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    z, weight, graph = operands.z, operands.weight, operands.graph
    out = z.new_empty(graph.num_dst, operands.rank)
    saved = Saved(torch.empty_like(out), z.new_empty(graph.num_dst)) if save else None
    if out.numel():
        inputs = (operands.rank, int(operands.tanh), operands.exponent, *graph.by_dst().kernel_args)
        outputs = (out, *(saved or (None,) * 2))
        if weight is None:
            _call("tgnn_forward", z, z, *inputs, graph.num_src, *outputs)
        else:
            _call("tgnn_weighted_forward", z, z, weight, *inputs, *outputs)
    return out, saved


def backward(
    operands: Operands, grad: Tensor, saved: Saved, needs_grad: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    z, weight, graph = operands.z, operands.weight, operands.graph
    grad_z = torch.empty_like(z) if needs_grad[0] else None
    grad_weight = torch.empty_like(weight) if weight is not None and needs_grad[1] else None
    if graph.num_edges == 0 or z.numel() == 0:
        return None if grad_z is None else grad_z.zero_(), None if grad_weight is None else grad_weight.zero_()
    edges = (*graph.by_dst().kernel_args, *graph.by_src().kernel_args)
    inputs = (operands.rank, int(operands.tanh), operands.exponent, *edges, grad, *saved)
    if weight is None:
        _call("tgnn_backward", z, z, *inputs, grad_z)
    else:
        _call("tgnn_weighted_backward", z, z, weight, *inputs, grad_z, grad_weight)
    return grad_z, grad_weight


def sum(x: Tensor, weight: Tensor | None, graph: Graph, transposed: bool) -> Tensor:
    edges = graph.by_src() if transposed else graph.by_dst()
    out = x.new_empty(edges.num_groups, x.size(1))
    if out.numel():
        _call("tgnn_sum", x, x, weight, x.size(1), *edges.kernel_args, out)
    return out


# ---- operands of edges -----------------------------------------------------------------------------------------


class _Struct(ctypes.Structure):
    """A structure of ``kernels/edge_factors.h`` or ``kernels/gated_sum.h``. All its fields have eight bytes."""


def _pointers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_void_p) for name in names]


class _EdgeTerms(_Struct):
    _fields_ = [*_pointers("src", "dst", "edge", "type"), ("types", ctypes.c_int64), ("rank", ctypes.c_int64)]


class _Coefficient(_Struct):
    _fields_ = [*_pointers("values"), ("by_column", ctypes.c_int64)]


class _EdgeProduct(_Struct):
    _fields_ = [
        ("terms", _EdgeTerms),
        *((name, _Coefficient) for name in ("scale", "shift", "gate")),
        ("activation", ctypes.c_int64),
        ("bound", ctypes.c_double),
        ("exponent", ctypes.c_double),
        ("tanh", ctypes.c_int64),
    ]


class _GatedSum(_Struct):
    _fields_ = [
        ("terms", _EdgeTerms),
        *_pointers("x", "weight"),
        ("normalize", ctypes.c_int64),
        ("eps", ctypes.c_double),
    ]


class _EdgeGradients(_Struct):
    _fields_ = _pointers("src", "dst", "edge", "scale", "shift", "gate")


class _GatedGradients(_Struct):
    _fields_ = _pointers("src", "dst", "edge", "x", "weight")


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _terms_struct(terms: EdgeTerms) -> _EdgeTerms:
    addresses = (_address(t) for t in (terms.src, terms.dst, terms.edge, terms.edge_type))
    return _EdgeTerms(*addresses, 0 if terms.edge is None else terms.edge.size(0), terms.rank)


def _coefficient_struct(x: Tensor | None) -> _Coefficient:
    return _Coefficient(_address(x), int(x is not None and x.dim() == 2))


def _product_struct(op: EdgeProduct) -> _EdgeProduct:
    coefficients = (_coefficient_struct(x) for x in (op.scale, op.shift, op.gate))
    activation = FACTOR_ACTIVATIONS.index(op.factor_act)
    return _EdgeProduct(_terms_struct(op), *coefficients, activation, op.bound, op.exponent, int(op.tanh))


def _gated_struct(op: GatedSum) -> _GatedSum:
    return _GatedSum(_terms_struct(op), _address(op.x), _address(op.weight), int(op.normalize), op.eps)


def _gradients(op: EdgeTerms, struct: type[_Struct], needs_grad: Any) -> dict[str, Tensor]:
    """Allocate the gradients that are needed, by name."""
    gradients = {}
    for name, _ in struct._fields_:  # type: ignore[misc]
        x = getattr(op, name)
        if x is not None and needs_grad[name]:
            gradients[name] = torch.zeros_like(x) if op.graph.num_edges == 0 else torch.empty_like(x)
    return gradients


def _filled(struct: type[_Struct], gradients: dict[str, Tensor]) -> Any:
    return ctypes.byref(struct(**{name: x.data_ptr() for name, x in gradients.items()}))


def edge_product(op: EdgeProduct) -> Tensor:
    out = op.example.new_empty(op.graph.num_edges if op.exclusive else op.graph.num_dst, op.rank)
    if out.numel():
        kernel = "tgnn_exclusive_product" if op.exclusive else "tgnn_edge_product"
        _call(kernel, out, ctypes.byref(_product_struct(op)), *op.graph.by_dst().kernel_args, out)
    return out


def edge_product_backward(op: EdgeProduct, grad: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    gradients = _gradients(op, _EdgeGradients, needs_grad)
    if op.graph.num_edges and op.rank:
        kernel = "tgnn_exclusive_product_backward" if op.exclusive else "tgnn_edge_product_backward"
        edges = (*op.graph.by_dst().kernel_args, *op.graph.by_src().kernel_args)
        _call(kernel, grad, ctypes.byref(_product_struct(op)), *edges, grad, _filled(_EdgeGradients, gradients))
    return gradients


def exclusive_sum(x: Tensor, graph: Graph) -> Tensor:
    out = torch.empty_like(x)
    if out.numel():
        _call("tgnn_exclusive_sum", x, x, x.size(1), *graph.by_dst().kernel_args, out)
    return out


def edge_rows(terms: EdgeTerms) -> Tensor:
    out = terms.example.new_empty(terms.graph.num_edges, terms.rank)
    if out.numel():
        _call("tgnn_edge_rows", out, ctypes.byref(_terms_struct(terms)), *terms.graph.by_dst().kernel_args, out)
    return out


def edge_rows_backward(terms: EdgeTerms, grad: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    graph = terms.graph
    gradients = {
        name: grad.new_zeros(x.shape) if graph.num_edges == 0 else torch.empty_like(x)
        for name in ("src", "dst", "edge")
        if (x := getattr(terms, name)) is not None and needs_grad[name]
    }
    if grad.numel():
        if terms.edge_type is None and "edge" in gradients:
            gradients["edge"] = grad
        of_table = gradients.get("edge") if terms.edge_type is not None else None
        edges = (*graph.by_dst().kernel_args, *graph.by_src().kernel_args)
        targets = (gradients.get("src"), gradients.get("dst"), of_table)
        _call("tgnn_edge_rows_backward", grad, ctypes.byref(_terms_struct(terms)), *edges, grad, *targets)
    return gradients


def gated_sum(op: GatedSum) -> tuple[Tensor, Tensor]:
    out = op.x.new_empty(op.graph.num_dst, op.rank)
    total = torch.empty_like(out) if op.normalize else out.new_empty(0, op.rank)
    if out.numel():
        _call("tgnn_gated_sum", out, ctypes.byref(_gated_struct(op)), *op.graph.by_dst().kernel_args, out, total)
    return out, total


def gated_sum_backward(op: GatedSum, grad: Tensor, out: Tensor, total: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    gradients = _gradients(op, _GatedGradients, needs_grad)
    if op.graph.num_edges and op.rank:
        edges = (*op.graph.by_dst().kernel_args, *op.graph.by_src().kernel_args)
        inputs = (ctypes.byref(_gated_struct(op)), *edges, grad, out, total)
        _call("tgnn_gated_sum_backward", grad, *inputs, _filled(_GatedGradients, gradients))
    return gradients


def _call(function: str, like: Tensor, *arguments: Any) -> None:
    """Call the kernel for the type of ``like``."""
    library = cpp_build.load()
    assert library is not None, cpp_build.why_unavailable()
    library.call(f"{function}_{_SUFFIX[like.dtype]}", *arguments)
