"""Tempered product: a power of the neighborhood product that stays bounded at large degrees."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.nn.neighborhood import Neighborhood, as_edge_index

_MIN_FACTOR = 1e-6  # smaller |factors| are clamped, because the slope of |z| ** p is unbounded at 0
_MAX_LOG = 80.0  # exp(80) is finite in float32, and tanh is 1 far below it


def tempered_product(z: Tensor, neighborhood: Neighborhood, addend: Tensor | None = None) -> Tensor:
    r"""Compute :math:`\operatorname{sign}(P) \, |P|^{1 / \sqrt{d}}` for each neighborhood of (weighted) degree d.

    The product is computed from a sum of logarithms, so :math:`P` itself is never formed. With edge weights or edge
    features, each edge has its own factor, and an E x R matrix of factors is formed.

    Args:
        z: Factors of the sources, ``[N_src, R]``.
        neighborhood: Neighborhood of each destination.
        addend: Value added to the factor of each edge, ``[E, R]``.
    """
    dtype = z.dtype
    z = z.to(torch.promote_types(dtype, torch.float32))  # half precision cannot count beyond 256
    if addend is None and neighborhood.weight is None:
        logs = neighborhood.sum(z.abs().clamp(min=_MIN_FACTOR).log())
        negative = neighborhood.sum((z.detach() < 0).to(z.dtype))
    else:
        src, dst = as_edge_index(neighborhood.graph)
        f = z[src] if addend is None else z[src] + addend
        if neighborhood.weight is not None:
            weight = neighborhood.weight.unsqueeze(1).to(z.dtype)
            f = weight * f + (1 - weight)
        zeros = z.new_zeros(neighborhood.size[1], z.size(1))
        logs = zeros.index_add(0, dst, f.abs().clamp(min=_MIN_FACTOR).log())
        negative = zeros.index_add(0, dst, (f.detach() < 0).to(z.dtype))
    power = neighborhood.degrees().to(z.dtype).clamp(min=1).rsqrt().unsqueeze(1)
    sign = 1 - 2 * (negative % 2)
    return (sign * (logs * power).clamp(max=_MAX_LOG).exp()).to(dtype)
