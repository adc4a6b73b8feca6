"""Build a linear CP layer from its two matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.nn import CPAggregation


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
