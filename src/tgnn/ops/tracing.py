"""Operators without the dispatcher where nothing watches it.

An operator of ``torch.library`` written in Python costs some 60 microseconds a call beyond its work: more than a small
product takes. Where plain tensors are computed with at once, the same functions are called directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

_PLAIN = (Tensor, Parameter)


def is_plain_eager(x: Tensor) -> bool:
    """Whether neither a compiler, an exporter, a tracer nor a dispatch mode needs to see which operator is called."""
    return (
        type(x) in _PLAIN
        and x.device.type in ("cpu", "cuda")
        and not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._get_tracing_state() is None
    )


def as_function(
    compute: Callable[..., Any], remember: Callable[..., None], differentiate: Callable[..., Any]
) -> Callable[..., Any]:
    """An operator's three functions, as given to ``torch.library``, as one ``torch.autograd.Function``."""

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = compute(*inputs)
        remember(ctx, inputs, output)
        if isinstance(output, tuple):  # what follows the result is kept for the backward pass only
            ctx.mark_non_differentiable(*output[1:])
        return output

    members = {"forward": staticmethod(forward), "backward": staticmethod(differentiate)}
    function = type(f"Direct{compute.__name__}", (torch.autograd.Function,), members)
    apply: Callable[..., Any] = function.apply  # type: ignore[attr-defined]
    return apply
