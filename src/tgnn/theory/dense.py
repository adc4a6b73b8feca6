"""A CP layer from its two matrices, and the dense weight tensor of a CP layer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from tgnn.nn import CPAggregation

LARGEST = 2**27
"""Maximum number of entries of intermediate results: 1 GB in float64."""


def linear_layer(W: Tensor, M: Tensor) -> CPAggregation:
    """Return the CP layer of Definition 1 with these matrices, in float64, without activations.

    Args:
        W: ``[F + 1, R]``; the last row belongs to the homogeneous coordinate.
        M: ``[d, R]``.

    Example:
        >>> product = linear_layer(torch.tensor([[1.0], [0.0]]), torch.tensor([[1.0]]))
        >>> product(torch.tensor([[2.0], [3.0]], dtype=torch.float64), torch.tensor([0, 0])).tolist()
        [[6.0]]
    """
    # The random initialization of the layer is overwritten, so it must not change the random state of the caller.
    with torch.random.fork_rng(devices=[]):
        layer = CPAggregation(W.size(0) - 1, M.size(0), rank=M.size(1), act=None, act_out=None)
    layer.double()
    assert layer.lin.bias is not None
    with torch.no_grad():
        layer.lin.weight.copy_(W[:-1])
        layer.lin.bias.copy_(W[-1])
        layer.M.copy_(M)
    return layer


def dense_tensor(layer: CPAggregation, k: int) -> Tensor:
    r"""Return the weight tensor of a CP layer for sets of :math:`k` vectors, symmetric in its first :math:`k` modes.

    .. math::
        T = [\![ W, \ldots, W, M ]\!] = \sum_{r=1}^{R} w_r \circ \cdots \circ w_r \circ m_r

    A layer with ``act=None, act_out=None`` computes :math:`T \times_1 [x_1; 1] \cdots \times_k [x_k; 1]`. With other
    activations the tensor is still that of ``W`` and ``M``, but the output of the layer is not the contraction alone.
    With ``scaled=True``, ``W`` includes the scaling for sets of size :math:`k`. The result is differentiable in the
    parameters.

    Args:
        layer: CP layer without ``factor_act``, because nonlinear factors have no such tensor.
        k: Number of vectors.

    Shapes:
        - **output:** ``(F + 1,) * k + (d,)``; index ``F`` is the constant 1

    Example:
        >>> from tgnn.theory import cp_sum
        >>> dense_tensor(cp_sum(1, 2), 2)[..., 0].detach().round(decimals=12).tolist()  # 1 x_1 + x_2 1
        [[0.0, 1.0], [1.0, 0.0]]
    """
    if k < 1:
        raise ValueError(f"k is {k}, but a set must have at least 1 vector.")
    if layer.factor_act is not None:
        raise ValueError(
            f"The layer has factor_act={layer.factor_act}, so its factors are not linear and it has no weight tensor; "
            "use factor_act=None."
        )
    if isinstance(layer.lin.weight, UninitializedParameter):
        raise ValueError("The layer has in_channels=-1 and no parameters yet; run it once first.")
    W, M = layer.W, layer.M
    if layer.scaled:  # 1 + (z - 1) / sqrt(k) is linear in [x; 1] too
        one = torch.zeros_like(W)
        one[-1] = 1
        W = one + (W - one) * k**-0.5
    size = W.size(0) ** k * max(W.size(1), M.size(0))
    if size > LARGEST:
        raise ValueError(
            f"k={k} with {layer.in_channels} features and rank {layer.rank} needs {size} numbers, more than the "
            f"maximum of {LARGEST}; use a smaller k, or call the layer, which never forms the tensor."
        )
    powers = W.new_ones(1, W.size(1))  # the Khatri-Rao power of W: its column r is w_r o ... o w_r, flat
    for _ in range(k):
        powers = (powers.unsqueeze(1) * W).flatten(0, 1)
    return (powers @ M.t()).reshape(*(W.size(0),) * k, M.size(0))
