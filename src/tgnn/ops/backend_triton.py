"""Backend ``triton``: the same algorithm for CUDA, one program per row and block of columns, no atomics.

It always keeps products with their exponent (what ``kernels/`` does for wide rows) and forms them again in the backward
pass. ``TRITON_INTERPRET=1`` runs the kernels on the CPU, slowly: that is how they are tested without a GPU.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os

import torch
from torch import Tensor

from tgnn.ops.backend_reference import finite
from tgnn.ops.backend_torch import sum as sum  # torch's own sparse product is all that a sum needs on a GPU
from tgnn.ops.graph import Grouping
from tgnn.ops.problem import Gradients, Problem, Saved, Wanted

name = "triton"

_BLOCK = 128  # columns of one program


def _interpreting() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def unavailable() -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (pip install triton)"
    if not torch.cuda.is_available() and not _interpreting():
        return "there is no CUDA device (TRITON_INTERPRET=1 runs it on the CPU, for testing)"
    return None


def unsupported(problem: Problem) -> str | None:
    if problem.z.device.type != "cuda" and not _interpreting():
        return f"it runs on CUDA, and z is on {problem.z.device}"
    return None


def forward(problem: Problem, save: bool) -> tuple[Tensor, Saved | None]:
    from tgnn.ops.triton_kernels import multiply

    out = problem.z.new_empty(problem.graph.num_dst, problem.rank)
    if out.numel():
        by = problem.graph.by_dst()
        with _device_of(out):
            multiply[_grid(problem, by)](*_inputs(problem), *_group(by), None, out, None, **_constants(problem, by))
    # Least 0 says of every row that the backward pass must form it again.
    return out, Saved(torch.zeros_like(out), out.new_zeros(problem.graph.num_dst)) if save else None


def backward(problem: Problem, grad: Tensor, saved: Saved, wanted: Wanted) -> Gradients:
    from tgnn.ops.triton_kernels import distribute, multiply

    z, graph = problem.z, problem.graph
    by_dst, by_src = graph.by_dst(), graph.by_src()
    mantissa = z.new_empty(graph.num_dst, problem.rank, dtype=torch.float64)
    code = torch.empty_like(mantissa, dtype=torch.int32)
    grad_z = torch.zeros_like(z)
    grad_addend = None if problem.addend is None else torch.zeros_like(problem.addend)
    blocks = -(-problem.rank // _BLOCK)
    partial = z.new_zeros(blocks, graph.num_edges, dtype=torch.float64) if problem.weight is not None else None
    with _device_of(z):
        if mantissa.numel():
            multiply[_grid(problem, by_dst)](
                *_inputs(problem), *_group(by_dst), grad.contiguous(), mantissa, code, **_constants(problem, by_dst)
            )
        if z.numel():
            distribute[_grid(problem, by_src)](
                *_inputs(problem),
                *_group(by_src),
                mantissa,
                code,
                grad_z,
                grad_addend,
                partial,
                graph.num_edges,
                **_constants(problem, by_src),
            )
    grad_weight = None if partial is None else finite(finite(partial).sum(0), z.dtype).to(z.dtype)
    return Gradients(grad_z, grad_addend, grad_weight)


def _device_of(x: Tensor) -> contextlib.AbstractContextManager[object]:
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def _grid(problem: Problem, by: Grouping) -> tuple[int, int]:
    return by.num_groups, -(-problem.rank // _BLOCK)


def _inputs(problem: Problem) -> tuple[Tensor | None, Tensor | None, Tensor | None, int]:
    return problem.z, problem.addend, problem.weight, problem.rank


def _group(by: Grouping) -> tuple[Tensor, Tensor, Tensor | None]:
    return by.ptr, by.other, by.edge


def _constants(problem: Problem, by: Grouping) -> dict[str, object]:
    return {
        "TANH": problem.tanh,
        "HAS_ADDEND": problem.addend is not None,
        "HAS_WEIGHT": problem.weight is not None,
        "HAS_EDGE": by.edge is not None,
        "BLOCK": _BLOCK,
    }
