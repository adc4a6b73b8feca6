"""Direct calls of the operators in eager mode, without the dispatcher of torch.

The dispatcher adds about 60 microseconds to each call of a ``torch.library`` operator written in Python. This is more
than a small product takes. In eager mode with plain tensors, the same functions are therefore called directly. A
compiler, an exporter, a tracer or a dispatch mode still sees the registered operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

_PLAIN = (Tensor, Parameter)


def is_plain_eager(x: Tensor) -> bool:
    """Return whether no compiler, exporter, tracer or dispatch mode needs to see which operator is called."""
    return (
        type(x) in _PLAIN
        and x.device.type in ("cpu", "cuda")
        and not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._get_tracing_state() is None
    )


def as_autograd_function(
    compute: Callable[..., Any], setup_context: Callable[..., None], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """Turn the three functions that ``torch.library`` takes for an operator into one ``torch.autograd.Function``."""

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = compute(*inputs)
        setup_context(ctx, inputs, output)
        if isinstance(output, tuple):  # only the first output is the result, the others are saved for backward
            ctx.mark_non_differentiable(*output[1:])
        return output

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function = type(f"Direct{compute.__name__}", (torch.autograd.Function,), members)
    apply: Callable[..., Any] = function.apply  # type: ignore[attr-defined]
    return apply
