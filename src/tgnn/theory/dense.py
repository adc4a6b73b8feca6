"""A CP layer from its two matrices, and the dense weight tensor of a CP layer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from tgnn.nn import CPAggregation

LARGEST = 2**27
"""Maximum number of entries of intermediate results: 1 GB in float64."""


def check_positive(**sizes: int) -> None:
    """Raise a ``ValueError`` for a size below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} is {size}, but must be at least 1.")


def check_initialized(layer: CPAggregation) -> None:
    """Raise a ``ValueError`` for a lazy layer that has not been run."""
    if isinstance(layer.lin.weight, UninitializedParameter):
        raise ValueError("The layer has in_channels=-1 and no parameters yet; run it once first.")


def linear_layer(W: Tensor, M: Tensor) -> CPAggregation:
    """Return the CP layer of Definition 1 with ``W`` ``[F + 1, R]`` and ``M`` ``[d, R]``, without activations.

    The last row of ``W`` belongs to the homogeneous coordinate. The parameters are float64.
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
    check_positive(k=k)
    if layer.factor_act is not None:
        raise ValueError(
            f"The layer has factor_act={layer.factor_act}, so its factors are not linear and it has no weight tensor; "
            "use factor_act=None."
        )
    check_initialized(layer)
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
