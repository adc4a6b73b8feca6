"""Theorem 3, by example: two sets with the same sum on which a CP layer differs."""

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
    """Two sets with the same sum, exactly, and what the layer makes of them. All in float64."""

    first: Tensor
    """``[k, F]``"""
    second: Tensor
    """``[k, F]``"""
    first_output: Tensor
    """``[d]``"""
    second_output: Tensor
    """``[d]``"""


def equal_sums_differ(layer: CPAggregation, k: int = 2, *, tolerance: float = 1e-3, seed: int = 0) -> EqualSums:
    r"""Two sets of :math:`k` vectors with the same sum and different outputs: the layer is no function of the sum.

    Theorem 3 says that almost every layer has such sets. They are, with the other vectors zero,

    .. math::
        \{t v, t v\} \quad \text{and} \quad \{3 t v, -t v\}

    With :math:`a = t\, w_r^\top v` and the bias :math:`b` the two products are :math:`(b + a)^2` and
    :math:`(b + 3a)(b - a)`. They differ by :math:`4 a^2`, for every :math:`b`. For large :math:`t` they have opposite
    signs in every column at once. So tanh goes to opposite values, each output changes its sign, and ReLU leaves one
    of the two: the search over :math:`t = 1, 2, 4, \ldots` ends with any of the usual activations.

    Entries are small whole numbers times powers of two, so the sums are equal to the last bit. The layer is
    evaluated in float64, and a difference counts only where it is far above what rounding can do.

    Args:
        layer: The layer, with any activations. It is not changed.
        k: How many vectors, at least 2.
        tolerance: By how much the outputs must differ, relative to the larger of them.
        seed: Of the directions :math:`v` that are tried.

    Raises:
        ValueError: If there are none among those tried: the layer is (nearly) a function of the sum, as those of
            :func:`cp_sum` are.

    Example:
        >>> found = equal_sums_differ(CPAggregation(3, 4, rank=5), k=4)
        >>> torch.equal(found.first.sum(0), found.second.sum(0))
        True
        >>> torch.allclose(found.first_output, found.second_output)
        False
    """
    if k < 2:
        raise ValueError(f"k is {k}, but must be at least 2: one vector is its own sum")
    if isinstance(layer.lin.weight, UninitializedParameter):
        raise ValueError("the layer has in_channels=-1 and has seen no input yet: run it once first")
    layer = copy.deepcopy(layer).cpu().double()
    generator = torch.Generator().manual_seed(seed)
    whole = torch.cat([torch.arange(-7, 0), torch.arange(1, 8)]).double()
    with torch.no_grad():
        for _ in range(DIRECTIONS):
            v = whole[torch.randint(len(whole), (layer.in_channels,), generator=generator)]
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
        f"no two sets of k={k} vectors with equal sums and outputs that differ by {tolerance:g} were found among "
        f"{DIRECTIONS * len(SCALES)} pairs: the layer is nearly a function of the sum, or constant (a ReLU on outputs "
        f"that are never positive); try another seed or a smaller tolerance"
    )


def _rounding(layer: CPAggregation, x: Tensor) -> Tensor:
    """An upper bound of the rounding errors of each output, for activations that do not stretch differences."""
    assert layer.lin.bias is not None
    factors = x.abs() @ layer.lin.weight.abs() + layer.lin.bias.abs()
    if layer.scaled:
        factors = 1 + (factors + 1) * x.size(0) ** -0.5
    steps = 4 * (x.numel() + layer.rank)
    return steps * torch.finfo(x.dtype).eps * (layer.M.abs() @ factors.prod(0))
