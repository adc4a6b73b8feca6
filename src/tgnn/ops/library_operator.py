"""Registration of an operator with ``torch.library``, with a backward pass and derivatives of every order.

An operator has optional tensors, which are differentiable, followed by other arguments. Its first derivatives are
computed by a backend, higher ones by autograd through a definition in torch operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tgnn.ops.dispatch import DEVICES, NeedsGrad, forced_backend, restored_backend, rounded
from tgnn.ops.second_order import second_derivatives
from tgnn.ops.tracing import as_autograd_function, is_plain_eager

Tensors = Sequence[Tensor | None]
Outputs = Tensor | tuple[Tensor, ...]
"""One tensor, or a tuple of several."""


@dataclass(frozen=True)
class Operator:
    """An operator of ``torch.library``. Only its first output is differentiable.

    Args:
        name: Name of the operator in ``torch.ops.tgnn``.
        tensors: Names of the differentiable tensors. Each may be absent.
        rest: Schema of the other arguments.
        num_outputs: Number of outputs. The others are saved for the backward pass.
        compute: Computes the outputs.
        fake: Returns empty outputs of the right shapes.
        differentiate: Computes the gradients of the tensors by name, from the gradient of the first output, the
            outputs, the arguments, and which gradients are needed.
        definition: Computes the first output by differentiable torch operations, in float64.
    """

    name: str
    tensors: tuple[str, ...]
    rest: str
    num_outputs: int
    compute: Callable[..., Outputs]
    fake: Callable[..., Outputs]
    differentiate: Callable[[Tensor, Tensors, Tensors, Sequence[Any], NeedsGrad], dict[str, Tensor]]
    definition: Callable[[Tensors, Sequence[Any]], Tensor]

    def register(self) -> Callable[..., Tensor]:
        """Register the operator and its backward pass. Return a function that calls it, directly in eager mode."""
        count, name = len(self.tensors), f"tgnn::{self.name}"
        optional = ", ".join(f"Tensor? {t}" for t in self.tensors)
        outputs = ", ".join(f"Tensor out{i}" for i in range(self.num_outputs))
        torch.library.define(name, f"({optional}, {self.rest}) -> {_tensors(self.num_outputs)}")
        torch.library.define(
            f"{name}_backward",
            f"(Tensor grad, {outputs}, {optional}, {self.rest}, bool[{count}] needs_grad) -> {_tensors(count)}",
        )
        for device in DEVICES:
            torch.library.impl(name, device, self.compute)
            torch.library.impl(f"{name}_backward", device, self._backward)
        torch.library.register_fake(name, self.fake)
        torch.library.register_fake(f"{name}_backward", self._backward_fake)
        torch.library.register_autograd(name, self._autograd, setup_context=self._setup)
        torch.library.register_autograd(f"{name}_backward", self._double_backward, setup_context=self._setup_double)
        operator = getattr(torch.ops.tgnn, self.name).default
        tracked = as_autograd_function(self.compute, self._setup, self._autograd)

        def call(*arguments: Any) -> Tensor:
            present = [t for t in arguments[:count] if t is not None]
            compute: Callable[..., Any] = operator
            if all(is_plain_eager(t) for t in present):
                needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in present)
                compute = tracked if needs_grad else self.compute
            out: Outputs = compute(*arguments)
            return out if isinstance(out, Tensor) else out[0]

        return call

    def _split(self, arguments: Sequence[Any]) -> tuple[Tensors, Sequence[Any]]:
        return arguments[: len(self.tensors)], arguments[len(self.tensors) :]

    def _backward(self, grad: Tensor, *arguments: Any) -> Outputs:
        *arguments, needs_grad = arguments  # type: ignore[assignment]
        outputs = arguments[: self.num_outputs]
        tensors, rest = self._split(arguments[self.num_outputs :])
        needed = dict(zip(self.tensors, needs_grad))
        found = self.differentiate(grad, outputs, tensors, rest, needed)
        return _outputs(
            rounded(found[name], t) if t is not None and needed[name] else grad.new_empty(0)
            for name, t in zip(self.tensors, tensors)
        )

    def _backward_fake(self, grad: Tensor, *arguments: Any) -> Outputs:
        *arguments, needs_grad = arguments  # type: ignore[assignment]
        tensors, _ = self._split(arguments[self.num_outputs :])
        return _outputs(
            t.new_empty(t.shape) if t is not None and needed else grad.new_empty(0)
            for t, needed in zip(tensors, needs_grad)
        )

    def _setup(self, ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        ctx.backend = forced_backend()
        ctx.set_materialize_grads(False)
        ctx.is_tensor = [isinstance(x, Tensor) for x in inputs]
        ctx.others = [None if isinstance(x, Tensor) else x for x in inputs]
        outputs = (output,) if isinstance(output, Tensor) else output
        ctx.save_for_backward(*outputs, *(x for x in inputs if isinstance(x, Tensor)))

    def _autograd(self, ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        outputs, given = saved[: self.num_outputs], iter(saved[self.num_outputs :])
        inputs = [next(given) if is_tensor else other for is_tensor, other in zip(ctx.is_tensor, ctx.others)]
        nothing = (None,) * len(inputs)
        needs_grad = list(ctx.needs_input_grad[: len(self.tensors)])
        if grad is None or not any(needs_grad):
            return nothing
        with restored_backend(ctx.backend):
            direct = not torch.is_grad_enabled() and is_plain_eager(grad)
            backward = self._backward if direct else getattr(torch.ops.tgnn, f"{self.name}_backward").default
            found = backward(grad, *outputs, *inputs, needs_grad)
            found = (found,) if isinstance(found, Tensor) else found
        return (*(g if needed else None for g, needed in zip(found, needs_grad)), *nothing[len(needs_grad) :])

    def _setup_double(self, ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        grad, *arguments, ctx.needs_grad = inputs
        arguments = arguments[self.num_outputs :]
        ctx.set_materialize_grads(False)
        ctx.is_tensor = [isinstance(x, Tensor) for x in arguments]
        ctx.others = [None if isinstance(x, Tensor) else x for x in arguments]
        ctx.save_for_backward(grad, *(x for x in arguments if isinstance(x, Tensor)))

    def _double_backward(self, ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
        grad, *saved = ctx.saved_tensors
        given = iter(saved)
        arguments = [next(given) if is_tensor else other for is_tensor, other in zip(ctx.is_tensor, ctx.others)]
        tensors, rest = self._split(arguments)
        wanted = [c if needed else None for c, needed in zip(cotangents, ctx.needs_grad)]
        of_grad, *of_tensors = second_derivatives(
            lambda inputs: [self.definition(inputs, rest)], [grad], tensors, wanted
        )
        return (of_grad, *(None,) * self.num_outputs, *of_tensors, *(None,) * (len(rest) + 1))


def _outputs(tensors: Iterable[Tensor]) -> Outputs:
    outputs = tuple(tensors)
    return outputs[0] if len(outputs) == 1 else outputs


def _tensors(count: int) -> str:
    return "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
