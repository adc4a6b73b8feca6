"""What every backend computes: one product, its inputs and what it keeps for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.ops.graph import Graph


@dataclass(frozen=True)
class Problem:
    """The factor of edge ``e = (u, v)`` is ``w_e (z_u + y_e) + (1 - w_e)``; the result is ``act(prod_e f_e)``."""

    z: Tensor
    """``[N_src, R]``, float32 or float64"""
    addend: Tensor | None
    """``y``: ``[E, R]``, as ``z``"""
    weight: Tensor | None
    """``w``: ``[E]``, as ``z``"""
    graph: Graph
    tanh: bool

    @property
    def has_edge_terms(self) -> bool:
        return self.addend is not None or self.weight is not None

    @property
    def rank(self) -> int:
        return self.z.size(1)


class Saved(NamedTuple):
    """What the forward pass keeps; every backend reads what any other has written."""

    state: Tensor
    """``[N_dst, R]``: ``S = act'(P) P`` times :func:`saved_scale`; ``d loss / d f = g S / f``."""
    least: Tensor
    """``[N_dst]``: smallest ``|f|`` of the row, or 0: the row is *wide*, ``state`` is not enough, form it again."""


class Wanted(NamedTuple):
    """Which gradients are needed."""

    z: bool
    addend: bool
    weight: bool


class Gradients(NamedTuple):
    z: Tensor | None
    addend: Tensor | None
    weight: Tensor | None


LARGEST_GRAD = 2.0**40
"""Gradients of the result up to this are ordinary; a row with a larger one is taken as wide in the backward pass."""


def saved_scale(tanh: bool, dtype: torch.dtype) -> float:
    """``S`` is at most 1 with tanh: in float32 it is kept times 2^96, in the range that would lie idle."""
    return 2.0**96 if tanh and dtype == torch.float32 else 1.0
