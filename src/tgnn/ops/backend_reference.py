"""Backend ``reference``: the definition, written to be read. Every other backend is tested against it.

A row's product is formed factor by factor; the gradient of a factor is the *exclusive* product, the product of all
the others, which is what makes zeros exact. Nothing here divides by a factor. It is slow: use it on small graphs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.ops.problem import Gradients, Problem, Saved, Wanted

name = "reference"


def unavailable() -> str | None:
    return None


def unsupported(problem: Problem) -> str | None:
    return None


class Scaled(NamedTuple):
    """``mantissa * 2 ** exponent``: no product of these overflows or underflows."""

    mantissa: Tensor
    exponent: Tensor

    @staticmethod
    def of(x: Tensor) -> Scaled:
        return Scaled(*torch.frexp(x.double()))

    def __mul__(self, other: object) -> Scaled:
        assert isinstance(other, Scaled)
        mantissa, exponent = torch.frexp(self.mantissa * other.mantissa)
        return Scaled(mantissa, exponent + self.exponent + other.exponent)

    def join(self) -> Tensor:
        exponent = self.exponent.clamp(-2000, 2000).double()
        half = (exponent / 2).floor()
        return self.mantissa * torch.exp2(half) * torch.exp2(exponent - half)


def _factors(problem: Problem, v: int) -> tuple[list[int], list[int], list[Tensor]]:
    """Sources, edge numbers and factors of the edges into node ``v``."""
    by = problem.graph.by_dst()
    places = range(int(by.ptr[v]), int(by.ptr[v + 1]))
    sources = [int(by.other[k]) for k in places]
    edges = [k if by.edge is None else int(by.edge[k]) for k in places]
    factors = []
    for u, e in zip(sources, edges):
        f = problem.z[u].double()
        if problem.addend is not None:
            f = f + problem.addend[e].double()
        if problem.weight is not None:
            w = problem.weight[e].double()
            f = w * f + (1 - w)  # a product's neutral element is 1: weight 0 means that the neighbour is not there
        factors.append(f)
    return sources, edges, factors


def _running_products(factors: list[Tensor], one: Scaled) -> list[Scaled]:
    """``[1, f_0, f_0 f_1, ...]``"""
    products = [one]
    for f in factors:
        products.append(products[-1] * Scaled.of(f))
    return products


def forward(problem: Problem, save: bool) -> tuple[Tensor, Saved | None]:
    one = Scaled.of(problem.z.new_ones(problem.rank))
    out = problem.z.new_empty(problem.graph.num_dst, problem.rank)
    for v in range(problem.graph.num_dst):
        product = _running_products(_factors(problem, v)[2], one)[-1].join()
        out[v] = torch.tanh(product) if problem.tanh else product
    # Least 0 says of every row that the backward pass must form it again.
    saved = Saved(torch.zeros_like(out), out.new_zeros(problem.graph.num_dst)) if save else None
    return out, saved


def backward(problem: Problem, grad: Tensor, saved: Saved, wanted: Wanted) -> Gradients:
    one = Scaled.of(problem.z.new_ones(problem.rank))
    grad_z = torch.zeros_like(problem.z, dtype=torch.float64)
    grad_addend = None if problem.addend is None else torch.zeros_like(problem.addend, dtype=torch.float64)
    grad_weight = None if problem.weight is None else torch.zeros_like(problem.weight, dtype=torch.float64)
    for v in range(problem.graph.num_dst):
        sources, edges, factors = _factors(problem, v)
        before = _running_products(factors, one)
        after = _running_products(factors[::-1], one)[::-1]
        product = before[-1].join()
        slope = 1 / torch.cosh(product) ** 2 if problem.tanh else torch.ones_like(product)
        outer = Scaled.of(grad[v]) * Scaled.of(slope)
        for k, (u, e) in enumerate(zip(sources, edges)):
            d = finite((outer * (before[k] * after[k + 1])).join())  # d loss / d f_e
            w = 1.0 if problem.weight is None else problem.weight[e].double()
            grad_z[u] += w * d
            if grad_addend is not None:
                grad_addend[e] = w * d
            if grad_weight is not None:
                y = 0.0 if problem.addend is None else problem.addend[e].double()
                grad_weight[e] = finite(d * (problem.z[u].double() + y - 1)).sum()
    dtype = problem.z.dtype
    return Gradients(*(None if g is None else finite(g, dtype).to(dtype) for g in (grad_z, grad_addend, grad_weight)))


def sum(problem: Problem, transposed: bool) -> Tensor:
    by = problem.graph.by_src() if transposed else problem.graph.by_dst()
    out = problem.z.new_zeros(by.num_groups, problem.rank)
    for i in range(by.num_groups):
        for k in range(int(by.ptr[i]), int(by.ptr[i + 1])):
            w = 1.0 if problem.weight is None else problem.weight[k if by.edge is None else int(by.edge[k])]
            out[i] += w * problem.z[int(by.other[k])]
    return out


def finite(x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Overflow becomes the largest number; NaN stays."""
    return x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
