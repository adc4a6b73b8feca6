"""Theorem 3 by second derivatives: a function of the sum has equal Hessian blocks, a CP layer has not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

SetFunction = Callable[[Tensor, Tensor], Tensor]
"""Aggregation called as ``f(x, index)``, with ``x`` ``[k, F]`` and an ``index`` of zeros; returns ``[1, d]``."""


def mixed_derivative(function: SetFunction, x: Tensor, i: int = 0, j: int = 1) -> Tensor:
    r"""Compute the block :math:`\partial^2 f / \partial x_i \partial x_j` of the Hessian at a point (Theorem 3).

    Args:
        function: A :class:`CPAggregation`, any aggregation of PyG, or another function ``f(x, index)``.
        x: Set of :math:`k` vectors at which to differentiate.
        i: Index of the vector of the first derivative.
        j: Index of the vector of the second derivative; ``j = i`` gives a diagonal block.

    Shapes:
        - **input:** ``x`` ``[k, F]``
        - **output:** ``[d, F, F]``

    Example:
        >>> product = lambda x, index: x.prod(0, keepdim=True)
        >>> x = torch.tensor([[2.0], [3.0]])
        >>> mixed_derivative(product, x).item(), mixed_derivative(product, x, 0, 0).item()
        (1.0, 0.0)
    """
    return _block_rows(function, x, [_check_vector(i, x)])[:, 0, _check_vector(j, x)]


def hessian_blocks(function: SetFunction, x: Tensor) -> Tensor:
    r"""Compute all blocks :math:`\partial^2 f / \partial x_i \partial x_j` of the Hessian at a point.

    For :math:`f(x_1, \ldots, x_k) = g(x_1 + \cdots + x_k)`, such as :math:`\sigma'(M \sigma(\sum_i W^\top x_i))`, every
    block is the second derivative of :math:`g` at the sum, so all blocks are equal, including those with :math:`i = j`.
    A CP layer with identity activations is linear in each vector alone. So its blocks with :math:`i = j` are zero, and
    the others are not. It is therefore not a function of the sum. :func:`hessian_gap` measures the difference.

    Args:
        function: See :func:`mixed_derivative`.
        x: Set of :math:`k` vectors at which to differentiate. Where a ReLU is inactive, the derivative is zero.

    Shapes:
        - **input:** ``x`` ``[k, F]``
        - **output:** ``[d, k, k, F, F]``

    Example:
        >>> hessian_blocks(lambda x, index: x.sum(0, keepdim=True) ** 2, torch.ones(2, 1)).squeeze().tolist()
        [[2.0, 2.0], [2.0, 2.0]]
    """
    return _block_rows(function, x, range(x.size(0)))


def hessian_gap(function: SetFunction, x: Tensor) -> float:
    """Return the largest difference of the blocks of :func:`hessian_blocks`: 0 for a function of the sum (Theorem 3).

    Args:
        function: See :func:`mixed_derivative`.
        x: Set of vectors at which to differentiate, ``[k, F]``.

    Example:
        >>> hessian_gap(lambda x, index: x.sum(0, keepdim=True).tanh(), torch.ones(3, 2))
        0.0
        >>> hessian_gap(lambda x, index: x.prod(0, keepdim=True), torch.ones(3, 2))
        1.0
    """
    blocks = hessian_blocks(function, x).flatten(1, 2)
    return (blocks.amax(1) - blocks.amin(1)).max().item()


def _check_vector(number: int, x: Tensor) -> int:
    if not 0 <= number < x.size(0):
        raise ValueError(f"There is no vector {number}; x has the vectors 0 ... {x.size(0) - 1}.")
    return number


def _block_rows(function: SetFunction, x: Tensor, vectors: range | list[int]) -> Tensor:
    """Compute the block rows of some vectors, ``[d, len(vectors), k, F, F]``, with one backward pass per entry."""
    if x.dim() != 2 or not x.is_floating_point() or x.numel() == 0:
        raise ValueError(f"x is {x.dtype} of shape {tuple(x.shape)}, but must be a set of real vectors [k, F].")
    x = x.detach().clone().requires_grad_()
    out = function(x, torch.zeros(x.size(0), dtype=torch.long, device=x.device))
    if out.dim() != 2 or out.size(0) != 1:
        raise ValueError(f"The function returned shape {tuple(out.shape)}, but must return [1, d] for one set.")
    rows = []
    for output in out[0]:
        first = _gradient(output, x)
        rows.append(torch.stack([torch.stack([_gradient(entry, x) for entry in first[i]]) for i in vectors]))
    return torch.stack(rows).transpose(2, 3).detach()  # from [d, i, F of i, j, F of j]


def _gradient(value: Tensor, x: Tensor) -> Tensor:
    """Return a differentiable gradient; it is zero if ``value`` does not depend on ``x``."""
    if not value.requires_grad:
        return torch.zeros_like(x)
    (gradient,) = torch.autograd.grad(value, x, create_graph=True, materialize_grads=True)
    return gradient
