"""Second and higher derivatives for every backend: autograd through a tree of multiplications.

The derivative of a multiplication needs no division, so derivatives of every order are exact at zero factors. Powers of
two are factored out of the partial products as constants. This changes neither values nor derivatives, and it avoids
overflow. Unlike the kernels, it needs memory for E x R numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.ops.graph import Graph

_LARGEST_EXPONENT = 1000


def tree_product(z: Tensor, addend: Tensor | None, weight: Tensor | None, graph: Graph, tanh: bool) -> Tensor:
    """Compute ``act(prod f)`` in float64 by differentiable torch operations."""
    in_edges = graph.by_dst()
    perm = slice(None) if in_edges.perm is None else in_edges.perm
    factors = z.double()[in_edges.index.long()]
    if addend is not None:
        factors = factors + addend.double()[perm]
    if weight is not None:
        w = weight.double()[perm].unsqueeze(1)
        factors = w * factors + (1 - w)
    exponents = torch.zeros_like(factors, dtype=torch.int32)
    factors, exponents = _normalized(factors, exponents)
    degree = in_edges.ptr.diff()
    while degree.numel() and int(degree.max()) > 1:
        factors, exponents, degree = _halve(factors, exponents, degree)
    rows = degree.nonzero().squeeze(1)
    exponents = exponents.clamp(-2 * _LARGEST_EXPONENT, 2 * _LARGEST_EXPONENT).double()
    half = (exponents / 2).floor()
    ones = factors.new_ones(graph.num_dst, z.size(1))
    product = ones.index_copy(0, rows, factors * torch.exp2(half) * torch.exp2(exponents - half))
    return (torch.tanh(product) if tanh else product).to(z.dtype)


def _halve(factors: Tensor, exponents: Tensor, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Multiply adjacent factors of a row in pairs; the last one of an odd number stays as it is."""
    start = degree.cumsum(0) - degree
    half = (degree + 1) // 2
    local = torch.arange(int(half.sum()), device=degree.device)
    local = local - (half.cumsum(0) - half).repeat_interleave(half)
    left = start.repeat_interleave(half) + 2 * local
    paired = 2 * local + 1 < degree.repeat_interleave(half)
    right = torch.where(paired, left + 1, left)
    partner = torch.where(paired.unsqueeze(1), factors[right], torch.ones((), dtype=factors.dtype, device=left.device))
    partner_exponents = torch.where(paired.unsqueeze(1), exponents[right], 0)
    factors, exponents = _normalized(factors[left] * partner, exponents[left] + partner_exponents)
    return factors, exponents, half


def _normalized(x: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
    shift = torch.frexp(x.detach()).exponent.clamp(-_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    return x * torch.exp2(-shift.double()), exponents + shift


def second_derivatives(
    grad: Tensor, inputs: list[Tensor | None], graph: Graph, tanh: bool, cotangents: list[Tensor | None]
) -> list[Tensor | None]:
    """Compute the vector-Jacobian product of the backward pass, for ``grad`` and for ``inputs`` (z, addend, weight)."""
    with torch.enable_grad():
        # Aliases cut the autograd graph here, so that dependencies between the inputs are not differentiated twice.
        sources = [
            t if t is None else t.view_as(t) if t.requires_grad else t.detach().requires_grad_()
            for t in (grad, *inputs)
        ]
        if all(cotangent is None for cotangent in cotangents):
            return [None] * 4
        first_grad, z, addend, weight = sources
        assert first_grad is not None
        assert z is not None
        out = tree_product(z, addend, weight, graph, tanh)
        pairs = [(t, c) for t, c in zip((z, addend, weight), cotangents) if t is not None and c is not None]
        first = torch.autograd.grad(out, [t for t, _ in pairs], first_grad, create_graph=True)
    present = [t for t in sources if t is not None]
    second = torch.autograd.grad(
        first, present, [c for _, c in pairs], allow_unused=True, create_graph=torch.is_grad_enabled()
    )
    derivatives = iter(second)
    return [None if t is None else next(derivatives) for t in sources]
