"""Operands, saved tensors and gradients of the neighborhood product: the types that all backends share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.ops.graph import Graph


@dataclass(frozen=True)
class Operands:
    """Operands of one product. The factor of edge ``e = (u, v)`` is ``f_e = w_e (z_u + y_e) + (1 - w_e)``.

    The result at destination ``v`` is ``act(prod_e f_e)`` over the edges into ``v``.
    """

    z: Tensor
    """``[N_src, R]``, float32 or float64: factors of the sources."""
    addend: Tensor | None
    """``y``: ``[E, R]``, type of ``z``."""
    weight: Tensor | None
    """``w``: ``[E]``, type of ``z``."""
    graph: Graph
    tanh: bool
    """Whether ``act`` is tanh; else it is the identity."""

    @property
    def has_edge_terms(self) -> bool:
        return self.addend is not None or self.weight is not None

    @property
    def rank(self) -> int:
        return self.z.size(1)


class Saved(NamedTuple):
    """Tensors saved for the backward pass. Every backend can read what another backend has saved."""

    state: Tensor
    """``[N_dst, R]``: ``S = act'(P) P`` times :func:`saved_scale`, so that ``d loss / d f = g S / f``."""
    min_factor: Tensor
    """``[N_dst]``: smallest ``|f|`` of the row. 0 marks a *wide* row: its gradient does not fit the range of
    ``state``, so the backward pass computes its product again, with a separate exponent."""


class NeedsGrad(NamedTuple):
    """Which operands need a gradient, as ``ctx.needs_input_grad`` of autograd."""

    z: bool
    addend: bool
    weight: bool


class Gradients(NamedTuple):
    """Gradients of the operands; ``None`` where an operand is absent or needs none."""

    z: Tensor | None
    addend: Tensor | None
    weight: Tensor | None


LARGEST_GRAD = 2.0**40
"""The backward pass treats a row as wide if a gradient of its result is larger than this."""


def saved_scale(tanh: bool, dtype: torch.dtype) -> float:
    """Return the factor by which ``S`` is scaled before it is saved.

    With tanh, ``|S|`` is at most 1. In float32 it is saved times 2^96: this uses the large exponents, which would
    otherwise be unused, for values that would underflow.
    """
    return 2.0**96 if tanh and dtype == torch.float32 else 1.0
