"""Theorem 3 by counterexample: two sets with equal sums on which a CP layer has different outputs."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from tgnn.nn import CPAggregation

SCALES = [2.0**exponent for exponent in range(21)]
DIRECTIONS = 8


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
    if isinstance(layer.lin.weight, UninitializedParameter):
        raise ValueError("The layer has in_channels=-1 and no parameters yet; run it once first.")
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
