"""Backend ``reference``: the definition of the product and of its gradient. All other backends are tested against it.

The product of a row is computed factor by factor. The gradient of a factor is the product of all *other* factors of its
row (the exclusive product), times the gradient of the result and the slope of the activation. This is the rule for zero
factors:

* One zero in a row: the gradient of the zero factor is the product of the others. The gradients of the others are 0.
* Two or more zeros in a row: all gradients are 0.

The exclusive product is ``prefix[k] * suffix[k + 1]``, the products before and after a factor, so nothing is divided by
a factor. See :func:`backward`. This backend loops in Python: use it on small graphs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.ops.operands import Gradients, NeedsGrad, Operands, Saved

name = "reference"


def unavailable() -> str | None:
    return None


def unsupported(operands: Operands) -> str | None:
    return None


class Scaled(NamedTuple):
    """A number ``mantissa * 2 ** exponent``. Products of such numbers neither overflow nor underflow."""

    mantissa: Tensor
    exponent: Tensor

    @staticmethod
    def of(x: Tensor) -> Scaled:
        return Scaled(*torch.frexp(x.double()))

    def __mul__(self, other: object) -> Scaled:
        assert isinstance(other, Scaled)
        mantissa, exponent = torch.frexp(self.mantissa * other.mantissa)
        return Scaled(mantissa, exponent + self.exponent + other.exponent)

    def to_float(self) -> Tensor:
        exponent = self.exponent.clamp(-2000, 2000).double()
        half = (exponent / 2).floor()
        return self.mantissa * torch.exp2(half) * torch.exp2(exponent - half)


def _factors(operands: Operands, v: int) -> tuple[list[int], list[int], list[Tensor]]:
    """Return the sources, the edge positions and the factors of the edges into node ``v``."""
    in_edges = operands.graph.by_dst()
    positions = range(int(in_edges.ptr[v]), int(in_edges.ptr[v + 1]))
    sources = [int(in_edges.index[k]) for k in positions]
    edges = [k if in_edges.perm is None else int(in_edges.perm[k]) for k in positions]
    factors = []
    for u, e in zip(sources, edges):
        f = operands.z[u].double()
        if operands.addend is not None:
            f = f + operands.addend[e].double()
        if operands.weight is not None:
            w = operands.weight[e].double()
            f = w * f + (1 - w)  # the neutral element of a product is 1, so weight 0 removes the neighbor
        factors.append(f)
    return sources, edges, factors


def _cumulative_products(factors: list[Tensor], one: Scaled) -> list[Scaled]:
    """Return ``[1, f_0, f_0 f_1, ...]``."""
    products = [one]
    for f in factors:
        products.append(products[-1] * Scaled.of(f))
    return products


def forward(operands: Operands, save: bool) -> tuple[Tensor, Saved | None]:
    one = Scaled.of(operands.z.new_ones(operands.rank))
    out = operands.z.new_empty(operands.graph.num_dst, operands.rank)
    for v in range(operands.graph.num_dst):
        product = _cumulative_products(_factors(operands, v)[2], one)[-1].to_float()
        out[v] = torch.tanh(product) if operands.tanh else product
    # min_factor = 0 marks every row as wide: the backward pass computes its product again.
    saved = Saved(torch.zeros_like(out), out.new_zeros(operands.graph.num_dst)) if save else None
    return out, saved


def backward(operands: Operands, grad: Tensor, saved: Saved, needs_grad: NeedsGrad) -> Gradients:
    """Compute the gradients by exclusive products.

    The gradient of factor ``f_e`` is ``grad_v act'(P_v)`` times the product of the other factors of row ``v``. If
    ``f_e`` is the only zero of its row, this is the product of the others, not 0 and not NaN. If the row has two or
    more zeros, every exclusive product contains one of them, so all gradients are 0.
    """
    one = Scaled.of(operands.z.new_ones(operands.rank))
    grad_z = torch.zeros_like(operands.z, dtype=torch.float64)
    grad_addend = None if operands.addend is None else torch.zeros_like(operands.addend, dtype=torch.float64)
    grad_weight = None if operands.weight is None else torch.zeros_like(operands.weight, dtype=torch.float64)
    for v in range(operands.graph.num_dst):
        sources, edges, factors = _factors(operands, v)
        prefix = _cumulative_products(factors, one)
        suffix = _cumulative_products(factors[::-1], one)[::-1]
        product = prefix[-1].to_float()
        slope = 1 / torch.cosh(product) ** 2 if operands.tanh else torch.ones_like(product)
        outer = Scaled.of(grad[v]) * Scaled.of(slope)
        for k, (u, e) in enumerate(zip(sources, edges)):
            exclusive = prefix[k] * suffix[k + 1]  # the product of all factors but f_e
            d = clamp_to_finite((outer * exclusive).to_float())  # d loss / d f_e
            w = 1.0 if operands.weight is None else operands.weight[e].double()
            grad_z[u] += w * d
            if grad_addend is not None:
                grad_addend[e] = w * d
            if grad_weight is not None:
                y = 0.0 if operands.addend is None else operands.addend[e].double()
                grad_weight[e] = clamp_to_finite(d * (operands.z[u].double() + y - 1)).sum()
    dtype = operands.z.dtype
    gradients = (grad_z, grad_addend, grad_weight)
    return Gradients(*(None if g is None else clamp_to_finite(g, dtype).to(dtype) for g in gradients))


def sum(operands: Operands, transposed: bool) -> Tensor:
    edges = operands.graph.by_src() if transposed else operands.graph.by_dst()
    out = operands.z.new_zeros(edges.num_groups, operands.rank)
    for i in range(edges.num_groups):
        for k in range(int(edges.ptr[i]), int(edges.ptr[i + 1])):
            e = k if edges.perm is None else int(edges.perm[k])
            w = 1.0 if operands.weight is None else operands.weight[e]
            out[i] += w * operands.z[int(edges.index[k])]
    return out


def clamp_to_finite(x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Replace values that overflow ``dtype`` by its largest finite number; NaN stays NaN."""
    return x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
