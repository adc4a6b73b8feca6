"""Theorem 3: a CP layer is not a function of the sum, by second derivatives and by a counterexample."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tgnn.nn import CPAggregation
from tgnn.theory.dense import check_initialized

SetFunction = Callable[[Tensor, Tensor], Tensor]
"""Aggregation called as ``f(x, index)``, with ``x`` ``[k, F]`` and an ``index`` of zeros; returns ``[1, d]``."""

SCALES = [2.0**exponent for exponent in range(21)]
DIRECTIONS = 8


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


class EqualSums(NamedTuple):
    """Two sets with exactly equal sums, and the outputs of the layer for them, in float64."""

    first: Tensor
    """``[k, F]``"""
    second: Tensor
    """``[k, F]``"""
    first_output: Tensor
    """``[d]``"""
    second_output: Tensor
    """``[d]``"""


def equal_sums_differ(layer: CPAggregation, k: int = 2, *, tolerance: float = 1e-3, seed: int = 0) -> EqualSums:
    r"""Find two sets of :math:`k` vectors with equal sums and different outputs: the layer is no function of the sum.

    By Theorem 3 almost every layer has such sets. They are, with all other vectors zero,

    .. math::
        \{t v, t v\} \quad \text{and} \quad \{3 t v, -t v\}

    With :math:`a = t\, w_r^\top v` and the bias :math:`b` the two products are :math:`(b + a)^2 b^{k-2}` and
    :math:`(b + 3a)(b - a) b^{k-2}`. They differ by :math:`4 a^2 b^{k-2}`, which is not 0 for :math:`k = 2` or
    :math:`b \ne 0`. For large :math:`t` they have opposite signs in all these columns. So tanh takes opposite values,
    each output changes its sign, and ReLU can remove only one of the two. The search over
    :math:`t = 1, 2, 4, \ldots` therefore succeeds for all common activations.

    Entries are small integers times powers of two, so the sums are equal to the last bit. The layer is evaluated in
    float64. A difference counts only if it is larger than a bound on the rounding errors.

    Args:
        layer: CP layer with any activations. It is not modified.
        k: Number of vectors, at least 2.
        tolerance: Minimum difference of the outputs, relative to the larger output.
        seed: Random seed of the directions :math:`v`.

    Raises:
        ValueError: If the search finds no such sets, because the layer is (nearly) a function of the sum, like the
            layers of :func:`cp_sum`.

    Example:
        >>> found = equal_sums_differ(CPAggregation(3, 4, rank=5), k=4)
        >>> torch.equal(found.first.sum(0), found.second.sum(0))
        True
        >>> torch.allclose(found.first_output, found.second_output)
        False
    """
    if k < 2:
        raise ValueError(f"k is {k}, but must be at least 2, because one vector equals its sum.")
    check_initialized(layer)
    layer = copy.deepcopy(layer).cpu().double()
    generator = torch.Generator().manual_seed(seed)
    integers = torch.cat([torch.arange(-7, 0), torch.arange(1, 8)]).double()
    with torch.no_grad():
        for _ in range(DIRECTIONS):
            v = integers[torch.randint(len(integers), (layer.in_channels,), generator=generator)]
            for t in SCALES:
                first, second = v.new_zeros(2, k, layer.in_channels)
                first[0] = first[1] = t * v
                second[0], second[1] = 3 * t * v, -t * v
                outputs = [layer(x, torch.zeros(k, dtype=torch.long))[0] for x in (first, second)]
                difference = (outputs[0] - outputs[1]).abs()
                size = torch.stack(outputs).abs().max()
                noise = _rounding(layer, first) + _rounding(layer, second)
                if bool((difference > tolerance * size + noise).any()):
                    return EqualSums(first, second, outputs[0], outputs[1])
    raise ValueError(
        f"Among {DIRECTIONS * len(SCALES)} pairs, no two sets of k={k} vectors with equal sums have outputs that "
        f"differ by {tolerance:g}. The layer is nearly a function of the sum, or constant (a ReLU on outputs that are "
        "never positive). Try another seed or a smaller tolerance."
    )


def _rounding(layer: CPAggregation, x: Tensor) -> Tensor:
    """Return an upper bound on the rounding errors of each output, for activations with slopes of at most 1."""
    assert layer.lin.bias is not None
    factors = x.abs() @ layer.lin.weight.abs() + layer.lin.bias.abs()
    if layer.scaled:
        factors = 1 + (factors + 1) * x.size(0) ** -0.5
    steps = 4 * (x.numel() + layer.rank)
    return steps * torch.finfo(x.dtype).eps * (layer.M.abs() @ factors.prod(0))
