"""Selection of the backend, and registration of the product as an operator of ``torch.library``.

``tgnn::neighbor_product`` and its backward pass are opaque to ``torch.compile``; their shapes and derivatives are
declared here. The operators receive the graph as tensors (see ``graph.py``) and look it up in the cache, so nothing is
sorted or checked twice.

All backends compute the function that ``backend_reference.py`` defines. This includes its rule for zero factors: the
gradient of a zero factor is the product of the other factors, and with two or more zeros all gradients are 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor

from tgnn.ops import backend_cpp, backend_reference, backend_torch, backend_triton
from tgnn.ops.backend_reference import clamp_to_finite
from tgnn.ops.graph import get_graph
from tgnn.ops.operands import Gradients, NeedsGrad, Operands, Saved
from tgnn.ops.second_order import second_derivatives
from tgnn.ops.tracing import as_autograd_function, is_plain_eager


class Backend(Protocol):
    """Functions that a backend module must have."""

    name: str

    def unavailable(self) -> str | None:
        """Return why the backend cannot run on this machine, or ``None`` if it can."""

    def unsupported(self, operands: Operands) -> str | None:
        """Return why the backend cannot compute this input, or ``None`` if it can."""

    def forward(self, operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
        """Compute the result and, if ``save``, the tensors for the backward pass."""

    def backward(self, operands: Operands, grad: Tensor, saved: Saved, needs_grad: NeedsGrad) -> Gradients:
        """Compute the gradients of the operands; one that ``needs_grad`` does not ask for may be ``None``.

        ``backend_reference.backward`` defines them: the gradient of a factor is the product of the *other* factors of
        its row, times the gradient of the result and the slope of the activation. So the gradient of a single zero
        factor is the product of the others, and two or more zeros make all gradients 0.
        """

    def sum(self, operands: Operands, transposed: bool) -> Tensor:
        """Compute ``sum w z`` over the edges into each destination, or out of each source if ``transposed``."""


_BACKENDS: dict[str, Backend] = {
    module.name: module for module in (backend_cpp, backend_triton, backend_torch, backend_reference)
}  # fastest first: the first one that supports the input is used
_forced: ContextVar[str | None] = ContextVar("tgnn_backend", default=None)


def available_backends() -> dict[str, str]:
    """Return every backend, fastest first, with ``"available"`` or the reason why it is not available.

    Example:
        >>> available_backends()["reference"]
        'available'
    """
    return {name: backend.unavailable() or "available" for name, backend in _BACKENDS.items()}


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Context manager that computes products and their gradients with one backend.

    It applies to the current thread or asynchronous task. Without it, the fastest backend that supports the input is
    used.

    Args:
        name: ``"reference"``, ``"torch"``, ``"cpp"`` or ``"triton"``.

    Example:
        >>> with use_backend("reference"):
        ...     pass
    """
    if name not in _BACKENDS:
        raise ValueError(f"There is no backend {name!r}; choose one of {', '.join(map(repr, _BACKENDS))}.")
    if reason := _BACKENDS[name].unavailable():
        raise RuntimeError(f"The backend {name!r} is not available: {reason}.")
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def forced_backend() -> str | None:
    return _forced.get()


@contextlib.contextmanager
def restored_backend(name: str | None) -> Iterator[None]:
    """Select the backend of the forward pass again, for its backward pass.

    The backward pass may run in a thread of autograd, or after the block of :func:`use_backend` has ended.
    """
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def backend_for(operands: Operands) -> Backend:
    """Return the backend of :func:`use_backend`, else the fastest one that is available and supports the input."""
    if (name := _forced.get()) is not None:
        if reason := _BACKENDS[name].unsupported(operands):
            raise RuntimeError(f"The backend {name!r} does not support this input: {reason}.")
        return _BACKENDS[name]
    return next(b for b in _BACKENDS.values() if b.unsupported(operands) is None and b.unavailable() is None)


# ---- the operators ---------------------------------------------------------------------------------------------

GRAPH_SCHEMA = "Tensor index, Tensor? columns, str format, SymInt num_src, SymInt num_dst"
torch.library.define(
    "tgnn::neighbor_product",
    f"(Tensor z, Tensor? addend, Tensor? weight, {GRAPH_SCHEMA}, bool tanh, bool save) -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "tgnn::neighbor_product_backward",
    f"(Tensor grad, Tensor z, Tensor? addend, Tensor? weight, {GRAPH_SCHEMA}, bool tanh, Tensor state, "
    "Tensor min_factor, bool[3] needs_grad) -> (Tensor, Tensor, Tensor)",
)
DEVICES = ("cpu", "cuda")
_forward_op = torch.ops.tgnn.neighbor_product.default
_backward_op = torch.ops.tgnn.neighbor_product_backward.default


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which products are computed: float32 for half precision, else the type itself."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_edge_weight(weight: Tensor | None) -> None:
    """Raise a ``ValueError`` if a weight is outside [0, 1], the range in which it moves a factor toward 1."""
    if weight is not None and bool((wrong := (weight < 0) | (weight > 1)).any()):  # NaN passes, and gives NaN
        raise ValueError(
            f"edge_weight contains {float(weight[wrong][0])}, but must lie in [0, 1], where 0 removes the edge; "
            "divide the weights by the largest one, or pass them as edge features."
        )


def make_operands(
    z: Tensor, addend: Tensor | None, weight: Tensor | None, graph_args: Sequence[Any], tanh: bool
) -> Operands:
    """Convert the arguments of an operator to the operands of a backend."""
    index, columns, format, num_src, num_dst = graph_args
    graph = get_graph(format, index, columns, num_src, num_dst)
    dtype = compute_dtype(z.dtype)
    addend, weight = (None if t is None else t.to(dtype).contiguous() for t in (addend, weight))
    return Operands(z.to(dtype).contiguous(), addend, weight, graph, tanh)


def _forward(z: Tensor, addend: Tensor | None, weight: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    *graph_args, tanh, save = rest
    check_edge_weight(weight)
    operands = make_operands(z, addend, weight, graph_args, tanh)
    out, saved = backend_for(operands).forward(operands, save)
    if saved is None:
        saved = Saved(operands.z.new_empty(0, operands.rank), operands.z.new_empty(0))
    return out.to(z.dtype), saved.state, saved.min_factor


def _forward_fake(z: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    num_dst, _, save = rest[-3:]
    rows, wide = (num_dst if save else 0), compute_dtype(z.dtype)
    state, min_factor = z.new_empty(rows, z.size(1), dtype=wide), z.new_empty(rows, dtype=wide)
    return z.new_empty(num_dst, z.size(1)), state, min_factor


def _backward(
    grad: Tensor, z: Tensor, addend: Tensor | None, weight: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *graph_args, tanh, state, min_factor, needs_grad = rest
    operands = make_operands(z, addend, weight, graph_args, tanh)
    backend = backend_for(operands)
    gradients = backend.backward(operands, grad.to(operands.z.dtype), Saved(state, min_factor), NeedsGrad(*needs_grad))
    first, second, third = (
        (g if t.dtype == g.dtype else clamp_to_finite(g, t.dtype).to(t.dtype))
        if needed and g is not None and t is not None
        else z.new_empty(0)
        for g, t, needed in zip(gradients, (z, addend, weight), needs_grad)
    )
    return first, second, third


def _backward_fake(
    grad: Tensor, z: Tensor, addend: Tensor | None, weight: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    first, second, third = (
        t.new_empty(t.shape) if needed and t is not None else z.new_empty(0)
        for t, needed in zip((z, addend, weight), rest[-1])
    )
    return first, second, third


for _device in DEVICES:
    torch.library.impl("tgnn::neighbor_product", _device, _forward)
    torch.library.impl("tgnn::neighbor_product_backward", _device, _backward)
torch.library.register_fake("tgnn::neighbor_product", _forward_fake)
torch.library.register_fake("tgnn::neighbor_product_backward", _backward_fake)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    z, addend, weight, index, columns, *ctx.rest, _ = inputs
    ctx.backend = forced_backend()
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(z, addend, weight, index, columns, *output[1:])


def _autograd_backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    z, addend, weight, index, columns, state, min_factor = ctx.saved_tensors
    not_differentiable = (None,) * 7
    if grad is None:
        return (None, None, None, *not_differentiable)
    needs_grad = list(ctx.needs_input_grad[:3])
    with restored_backend(ctx.backend):
        backward = _backward if not torch.is_grad_enabled() and is_plain_eager(grad) else _backward_op
        gradients = backward(grad, z, addend, weight, index, columns, *ctx.rest, state, min_factor, needs_grad)
    return (*(g if needed else None for g, needed in zip(gradients, needs_grad)), *not_differentiable)


def _setup_double_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    grad, z, addend, weight, index, columns, *ctx.rest, _, _, ctx.needs_grad = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(grad, z, addend, weight, index, columns)


def _double_backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
    grad, z, addend, weight, index, columns = ctx.saved_tensors
    format, num_src, num_dst, tanh = ctx.rest
    given = [c if needed else None for c, needed in zip(cotangents, ctx.needs_grad)]
    graph = get_graph(format, index, columns, num_src, num_dst)
    derivatives = second_derivatives(grad, [z, addend, weight], graph, tanh, given)
    return (*derivatives, *(None,) * 9)


torch.library.register_autograd("tgnn::neighbor_product", _autograd_backward, setup_context=_setup_context)
torch.library.register_autograd(
    "tgnn::neighbor_product_backward", _double_backward, setup_context=_setup_double_context
)
_forward_autograd = as_autograd_function(_forward, _setup_context, _autograd_backward)


def product(z: Tensor, addend: Tensor | None, weight: Tensor | None, graph_args: Sequence[Any], tanh: bool) -> Tensor:
    """Compute ``act(prod f)`` with the fastest backend that supports the input. ``product.py`` checks the input.

    Args:
        z: Factors ``[N_src, R]``.
        addend: ``[E, R]`` or ``None``.
        weight: ``[E]`` or ``None``.
        graph_args: One or two tensors, their format (see ``graph.py``), the numbers of sources and destinations.
        tanh: Whether to apply tanh to the product.
    """
    save = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (z, addend, weight))
    compute: Callable[..., Any] = _forward_op
    if is_plain_eager(z):
        compute = _forward_autograd if save else _forward
    out: Tensor = compute(z, addend, weight, *graph_args, tanh, save)[0]
    return out
