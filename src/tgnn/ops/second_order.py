"""Second and higher derivatives for every backend: autograd through differentiable torch operations.

A product is a tree of multiplications. Their derivatives need no division, so derivatives of every order are exact at
zero factors. Powers of two are factored out of the partial products as constants. This changes neither values nor
derivatives, and it avoids overflow. Unlike the kernels, it needs memory for E x R numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tgnn.ops.backend_reference import edge_factors
from tgnn.ops.operands import EdgeProduct
from tgnn.ops.product_tree import ProductTree
from tgnn.ops.scaled import Scaled

_SATURATED = 8  # tanh is constant in float64 for |y| above 2^8


def tree_product(op: EdgeProduct) -> Tensor:
    """Compute the product that ``op`` describes in float64 by differentiable torch operations."""
    in_edges = op.graph.by_dst()
    u, v = in_edges.index.long(), in_edges.owners().long()
    e = torch.arange(u.numel(), device=u.device) if in_edges.perm is None else in_edges.perm
    f, tree = edge_factors(op, u, v, e).f, ProductTree(in_edges.ptr.diff())
    rows = in_edges.ptr.diff().nonzero().squeeze(1)
    if op.exclusive:
        ones = Scaled.of(torch.ones(rows.numel(), op.rank, dtype=torch.float64, device=u.device))
        y = _activated(_raised(op, tree.exclusive_products(f, ones), v), op.tanh)
        return torch.zeros_like(y).index_copy(0, e, y)
    product = _raised(op, tree.products(f), rows)
    empty = f.mantissa.new_full((op.graph.num_dst, op.rank), math.tanh(1) if op.tanh else 1.0)
    return empty.index_copy(0, rows, _activated(product, op.tanh))


def _raised(op: EdgeProduct, product: Scaled, rows: Tensor) -> Scaled:
    """Apply the degree exponent. The slope of a power is infinite at 0, where it is defined as 0."""
    if not op.exponent:
        return product
    power = op.powers()[rows]
    vanishing = (product.mantissa == 0) & (power != 1)
    return Scaled(torch.where(vanishing, 0.0, product.mantissa), product.exponent).signed_power(power)


def _activated(y: Scaled, tanh: bool) -> Tensor:
    if not tanh:
        return y.to_float()
    saturated = (y.exponent > _SATURATED) & (y.mantissa != 0)
    inside = Scaled(torch.where(saturated, 0.0, y.mantissa), torch.where(saturated, 0, y.exponent))
    return torch.where(saturated, y.mantissa.detach().sign(), torch.tanh(inside.to_float()))


def second_derivatives(
    function: Callable[[Sequence[Tensor | None]], Sequence[Tensor]],
    grads: Sequence[Tensor | None],
    inputs: Sequence[Tensor | None],
    cotangents: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Compute the vector-Jacobian product of a backward pass, for the gradients of its outputs and for its inputs.

    Args:
        function: Differentiable function of the inputs; returns one output for each of ``grads``.
        grads: Gradients of the outputs, which the backward pass was given.
        inputs: Inputs of the function.
        cotangents: Gradients of what the backward pass has returned, one for each input.
    """
    everything = [*grads, *inputs]
    if all(cotangent is None for cotangent in cotangents):
        return [None] * len(everything)
    with torch.enable_grad():
        # Aliases cut the autograd graph here, so that dependencies between the inputs are not differentiated twice.
        sources = [
            t if t is None else t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in everything
        ]
        leaves = sources[len(grads) :]
        pairs = [(t, c) for t, c in zip(leaves, cotangents) if t is not None and c is not None]
        outputs = [(out, g) for out, g in zip(function(leaves), sources) if g is not None]
        first = torch.autograd.grad(
            [out for out, _ in outputs],
            [t for t, _ in pairs],
            [g.to(out.dtype) for out, g in outputs],
            create_graph=True,
            materialize_grads=True,
        )
    present = [t for t in sources if t is not None]
    dependent = [(x, c) for x, (_, c) in zip(first, pairs) if x.requires_grad]
    if not dependent:
        return [None] * len(everything)
    second = torch.autograd.grad(
        [x for x, _ in dependent],
        present,
        [c for _, c in dependent],
        allow_unused=True,
        create_graph=torch.is_grad_enabled(),
    )
    derivatives = iter(second)
    return [None if t is None else next(derivatives) for t in sources]
