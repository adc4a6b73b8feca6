"""Backend ``triton``: the kernels for CUDA, with one program per row and block of columns and no atomics.

Products always carry an exponent, and the backward pass computes them again, as ``kernels/`` does for wide rows.
Products with other edge factors than ``w (z_u + y_e) + (1 - w)`` are computed by the torch backend.
``TRITON_INTERPRET=1`` runs the kernels on the CPU. This is slow and meant for tests without a GPU.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tgnn.ops import backend_torch
from tgnn.ops.backend_reference import as_edge_product, nothing_saved
from tgnn.ops.graph import CompressedEdges, Graph
from tgnn.ops.operands import EdgeProduct, Operands, Saved
from tgnn.ops.scaled import clamp_to_finite, finite_sum

name = "triton"

_BLOCK = 128  # columns per program

# On a GPU, the torch operations are fast enough for sums.
sum = backend_torch.sum
exclusive_sum = backend_torch.exclusive_sum
edge_rows, edge_rows_backward = backend_torch.edge_rows, backend_torch.edge_rows_backward
gated_sum, gated_sum_backward = backend_torch.gated_sum, backend_torch.gated_sum_backward


def _interpreting() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def unavailable() -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (pip install triton)"
    if not torch.cuda.is_available() and not _interpreting():
        return "there is no CUDA device (for tests, TRITON_INTERPRET=1 runs it on the CPU)"
    return None


def unsupported(x: Tensor, graph: Graph) -> str | None:
    if x.device.type != "cuda" and not _interpreting():
        return f"it runs on CUDA, but z is on {x.device}"
    return None


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    multiply = backend_torch.edge_product if operands.exponent else _multiply
    out = multiply(as_edge_product(operands))
    return out, nothing_saved(out) if save else None


def backward(
    operands: Operands, grad: Tensor, saved: Saved, needs_grad: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    if operands.exponent:
        gradients = backend_torch.edge_product_backward(as_edge_product(operands), grad, None)
    else:
        gradients = _distribute(as_edge_product(operands), grad)
    return gradients["src"], gradients.get("gate")


def edge_product(op: EdgeProduct) -> Tensor:
    return _multiply(op) if _has_kernel(op) else backend_torch.edge_product(op)


def edge_product_backward(op: EdgeProduct, grad: Tensor, needs_grad: Any) -> dict[str, Tensor]:
    return _distribute(op, grad) if _has_kernel(op) else backend_torch.edge_product_backward(op, grad, needs_grad)


def _has_kernel(op: EdgeProduct) -> bool:
    """Return whether the kernels compute this product: ``f = w (z_u + y_e) + (1 - w)``, in float32.

    In float64 they would not be finite for terms near the largest number.
    """
    only_supported = op.dst is None and op.edge_type is None and op.scale is None and op.shift is None
    simple = op.factor_act == "identity" and op.exponent == 0 and not op.exclusive
    by_edge = op.gate is None or op.gate.dim() == 1
    return op.src is not None and op.src.dtype == torch.float32 and only_supported and simple and by_edge


def _multiply(op: EdgeProduct) -> Tensor:
    from tgnn.ops.triton_kernels import multiply

    out = op.example.new_empty(op.graph.num_dst, op.rank)
    if out.numel():
        in_edges = op.graph.by_dst()
        with _device_of(out):
            multiply[_grid(op, in_edges)](
                *_inputs(op), *_edge_args(in_edges), None, out, None, **_constants(op, in_edges)
            )
    return out


def _distribute(op: EdgeProduct, grad: Tensor) -> dict[str, Tensor]:
    from tgnn.ops.triton_kernels import distribute, multiply

    z, graph = op.example, op.graph
    by_dst, by_src = graph.by_dst(), graph.by_src()
    mantissa = z.new_empty(graph.num_dst, op.rank, dtype=torch.float64)
    code = torch.empty_like(mantissa, dtype=torch.int32)
    grad_z = torch.zeros_like(z)
    grad_edge = None if op.edge is None else torch.zeros_like(op.edge)
    blocks = -(-op.rank // _BLOCK)
    partial = z.new_zeros(blocks, graph.num_edges, dtype=torch.float64) if op.gate is not None else None
    with _device_of(z):
        if mantissa.numel():
            multiply[_grid(op, by_dst)](
                *_inputs(op),
                *_edge_args(by_dst),
                grad.contiguous(),
                mantissa,
                code,
                **_constants(op, by_dst),
            )
        if z.numel():
            distribute[_grid(op, by_src)](
                *_inputs(op),
                *_edge_args(by_src),
                mantissa,
                code,
                grad_z,
                grad_edge,
                partial,
                graph.num_edges,
                **_constants(op, by_src),
            )
    gradients = {"src": grad_z}
    if grad_edge is not None:
        gradients["edge"] = grad_edge
    if partial is not None:
        gradients["gate"] = clamp_to_finite(finite_sum(clamp_to_finite(partial), 0), z.dtype).to(z.dtype)
    return gradients


def _device_of(x: Tensor) -> contextlib.AbstractContextManager[object]:
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def _grid(op: EdgeProduct, edges: CompressedEdges) -> tuple[int, int]:
    return edges.num_groups, -(-op.rank // _BLOCK)


def _inputs(op: EdgeProduct) -> tuple[Tensor | None, Tensor | None, Tensor | None, int]:
    return op.src, op.edge, op.gate, op.rank


def _edge_args(edges: CompressedEdges) -> tuple[Tensor, Tensor, Tensor | None]:
    return edges.ptr, edges.index, edges.perm


def _constants(op: EdgeProduct, edges: CompressedEdges) -> dict[str, object]:
    return {
        "TANH": op.tanh,
        "HAS_ADDEND": op.edge is not None,
        "HAS_WEIGHT": op.gate is not None,
        "HAS_EDGE": edges.perm is not None,
        "BLOCK": _BLOCK,
    }
