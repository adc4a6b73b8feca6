"""The tensor that a CP layer stands for."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from tgnn.nn import CPAggregation

LARGEST = 2**27
"""So many numbers are formed at most: 1 GB in float64."""


def dense_tensor(layer: CPAggregation, k: int) -> Tensor:
    r"""The weight tensor of a CP layer for sets of :math:`k` vectors, partially symmetric in its first :math:`k` modes.

    .. math::
        T = [\![ W, \ldots, W, M ]\!] = \sum_{r=1}^{R} w_r \circ \cdots \circ w_r \circ m_r

    A layer with ``act=None, act_out=None`` computes :math:`T \times_1 [x_1; 1] \cdots \times_k [x_k; 1]`. Other
    activations stand around and inside that contraction: the tensor is then still that of ``W`` and ``M``, but the
    layer's output is more than the contraction. With ``scaled=True``, ``W`` is what it is for sets of size :math:`k`.
    It is differentiable in the parameters.

    Args:
        layer: The layer. With a ``factor_act`` it has no such tensor, and is refused.
        k: How many vectors.

    Shapes:
        - **output:** ``(F + 1,) * k + (d,)``; index ``F`` is the constant 1

    Example:
        >>> from tgnn.theory import cp_sum
        >>> dense_tensor(cp_sum(1, 2), 2)[..., 0].detach().round(decimals=12).tolist()  # 1 x_1 + x_2 1
        [[0.0, 1.0], [1.0, 0.0]]
    """
    if k < 1:
        raise ValueError(f"k is {k}, but a set must have at least 1 vector")
    if layer.factor_act is not None:
        raise ValueError(
            f"the layer has factor_act={layer.factor_act}, so its factors are not linear and no tensor stands for it; "
            f"make it with factor_act=None"
        )
    if isinstance(layer.lin.weight, UninitializedParameter):
        raise ValueError("the layer has in_channels=-1 and has seen no input yet: run it once first")
    W, M = layer.W, layer.M
    if layer.scaled:  # 1 + (z - 1) / sqrt(k) is linear in [x; 1] too
        one = torch.zeros_like(W)
        one[-1] = 1
        W = one + (W - one) * k**-0.5
    size = W.size(0) ** k * max(W.size(1), M.size(0))
    if size > LARGEST:
        raise ValueError(
            f"k={k} with {layer.in_channels} features and rank {layer.rank} needs {size} numbers, more than the "
            f"{LARGEST} that are formed at most; take a smaller k, or call the layer: it never forms the tensor"
        )
    powers = W.new_ones(1, W.size(1))  # the Khatri-Rao power of W: its column r is w_r o ... o w_r, flat
    for _ in range(k):
        powers = (powers.unsqueeze(1) * W).flatten(0, 1)
    return (powers @ M.t()).reshape(*(W.size(0),) * k, M.size(0))
