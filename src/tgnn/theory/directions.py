"""Directions whose k-th powers are a well-conditioned basis of the symmetric tensors of order k."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

Array = npt.NDArray[np.float64]

CANDIDATES = 4
"""Number of random candidates per selected direction."""


def indices(variables: int, order: int) -> list[tuple[int, ...]]:
    """Return the sorted indices of the distinct entries of a symmetric tensor, in lexicographic order.

    Example:
        >>> indices(2, 2)
        [(0, 0), (0, 1), (1, 1)]
    """
    return list(combinations_with_replacement(range(variables), order))


def multiplicities(variables: int, order: int) -> Array:
    """Return how often each distinct entry appears in the full tensor (a multinomial coefficient).

    Example:
        >>> multiplicities(2, 2).tolist()
        [1.0, 2.0, 1.0]
    """
    counts = [[index.count(i) for i in range(variables)] for index in indices(variables, order)]
    return np.array([math.factorial(order) / math.prod(map(math.factorial, row)) for row in counts])


def powers(directions: Array, order: int) -> Array:
    """Compute the tensors ``w o ... o w`` of each direction as columns, scaled to the norm of the full tensor.

    Args:
        directions: Directions, ``[R, variables]``.
        order: Number of factors.

    Example:
        >>> powers(np.array([[0.6, 0.8]]), 2).round(3).ravel().tolist()  # 0.36, sqrt(2) 0.48, 0.64
        [0.36, 0.679, 0.64]
    """
    variables = directions.shape[1]
    counts = np.array([[index.count(i) for i in range(variables)] for index in indices(variables, order)])
    out = np.sqrt(multiplicities(variables, order))[:, None].repeat(len(directions), 1)
    for i in range(variables):
        table = directions[:, i] ** np.arange(order + 1)[:, None]
        out *= table[counts[:, i]]
    return out


@lru_cache(maxsize=16)
def spanning_directions(variables: int, order: int) -> tuple[Array, float]:
    r"""Select unit vectors whose powers are a well-conditioned basis of the symmetric tensors.

    Almost any vectors give a basis, but most bases are badly conditioned. So four times as many vectors are drawn, with
    a fixed seed, and a QR decomposition with pivoting selects those whose powers are most independent (approximate
    Fekete points).

    Returns:
        The directions ``[C(variables + order - 1, order), variables]``, and the smallest singular value of their
        powers, by which rounding errors may be divided.

    Example:
        >>> directions, least = spanning_directions(3, 4)
        >>> directions.shape, bool(least > 0.1)
        ((15, 3), True)
    """
    count = math.comb(variables + order - 1, order)
    candidates = np.random.default_rng(0).normal(size=(CANDIDATES * count, variables))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    pivots = qr(powers(candidates, order), mode="r", pivoting=True)[1]
    chosen = candidates[pivots[:count]]
    chosen.flags.writeable = False  # it is cached and shared
    return chosen, float(np.linalg.svd(powers(chosen, order), compute_uv=False)[-1])
