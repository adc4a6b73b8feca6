"""Selection of the backend, and registration of the product of node factors as an operator of ``torch.library``.

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
from tgnn.ops.backend_reference import as_edge_product
from tgnn.ops.graph import Graph, get_graph, materialized
from tgnn.ops.operands import EdgeProduct, EdgeTerms, GatedSum, Operands, Saved
from tgnn.ops.scaled import clamp_to_finite
from tgnn.ops.second_order import second_derivatives, tree_product
from tgnn.ops.tracing import as_autograd_function, is_plain_eager


class Backend(Protocol):
    """Functions that a backend module must have. ``backend_reference.py`` defines what they compute."""

    name: str

    def unavailable(self) -> str | None:
        """Return why the backend cannot run on this machine, or ``None`` if it can."""

    def unsupported(self, x: Tensor, graph: Graph) -> str | None:
        """Return why the backend cannot compute with such tensors on this graph, or ``None`` if it can."""

    def forward(self, operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
        """Compute a product of plain or weighted factors and, if ``save``, the tensors for the backward pass."""

    def backward(
        self, operands: Operands, grad: Tensor, saved: Saved, needs_grad: Sequence[bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Compute the gradients of ``z`` and of the weights; those that are not needed may be ``None``.

        The gradient of a factor is the product of the *other* factors of its row, times the gradient of the result and
        the slope of the activation. So the gradient of a single zero factor is the product of the others, and two or
        more zeros make all gradients 0.
        """

    def edge_product(self, op: EdgeProduct) -> Tensor:
        """Compute the product, or the products over the other edges, that ``op`` describes."""

    def edge_product_backward(self, op: EdgeProduct, grad: Tensor, needs_grad: NeedsGrad) -> dict[str, Tensor]:
        """Compute the gradients of the tensors of ``op`` by name; those that are not needed may be absent."""

    def sum(self, x: Tensor, weight: Tensor | None, graph: Graph, transposed: bool) -> Tensor:
        """Compute ``sum w x`` over the edges into each destination, or out of each source if ``transposed``."""

    def exclusive_sum(self, x: Tensor, graph: Graph) -> Tensor:
        """Compute for every edge the sum of the rows ``x`` of the other edges into the same destination."""

    def edge_rows(self, terms: EdgeTerms) -> Tensor:
        """Compute ``src_u + dst_v + edge_e`` for every edge."""

    def edge_rows_backward(self, terms: EdgeTerms, grad: Tensor, needs_grad: NeedsGrad) -> dict[str, Tensor]:
        """Compute the gradients of the terms by name."""

    def gated_sum(self, op: GatedSum) -> tuple[Tensor, Tensor]:
        """Compute the gated sum and, if normalized, ``sum of eta + eps``."""

    def gated_sum_backward(
        self, op: GatedSum, grad: Tensor, out: Tensor, total: Tensor, needs_grad: NeedsGrad
    ) -> dict[str, Tensor]:
        """Compute the gradients of the tensors of ``op`` by name."""


NeedsGrad = dict[str, bool]
"""Which tensors of an operator need a gradient, by name."""


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
        >>> from tgnn.ops import neighbor_product
        >>> with use_backend("reference"):
        ...     neighbor_product(torch.tensor([[2.0], [3.0], [5.0]]), torch.tensor([[0, 1], [2, 2]]))
        tensor([[1.],
                [1.],
                [6.]])
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


class restored_backend:  # a class, because contextlib.contextmanager takes a microsecond more
    """Context manager that selects the backend of the forward pass again, for its backward pass.

    The backward pass may run in a thread of autograd, or after the block of :func:`use_backend` has ended.
    """

    def __init__(self, name: str | None) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.token = _forced.set(self.name)

    def __exit__(self, *_: object) -> None:
        _forced.reset(self.token)


def backend_for(x: Tensor, graph: Graph) -> Backend:
    """Return the backend of :func:`use_backend`, else the fastest one that is available and supports the input."""
    if (name := _forced.get()) is not None:
        if reason := _BACKENDS[name].unsupported(x, graph):
            raise RuntimeError(f"The backend {name!r} does not support this input: {reason}.")
        return _BACKENDS[name]
    return next(b for b in _BACKENDS.values() if b.unsupported(x, graph) is None and b.unavailable() is None)


# ---- the operators ---------------------------------------------------------------------------------------------

GRAPH_SCHEMA = "Tensor index, Tensor? columns, str format, SymInt num_src, SymInt num_dst"
torch.library.define(
    "tgnn::neighbor_product",
    f"(Tensor z, Tensor? weight, {GRAPH_SCHEMA}, bool tanh, float exponent, bool save) -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "tgnn::neighbor_product_backward",
    f"(Tensor grad, Tensor z, Tensor? weight, {GRAPH_SCHEMA}, bool tanh, float exponent, Tensor state, "
    "Tensor min_factor, bool[2] needs_grad) -> (Tensor, Tensor)",
)
DEVICES = ("cpu", "cuda")
_forward_op = torch.ops.tgnn.neighbor_product.default
_backward_op = torch.ops.tgnn.neighbor_product_backward.default


def compute_dtype(*dtypes: torch.dtype) -> torch.dtype:
    """Return the type in which an operator computes: float64 if an operand has it, else float32."""
    return torch.float64 if torch.float64 in dtypes else torch.float32


def readable(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a contiguous tensor of this type whose memory holds its values."""
    if x.dtype != dtype or not x.is_contiguous():
        x = x.to(dtype).contiguous()
    return materialized(x)


def check_weights(weight: Tensor | None) -> None:
    """Raise a ``ValueError`` if a weight is outside [0, 1], the range in which it moves a factor toward 1."""
    if weight is None or weight.numel() == 0:
        return
    low, high = torch.aminmax(weight.detach())
    if bool(low >= 0) and bool(high <= 1):
        return
    wrong = weight[(weight < 0) | (weight > 1)]
    if wrong.numel():  # NaN passes, and gives NaN
        raise ValueError(
            f"edge_weight contains {float(wrong[0])}, but must lie in [0, 1], where 0 removes the edge; "
            "divide the weights by the largest one, or pass them as edge features."
        )


def _operands(z: Tensor, weight: Tensor | None, rest: Sequence[Any]) -> Operands:
    index, columns, format, num_src, num_dst, tanh, exponent = rest
    graph = get_graph(format, index, columns, num_src, num_dst)
    weight = None if weight is None else readable(weight, torch.float32)
    return Operands(readable(z, compute_dtype(z.dtype)), weight, graph, tanh, exponent)


def _forward(z: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    *rest, save = rest  # type: ignore[assignment]
    check_weights(weight)
    operands = _operands(z, weight, rest)
    out, saved = backend_for(operands.z, operands.graph).forward(operands, save)
    if saved is None:
        saved = Saved(operands.z.new_empty(0, operands.rank), operands.z.new_empty(0))
    return out.to(z.dtype), saved.state, saved.min_factor


def _forward_fake(z: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    num_dst, _, _, save = rest[-4:]
    rows, wide = (num_dst if save else 0), compute_dtype(z.dtype)
    state, min_factor = z.new_empty(rows, z.size(1), dtype=wide), z.new_empty(rows, dtype=wide)
    return z.new_empty(num_dst, z.size(1)), state, min_factor


def _gradients(grad: Tensor, z: Tensor, weight: Tensor | None, *rest: Any) -> list[Tensor | None]:
    *rest, state, min_factor, needs_grad = rest  # type: ignore[assignment]
    operands = _operands(z, weight, rest)
    grad = readable(grad, operands.z.dtype)
    backend = backend_for(operands.z, operands.graph)
    of_z, of_weight = backend.backward(operands, grad, Saved(state, min_factor), needs_grad)
    of_z = rounded(of_z, z) if of_z is not None and needs_grad[0] else None
    of_weight = rounded(of_weight, weight) if of_weight is not None and weight is not None and needs_grad[1] else None
    return [of_z, of_weight]


def _backward(*arguments: Any) -> tuple[Tensor, Tensor]:
    grad = arguments[0]
    first, second = (grad.new_empty(0) if g is None else g for g in _gradients(*arguments))
    return first, second


def rounded(gradient: Tensor, like: Tensor) -> Tensor:
    """Convert a gradient to the type of its input. Values beyond its range become its largest number."""
    return gradient if gradient.dtype == like.dtype else clamp_to_finite(gradient, like.dtype).to(like.dtype)


def _backward_fake(grad: Tensor, z: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    first, second = (
        t.new_empty(t.shape) if t is not None and needed else z.new_empty(0) for t, needed in zip((z, weight), rest[-1])
    )
    return first, second


for _device in DEVICES:
    torch.library.impl("tgnn::neighbor_product", _device, _forward)
    torch.library.impl("tgnn::neighbor_product_backward", _device, _backward)
torch.library.register_fake("tgnn::neighbor_product", _forward_fake)
torch.library.register_fake("tgnn::neighbor_product_backward", _backward_fake)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    z, weight, index, columns, *ctx.rest, _ = inputs
    ctx.backend = forced_backend()
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(z, weight, index, columns, *output[1:])


def _autograd_backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    z, weight, index, columns, *saved = ctx.saved_tensors
    needs_grad = list(ctx.needs_input_grad[:2])
    gradients: Sequence[Tensor | None] = (None, None)
    if grad is not None and any(needs_grad):
        with restored_backend(ctx.backend):
            arguments = (grad, z, weight, index, columns, *ctx.rest, *saved, needs_grad)
            if not torch.is_grad_enabled() and is_plain_eager(grad):
                gradients = _gradients(*arguments)
            else:
                gradients = [g if needed else None for g, needed in zip(_backward_op(*arguments), needs_grad)]
    return (*gradients, *(None,) * 8)


def _setup_double_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    grad, z, weight, index, columns, *ctx.rest, _, _, ctx.needs_grad = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(grad, z, weight, index, columns)


def _double_backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
    grad, z, weight, index, columns = ctx.saved_tensors
    format, num_src, num_dst, tanh, exponent = ctx.rest
    graph = get_graph(format, index, columns, num_src, num_dst)

    def product(inputs: Sequence[Tensor | None]) -> list[Tensor]:
        assert inputs[0] is not None
        return [tree_product(as_edge_product(Operands(inputs[0], inputs[1], graph, tanh, exponent)))]

    wanted = [c if needed else None for c, needed in zip(cotangents, ctx.needs_grad)]
    return (*second_derivatives(product, [grad], [z, weight], wanted), *(None,) * 10)


torch.library.register_autograd("tgnn::neighbor_product", _autograd_backward, setup_context=_setup_context)
torch.library.register_autograd(
    "tgnn::neighbor_product_backward", _double_backward, setup_context=_setup_double_context
)
_forward_autograd = as_autograd_function(_forward, _setup_context, _autograd_backward)


def product(z: Tensor, weight: Tensor | None, graph_args: Sequence[Any], tanh: bool, exponent: float = 0.0) -> Tensor:
    """Compute the product of :class:`~.operands.Operands` with the fastest backend that supports the input.

    ``product.py`` checks the input.

    Args:
        z: Factors ``[N_src, R]``.
        weight: Weights of the factors, ``[E]``, or ``None``. They must not be float64, nor ``z``.
        graph_args: One or two tensors, their format (see ``graph.py``), the numbers of sources and destinations.
        tanh: Whether to apply tanh to the product.
        exponent: Degree exponent.
    """
    save = torch.is_grad_enabled() and (z.requires_grad or (weight is not None and weight.requires_grad))
    compute: Callable[..., Any] = _forward_op
    if is_plain_eager(z) and (weight is None or is_plain_eager(weight)):
        compute = _forward_autograd if save else _forward
    out: Tensor = compute(z, weight, *graph_args, tanh, exponent, save)[0]
    return out
