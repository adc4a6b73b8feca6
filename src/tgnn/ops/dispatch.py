"""Which backend computes a product, and the product as an operator that torch knows.

``tgnn::neighbor_product`` and its backward are registered with ``torch.library``: opaque to ``torch.compile``, with
shapes and derivatives declared here. The graph travels as a layout (``graph.py``) and is looked up when the
operator runs, so that nothing is sorted or checked twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor

from tgnn.ops import backend_cpp, backend_reference, backend_torch, backend_triton
from tgnn.ops.backend_reference import finite
from tgnn.ops.graph import graph_of
from tgnn.ops.problem import Gradients, Problem, Saved, Wanted
from tgnn.ops.second_order import second_derivatives
from tgnn.ops.tracing import as_function, is_plain_eager


class Backend(Protocol):
    """What a module must have to compute products."""

    name: str

    def unavailable(self) -> str | None:
        """Why it cannot run on this machine; ``None``: it can."""

    def unsupported(self, problem: Problem) -> str | None:
        """Why it cannot take this input; ``None``: it can."""

    def forward(self, problem: Problem, save: bool) -> tuple[Tensor, Saved | None]:
        """The result, and what the backward pass needs if ``save``."""

    def backward(self, problem: Problem, grad: Tensor, saved: Saved, wanted: Wanted) -> Gradients:
        """Gradients of the inputs from the gradient of the result; what is not wanted may be ``None``."""

    def sum(self, problem: Problem, transposed: bool) -> Tensor:
        """``sum w z`` over the edges into each destination; ``transposed``: over those out of each source."""


_BACKENDS: dict[str, Backend] = {
    module.name: module for module in (backend_cpp, backend_triton, backend_torch, backend_reference)
}  # fastest first
_forced: ContextVar[str | None] = ContextVar("tgnn_backend", default=None)


def available_backends() -> dict[str, str]:
    """Every backend, fastest first, with ``"available"`` or the reason that it is not.

    Example:
        >>> available_backends()["reference"]
        'available'
    """
    return {name: backend.unavailable() or "available" for name, backend in _BACKENDS.items()}


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Products made in the block by this thread (or async task), and their gradients, are computed by that backend.

    Args:
        name: ``"reference"``, ``"torch"``, ``"cpp"`` or ``"triton"``.

    Example:
        >>> with use_backend("reference"):
        ...     pass
    """
    if name not in _BACKENDS:
        raise ValueError(f"there is no backend {name!r}; choose one of {', '.join(map(repr, _BACKENDS))}")
    if reason := _BACKENDS[name].unavailable():
        raise RuntimeError(f"the backend {name!r} is not available: {reason}")
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def forced_backend() -> str | None:
    return _forced.get()


@contextlib.contextmanager
def remembered_backend(name: str | None) -> Iterator[None]:
    """The backend of a forward pass, for its backward pass: it may run in autograd's thread, or after the block."""
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def backend_for(problem: Problem) -> Backend:
    if (name := _forced.get()) is not None:
        if reason := _BACKENDS[name].unsupported(problem):
            raise RuntimeError(f"the backend {name!r} cannot take this input: {reason}")
        return _BACKENDS[name]
    return next(b for b in _BACKENDS.values() if b.unsupported(problem) is None and b.unavailable() is None)


# ---- the operators ---------------------------------------------------------------------------------------------

GRAPH = "Tensor index, Tensor? columns, str kind, SymInt num_src, SymInt num_dst"
torch.library.define(
    "tgnn::neighbor_product",
    f"(Tensor z, Tensor? addend, Tensor? weight, {GRAPH}, bool tanh, bool save) -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "tgnn::neighbor_product_backward",
    f"(Tensor grad, Tensor z, Tensor? addend, Tensor? weight, {GRAPH}, bool tanh, Tensor state, Tensor least, "
    "bool[3] wanted) -> (Tensor, Tensor, Tensor)",
)
DEVICES = ("cpu", "cuda")
_forward_op = torch.ops.tgnn.neighbor_product.default
_backward_op = torch.ops.tgnn.neighbor_product_backward.default


def widened(dtype: torch.dtype) -> torch.dtype:
    """What products are computed and kept in: half precision is widened."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_weight(weight: Tensor | None) -> None:
    """Refuses a weight that would move a factor away from 1, or past itself."""
    if weight is not None and bool((wrong := (weight < 0) | (weight > 1)).any()):  # NaN is not hidden, nor refused
        raise ValueError(
            f"edge_weight contains {float(weight[wrong][0])}, but must lie in [0, 1], from 'not there' to 'whole'; "
            "divide by the largest, or give such numbers as edge features"
        )


def make_problem(z: Tensor, addend: Tensor | None, weight: Tensor | None, graph: Sequence[Any], tanh: bool) -> Problem:
    index, columns, kind, num_src, num_dst = graph
    found = graph_of(kind, index, columns, num_src, num_dst)
    dtype = widened(z.dtype)
    addend, weight = (None if t is None else t.to(dtype).contiguous() for t in (addend, weight))
    return Problem(z.to(dtype).contiguous(), addend, weight, found, tanh)


def _forward(z: Tensor, addend: Tensor | None, weight: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    *graph, tanh, save = rest
    check_weight(weight)
    problem = make_problem(z, addend, weight, graph, tanh)
    out, saved = backend_for(problem).forward(problem, save)
    if saved is None:
        saved = Saved(problem.z.new_empty(0, problem.rank), problem.z.new_empty(0))
    return out.to(z.dtype), saved.state, saved.least


def _forward_shapes(z: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    num_dst, _, save = rest[-3:]
    rows, wide = (num_dst if save else 0), widened(z.dtype)
    state, least = z.new_empty(rows, z.size(1), dtype=wide), z.new_empty(rows, dtype=wide)
    return z.new_empty(num_dst, z.size(1)), state, least


def _backward(
    grad: Tensor, z: Tensor, addend: Tensor | None, weight: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *graph, tanh, state, least, wanted = rest
    problem = make_problem(z, addend, weight, graph, tanh)
    backend = backend_for(problem)
    gradients = backend.backward(problem, grad.to(problem.z.dtype), Saved(state, least), Wanted(*wanted))
    first, second, third = (
        (g if t.dtype == g.dtype else finite(g, t.dtype).to(t.dtype))
        if want and g is not None and t is not None
        else z.new_empty(0)
        for g, t, want in zip(gradients, (z, addend, weight), wanted)
    )
    return first, second, third


def _backward_shapes(
    grad: Tensor, z: Tensor, addend: Tensor | None, weight: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    first, second, third = (
        t.new_empty(t.shape) if want and t is not None else z.new_empty(0)
        for t, want in zip((z, addend, weight), rest[-1])
    )
    return first, second, third


for _device in DEVICES:
    torch.library.impl("tgnn::neighbor_product", _device, _forward)
    torch.library.impl("tgnn::neighbor_product_backward", _device, _backward)
torch.library.register_fake("tgnn::neighbor_product", _forward_shapes)
torch.library.register_fake("tgnn::neighbor_product_backward", _backward_shapes)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    z, addend, weight, index, columns, *ctx.rest, _ = inputs
    ctx.backend = forced_backend()
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(z, addend, weight, index, columns, *output[1:])


def _differentiate(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    z, addend, weight, index, columns, state, least = ctx.saved_tensors
    nothing = (None,) * 7
    if grad is None:
        return (None, None, None, *nothing)
    wanted = list(ctx.needs_input_grad[:3])
    with remembered_backend(ctx.backend):
        backward = _backward if not torch.is_grad_enabled() and is_plain_eager(grad) else _backward_op
        gradients = backward(grad, z, addend, weight, index, columns, *ctx.rest, state, least, wanted)
    return (*(g if want else None for g, want in zip(gradients, wanted)), *nothing)


def _remember_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    grad, z, addend, weight, index, columns, *ctx.rest, _, _, ctx.wanted = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(grad, z, addend, weight, index, columns)


def _differentiate_backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
    grad, z, addend, weight, index, columns = ctx.saved_tensors
    kind, num_src, num_dst, tanh = ctx.rest
    given = [c if want else None for c, want in zip(cotangents, ctx.wanted)]
    graph = graph_of(kind, index, columns, num_src, num_dst)
    derivatives = second_derivatives(grad, [z, addend, weight], graph, tanh, given)
    return (*derivatives, *(None,) * 9)


torch.library.register_autograd("tgnn::neighbor_product", _differentiate, setup_context=_remember)
torch.library.register_autograd(
    "tgnn::neighbor_product_backward", _differentiate_backward, setup_context=_remember_backward
)
_forward_function = as_function(_forward, _remember, _differentiate)


def product(z: Tensor, addend: Tensor | None, weight: Tensor | None, graph: Sequence[Any], tanh: bool) -> Tensor:
    """``act(prod f)`` by the fastest backend that takes the input; ``product.py`` is the front that checks it.

    Args:
        z: Factors ``[N_src, R]``.
        addend: ``[E, R]`` or ``None``.
        weight: ``[E]`` or ``None``.
        graph: A layout (see ``graph.py``): one or two tensors, their kind, the numbers of sources and destinations.
        tanh: Whether to apply tanh to the product.
    """
    save = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (z, addend, weight))
    compute: Callable[..., Any] = _forward_op
    if is_plain_eager(z):
        compute = _forward_function if save else _forward
    out: Tensor = compute(z, addend, weight, *graph, tanh, save)[0]
    return out
