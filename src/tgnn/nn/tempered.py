"""A product that large degrees do not blow up."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.nn.neighborhood import Neighborhood, as_edge_index

_LEAST = 1e-6  # a factor nearer to zero counts as this: the slope of |z| ** p has no bound at 0
_MOST = 80.0  # of the logarithm: exp(80) is finite in float32, and far beyond where tanh is 1


def tempered_product(z: Tensor, near: Neighborhood, addend: Tensor | None = None) -> Tensor:
    r""":math:`\operatorname{sign}(P) \, |P|^{1 / \sqrt{d}}` over the neighborhood of each node, of weighted degree d.

    From the sum of logarithms, so that only the tempered product is ever formed. With edge terms each edge has its own
    factor, and an E x R matrix of them is formed.

    Args:
        z: Factors of the sources, ``[N_src, R]``.
        near: The neighborhoods.
        addend: Added to the factor of each edge, ``[E, R]``.
    """
    given = z.dtype
    z = z.to(torch.promote_types(given, torch.float32))  # half precision does not count beyond 256
    if addend is None and near.weight is None:
        logs = near.sum(z.abs().clamp(min=_LEAST).log())
        negative = near.sum((z.detach() < 0).to(z.dtype))
    else:
        src, dst = as_edge_index(near.graph)
        f = z[src] if addend is None else z[src] + addend
        if near.weight is not None:
            weight = near.weight.unsqueeze(1).to(z.dtype)
            f = weight * f + (1 - weight)
        zeros = z.new_zeros(near.size[1], z.size(1))
        logs = zeros.index_add(0, dst, f.abs().clamp(min=_LEAST).log())
        negative = zeros.index_add(0, dst, (f.detach() < 0).to(z.dtype))
    power = near.degrees().to(z.dtype).clamp(min=1).rsqrt().unsqueeze(1)
    sign = 1 - 2 * (negative % 2)
    return (sign * (logs * power).clamp(max=_MOST).exp()).to(given)
