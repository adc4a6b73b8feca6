"""Operands, saved tensors and gradients of the operators: the types that all backends share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.ops.graph import Graph


@dataclass(frozen=True)
class Operands:
    """Operands of ``act(sign(P) |P| ** (d_v ** -p))`` with ``P = prod f`` over the d_v edges into v.

    The factors are plain, ``f = z_u``, or weighted, ``f = w_e z_u + (1 - w_e)``.
    """

    z: Tensor
    """``[N_src, R]``, float32 or float64: factors of the sources."""
    weight: Tensor | None
    """``w``: ``[E]``, only with ``z`` in float32; 1 if absent."""
    graph: Graph
    tanh: bool
    """Whether ``act`` is tanh; else it is the identity."""
    exponent: float
    """``p``; 0 is the plain product."""

    @property
    def rank(self) -> int:
        return self.z.size(1)


class Saved(NamedTuple):
    """Tensors saved for the backward pass of plain factors. Every backend can read what another one has saved."""

    state: Tensor
    """``[N_dst, R]``: ``S = act'(P) P`` times :func:`saved_scale`, so that ``d loss / d f = g S / f``. With a degree
    exponent, ``S = act'(y) q y`` for ``y = sign(P) |P| ** q``."""
    min_factor: Tensor
    """``[N_dst]``: smallest ``|f|`` of the row. 0 marks a *wide* row: its gradient does not fit the range of
    ``state``, so the backward pass computes its product again, with a separate exponent."""


LARGEST_GRAD = 2.0**40
"""The backward pass treats a row as wide if a gradient of its result is larger than this."""


def saved_scale(tanh: bool, dtype: torch.dtype) -> float:
    """Return the factor by which ``S`` is scaled before it is saved.

    With tanh, ``|S|`` is at most 1. In float32 it is saved times 2^96: this uses the large exponents, which would
    otherwise be unused, for values that would underflow.
    """
    return 2.0**96 if tanh and dtype == torch.float32 else 1.0


@dataclass(frozen=True)
class EdgeTerms:
    """A sum of terms per edge: ``a_e = src_u + dst_v + edge_e`` for edge e = (u, v). Absent terms are 0."""

    graph: Graph
    src: Tensor | None
    """``[N_src, R]``."""
    dst: Tensor | None
    """``[N_dst, R]``."""
    edge: Tensor | None
    """``[E, R]``, or ``[types, R]`` with ``edge_type``."""
    edge_type: Tensor | None
    """int32 ``[E]``: row of ``edge`` that belongs to each edge."""

    @property
    def example(self) -> Tensor:
        """A term that is present: all have the same type, device and number of columns."""
        return next(t for t in (self.src, self.dst, self.edge) if t is not None)

    @property
    def rank(self) -> int:
        return self.example.size(1)


@dataclass(frozen=True)
class EdgeProduct(EdgeTerms):
    """What the factor of an edge is, how the factors are combined, and what comes out.

    For edge e = (u, v), with the absent terms of a sum 0, and ``scale`` and ``gate`` 1 if absent::

        a_e = src_u + dst_v + edge_e                terms of both ends and of the edge
        h_e = phi(a_e)                              factor activation
        f_e = 1 + gate_e (scale_e h_e + shift_e - 1)    factor: affine, then moved toward 1
        P_v = product of f_e over the edges into v
        y_v = sign(P_v) |P_v| ** (d_v ** -p)        degree exponent, d_v: number of edges into v
        out_v = act(y_v)

    If ``exclusive``, there is one row per edge instead. P is the product of f over the other edges into v, and d_v
    counts them.
    """

    scale: Tensor | None
    """``[E]`` or ``[E, R]``."""
    shift: Tensor | None
    """``[E]`` or ``[E, R]``."""
    gate: Tensor | None
    """``[E]`` or ``[E, R]``."""
    factor_act: str
    """``phi``: ``"identity"``, ``"tanh"``, ``"sigmoid"`` or ``"bounded"`` (``1 + bound tanh``)."""
    bound: float
    exponent: float
    """``p``; 0 is the plain product."""
    tanh: bool
    """Whether ``act`` is tanh; else it is the identity."""
    exclusive: bool

    def powers(self) -> Tensor:
        """Return ``d_v ** -p``, ``[N_dst, 1]`` in float64."""
        degree = self.graph.by_dst().ptr.diff() - int(self.exclusive)
        return degree.clamp(min=1).double().pow(-self.exponent).unsqueeze(1)


FACTOR_ACTIVATIONS = ("identity", "tanh", "sigmoid", "bounded")


@dataclass(frozen=True)
class GatedSum(EdgeTerms):
    """``out_v = sum of eta_e x_u`` over the edges e = (u, v) into v, with ``eta_e = w_e sigmoid(a_e)``.

    If ``normalize``, the sum is divided by ``sum of eta_e + eps``.
    """

    x: Tensor
    """``[N_src, R]``."""
    weight: Tensor | None
    """``w``: ``[E]``; 1 if absent."""
    normalize: bool
    eps: float
