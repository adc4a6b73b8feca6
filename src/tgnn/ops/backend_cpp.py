"""Backend ``cpp``: the kernels of ``kernels/`` on torch's own threads."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.ops import cpp_build
from tgnn.ops.graph import Grouping
from tgnn.ops.problem import Gradients, Problem, Saved, Wanted

name = "cpp"

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


def unavailable() -> str | None:
    return cpp_build.why_unavailable()


def unsupported(problem: Problem) -> str | None:
    if problem.z.device.type != "cpu":
        return f"it runs on the CPU, and z is on {problem.z.device}"
    if problem.graph.by_dst().other.dtype != torch.int32:
        return "node numbers do not fit 32 bits"
    return None


def forward(problem: Problem, save: bool) -> tuple[Tensor, Saved | None]:
    z, graph = problem.z, problem.graph
    out = z.new_empty(graph.num_dst, problem.rank)
    saved = Saved(torch.empty_like(out), z.new_empty(graph.num_dst)) if save else None
    if out.numel():
        kept = saved or (None, None)
        _call("tgnn_forward", problem, *_group(graph.by_dst()), graph.num_src, out, *kept)
    return out, saved


def backward(problem: Problem, grad: Tensor, saved: Saved, wanted: Wanted) -> Gradients:
    z, graph = problem.z, problem.graph
    if graph.num_edges == 0:  # an empty tensor has no address: the kernel would take it for one that is absent
        inputs = (z, problem.addend, problem.weight)
        return Gradients(*(None if t is None else torch.zeros_like(t) for t in inputs))
    grad_z = torch.empty_like(z) if wanted.z or not problem.has_edge_terms else None
    grad_addend = torch.empty_like(problem.addend) if wanted.addend and problem.addend is not None else None
    grad_weight = None
    if wanted.weight and problem.weight is not None:
        grad_weight = torch.zeros_like(problem.weight, dtype=torch.float64)
    if z.numel():
        groups = (*_group(graph.by_dst()), *_group(graph.by_src()))
        q = torch.empty_like(saved.state)
        results = (grad_z, grad_addend, grad_weight)
        _call("tgnn_backward", problem, *groups, grad.contiguous(), saved.state, saved.least, q, *results)
    return Gradients(grad_z, grad_addend, _saturated(grad_weight, z.dtype))


def sum(problem: Problem, transposed: bool) -> Tensor:
    by = problem.graph.by_src() if transposed else problem.graph.by_dst()
    out = problem.z.new_empty(by.num_groups, problem.rank)
    if out.numel():
        inputs = (problem.z, problem.weight, problem.rank)
        _library().call(f"tgnn_sum_{_SUFFIX[problem.z.dtype]}", *inputs, *_group(by), out)
    return out


def _library() -> cpp_build.Library:
    library = cpp_build.load()
    assert library is not None, cpp_build.why_unavailable()
    return library


def _call(function: str, problem: Problem, *arguments: Tensor | int | None) -> None:
    inputs = (problem.z, problem.addend, problem.weight, problem.rank, int(problem.tanh))
    _library().call(f"{function}_{_SUFFIX[problem.z.dtype]}", *inputs, *arguments)


def _group(by: Grouping) -> tuple[int, Tensor, Tensor, Tensor | None]:
    return by.num_groups, by.ptr, by.other, by.edge


def _saturated(x: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if x is None else x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max).to(dtype)
