"""Backend ``cpp``: the C++ kernels of ``kernels/``, run on the threads of torch."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.ops import cpp_build
from tgnn.ops.graph import CompressedEdges
from tgnn.ops.operands import Gradients, NeedsGrad, Operands, Saved

name = "cpp"

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def unavailable() -> str | None:
    return cpp_build.why_unavailable()


def unsupported(operands: Operands) -> str | None:
    if operands.z.device.type != "cpu":
        return f"it runs on the CPU, but z is on {operands.z.device}"
    if operands.graph.by_dst().index.dtype != torch.int32:
        return "the node indices do not fit into 32 bits"
    return None


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    z, graph = operands.z, operands.graph
    out = z.new_empty(graph.num_dst, operands.rank)
    saved = Saved(torch.empty_like(out), z.new_empty(graph.num_dst)) if save else None
    if out.numel():
        to_save = saved or (None, None)
        _call("tgnn_forward", operands, *_edge_args(graph.by_dst()), graph.num_src, out, *to_save)
    return out, saved


def backward(operands: Operands, grad: Tensor, saved: Saved, needs_grad: NeedsGrad) -> Gradients:
    z, graph = operands.z, operands.graph
    if graph.num_edges == 0:  # an empty tensor has a null pointer, which means "absent" to the kernel
        inputs = (z, operands.addend, operands.weight)
        return Gradients(*(None if t is None else torch.zeros_like(t) for t in inputs))
    grad_z = torch.empty_like(z) if needs_grad.z or not operands.has_edge_terms else None
    grad_addend = torch.empty_like(operands.addend) if needs_grad.addend and operands.addend is not None else None
    grad_weight = None
    if needs_grad.weight and operands.weight is not None:
        grad_weight = torch.zeros_like(operands.weight, dtype=torch.float64)
    if z.numel():
        edges = (*_edge_args(graph.by_dst()), *_edge_args(graph.by_src()))
        q = torch.empty_like(saved.state)
        gradients = (grad_z, grad_addend, grad_weight)
        _call("tgnn_backward", operands, *edges, grad.contiguous(), saved.state, saved.min_factor, q, *gradients)
    return Gradients(grad_z, grad_addend, _clamped(grad_weight, z.dtype))


def sum(operands: Operands, transposed: bool) -> Tensor:
    edges = operands.graph.by_src() if transposed else operands.graph.by_dst()
    out = operands.z.new_empty(edges.num_groups, operands.rank)
    if out.numel():
        inputs = (operands.z, operands.weight, operands.rank)
        _library().call(f"tgnn_sum_{_SUFFIX[operands.z.dtype]}", *inputs, *_edge_args(edges), out)
    return out


def _library() -> cpp_build.Library:
    library = cpp_build.load()
    assert library is not None, cpp_build.why_unavailable()
    return library


def _call(function: str, operands: Operands, *arguments: Tensor | int | None) -> None:
    inputs = (operands.z, operands.addend, operands.weight, operands.rank, int(operands.tanh))
    _library().call(f"{function}_{_SUFFIX[operands.z.dtype]}", *inputs, *arguments)


def _edge_args(edges: CompressedEdges) -> tuple[int, Tensor, Tensor, Tensor | None]:
    return edges.num_groups, edges.ptr, edges.index, edges.perm


def _clamped(x: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if x is None else x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max).to(dtype)
