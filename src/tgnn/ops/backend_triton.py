"""Backend ``triton``: the kernels for CUDA, with one program per row and block of columns and no atomics.

Products always carry an exponent, and the backward pass computes them again, as ``kernels/`` does for wide rows.
``TRITON_INTERPRET=1`` runs the kernels on the CPU. This is slow and meant for tests without a GPU.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os

import torch
from torch import Tensor

from tgnn.ops.backend_reference import clamp_to_finite
from tgnn.ops.backend_torch import sum as sum  # on a GPU the sparse product of torch is fast enough for sums
from tgnn.ops.graph import CompressedEdges
from tgnn.ops.operands import Gradients, NeedsGrad, Operands, Saved

name = "triton"

_BLOCK = 128  # columns per program


def _interpreting() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def unavailable() -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (pip install triton)"
    if not torch.cuda.is_available() and not _interpreting():
        return "there is no CUDA device (for tests, TRITON_INTERPRET=1 runs it on the CPU)"
    return None


def unsupported(operands: Operands) -> str | None:
    if operands.z.device.type != "cuda" and not _interpreting():
        return f"it runs on CUDA, but z is on {operands.z.device}"
    return None


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    from tgnn.ops.triton_kernels import multiply

    out = operands.z.new_empty(operands.graph.num_dst, operands.rank)
    if out.numel():
        in_edges = operands.graph.by_dst()
        with _device_of(out):
            multiply[_grid(operands, in_edges)](
                *_inputs(operands), *_edge_args(in_edges), None, out, None, **_constants(operands, in_edges)
            )
    # min_factor = 0 marks every row as wide: the backward pass computes its product again.
    return out, Saved(torch.zeros_like(out), out.new_zeros(operands.graph.num_dst)) if save else None


def backward(operands: Operands, grad: Tensor, saved: Saved, needs_grad: NeedsGrad) -> Gradients:
    from tgnn.ops.triton_kernels import distribute, multiply

    z, graph = operands.z, operands.graph
    by_dst, by_src = graph.by_dst(), graph.by_src()
    mantissa = z.new_empty(graph.num_dst, operands.rank, dtype=torch.float64)
    code = torch.empty_like(mantissa, dtype=torch.int32)
    grad_z = torch.zeros_like(z)
    grad_addend = None if operands.addend is None else torch.zeros_like(operands.addend)
    blocks = -(-operands.rank // _BLOCK)
    partial = z.new_zeros(blocks, graph.num_edges, dtype=torch.float64) if operands.weight is not None else None
    with _device_of(z):
        if mantissa.numel():
            multiply[_grid(operands, by_dst)](
                *_inputs(operands),
                *_edge_args(by_dst),
                grad.contiguous(),
                mantissa,
                code,
                **_constants(operands, by_dst),
            )
        if z.numel():
            distribute[_grid(operands, by_src)](
                *_inputs(operands),
                *_edge_args(by_src),
                mantissa,
                code,
                grad_z,
                grad_addend,
                partial,
                graph.num_edges,
                **_constants(operands, by_src),
            )
    grad_weight = None if partial is None else clamp_to_finite(clamp_to_finite(partial).sum(0), z.dtype).to(z.dtype)
    return Gradients(grad_z, grad_addend, grad_weight)


def _device_of(x: Tensor) -> contextlib.AbstractContextManager[object]:
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def _grid(operands: Operands, edges: CompressedEdges) -> tuple[int, int]:
    return edges.num_groups, -(-operands.rank // _BLOCK)


def _inputs(operands: Operands) -> tuple[Tensor | None, Tensor | None, Tensor | None, int]:
    return operands.z, operands.addend, operands.weight, operands.rank


def _edge_args(edges: CompressedEdges) -> tuple[Tensor, Tensor, Tensor | None]:
    return edges.ptr, edges.index, edges.perm


def _constants(operands: Operands, edges: CompressedEdges) -> dict[str, object]:
    return {
        "TANH": operands.tanh,
        "HAS_ADDEND": operands.addend is not None,
        "HAS_WEIGHT": operands.weight is not None,
        "HAS_EDGE": edges.perm is not None,
        "BLOCK": _BLOCK,
    }
