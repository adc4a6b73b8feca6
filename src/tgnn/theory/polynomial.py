"""Theorem 1: every permutation-invariant multilinear polynomial is a CP layer."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import qr
from torch import Tensor

from tgnn.nn import CPAggregation
from tgnn.theory.dense import check_positive, linear_layer

Terms = Mapping[tuple[int, ...], "float | Sequence[float] | Tensor"]
Array = npt.NDArray[np.float64]

LARGEST_RANK = 1500
"""Maximum rank; a larger one would take too long to compute."""

ACCURACY = 1e-8
"""Maximum error, relative to the values of the polynomial on normally distributed inputs."""

CANDIDATES = 4
"""Number of random candidates per selected direction."""


def cp_from_polynomial(
    polynomial: Terms | Tensor | npt.NDArray[np.floating],
    in_channels: int | None = None,
    k: int | None = None,
    *,
    symmetrize: bool = False,
) -> CPAggregation:
    r"""Build the CP layer of a permutation-invariant multilinear polynomial of :math:`k` vectors (Theorem 1).

    .. math::
        f(x_1, \ldots, x_k) = T \times_1 [x_1; 1] \cdots \times_k [x_k; 1]
        = M (W^\top [x_1; 1] \odot \cdots \odot W^\top [x_k; 1])

    There are two ways to give the polynomial.

    **By its terms.** A term is a tuple of features: ``(a, b)`` is :math:`x_i[a]\, x_j[b]`, summed over all choices of
    different vectors :math:`i \ne j`, where each distinct monomial counts once. For vectors :math:`x, y, z`:

    ========== ==================================================================================
    ``()``     1
    ``(0,)``   ``x[0] + y[0] + z[0]``
    ``(0, 0)`` ``x[0] y[0] + x[0] z[0] + y[0] z[0]``
    ``(0, 1)`` ``x[0] y[1] + x[1] y[0] + x[0] z[1] + x[1] z[0] + y[0] z[1] + y[1] z[0]``
    ========== ==================================================================================

    The value of a term is its coefficient: a number, or one number for each of the :math:`d` outputs.

    **As a tensor** :math:`T` that is symmetric in its first :math:`k` modes. Index :math:`F` is the constant 1. The
    coefficient of a term is the entry of the tensor at its features, padded with :math:`F`, in any order.

    The rank is :math:`\binom{F + k}{k}`, the dimension of the space of symmetric tensors. The columns of :math:`W` are
    fixed directions whose powers are a basis of this space, and :math:`M` holds the coordinates of :math:`T`. On
    normally distributed inputs the error is below 1e-8, relative to the values of the polynomial. (Measured up to
    ``F=4, k=5``: a relative error of 1e-14 and an absolute error of 1e-12, see ``docs/theory.md``.) The layer is valid
    for sets of exactly :math:`k` vectors.

    Args:
        polynomial: Terms or tensor.
        in_channels: Number of features :math:`F`; required with terms.
        k: Number of vectors; required with terms.
        symmetrize: Whether to replace a tensor that is not symmetric by its average over all orders of its first
            :math:`k` indices. If ``False``, such a tensor is an error.

    Raises:
        ValueError: If the rank exceeds 1500, or if the error could exceed 1e-8.

    Shapes:
        - **polynomial:** terms, or ``(F + 1,) * k + (d,)``
        - **the layer's input:** sets of :math:`k` rows ``[k, F]``
        - **the layer's output:** ``[sets, d]``

    Example:
        >>> layer = cp_from_polynomial({(): 1.0, (0, 1): 2.0}, in_channels=2, k=2)  # 1 + 2 (x[0] y[1] + x[1] y[0])
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
        >>> layer(x, torch.tensor([0, 0])).detach().round(decimals=9).tolist()
        [[21.0]]
        >>> product = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).unsqueeze(-1)  # x y
        >>> cp_from_polynomial(product)(x[:, :1], torch.tensor([0, 0])).detach().round(decimals=9).tolist()
        [[3.0]]
    """
    if isinstance(polynomial, Mapping):
        if in_channels is None or k is None:
            raise ValueError("Terms do not determine the numbers of features and vectors; pass in_channels and k.")
        _check_size(in_channels, k)
        entries = _check_finite(_from_terms(polynomial, in_channels, k))
    else:
        tensor = _checked_tensor(torch.as_tensor(polynomial).detach().cpu(), in_channels, k)
        in_channels, k = tensor.size(0) - 1, tensor.dim() - 1
        _check_size(in_channels, k)
        entries = _from_tensor(_check_finite(tensor), symmetrize)
    directions, least = spanning_directions(in_channels + 1, k)
    error = k * math.sqrt(len(directions)) * float(np.finfo(np.float64).eps) / least
    if error > ACCURACY:
        raise ValueError(
            f"k={k} with in_channels={in_channels} has an error of about {error:.0e}, above the maximum of "
            f"{ACCURACY:.0e}; use a smaller k (up to 30 is accurate)."
        )
    # Both sides in isometric coordinates: an entry is weighted by how often it appears in the full tensor.
    weights = np.sqrt(_multiplicities(in_channels + 1, k))[:, None]
    M = np.linalg.solve(_powers(directions, k), weights * entries.numpy())
    return linear_layer(torch.from_numpy(directions.T.copy()), torch.from_numpy(M.T.copy()))


def _check_finite(coefficients: Tensor) -> Tensor:
    if not bool(coefficients.isfinite().all()):
        raise ValueError("A coefficient is NaN or infinite, but each must be a finite number.")
    return coefficients


def _check_size(in_channels: int, k: int) -> None:
    check_positive(in_channels=in_channels, k=k)
    rank = math.comb(in_channels + k, k)
    if rank > LARGEST_RANK:
        raise ValueError(
            f"k={k} with in_channels={in_channels} needs rank {rank}, more than the maximum of {LARGEST_RANK}; "
            "use fewer features or vectors (for a sum or a mean, use cp_sum or cp_mean)."
        )


def _checked_tensor(tensor: Tensor, in_channels: int | None, k: int | None) -> Tensor:
    shape = tuple(tensor.shape)
    if tensor.is_complex():
        raise TypeError(f"The tensor has type {tensor.dtype}, but must be real.")
    if len(shape) < 2 or len(set(shape[:-1])) != 1 or shape[0] < 2 or shape[-1] < 1:
        raise ValueError(f"The tensor has shape {shape}, but must have (F + 1,) * k + (d,), such as (3, 3, 1).")
    for name, given, found in (("in_channels", in_channels, shape[0] - 1), ("k", k, len(shape) - 1)):
        if given is not None and given != found:
            raise ValueError(f"{name} is {given}, but a tensor of shape {shape} has {name}={found}; omit {name}.")
    return tensor


# ---- coefficients, given as a tensor or by terms ----------------------------------------------------------------


def _from_tensor(tensor: Tensor, symmetrize: bool) -> Tensor:
    """Return the distinct entries ``[C(F + k, k), d]`` of a symmetric tensor, in the order of :func:`_indices`."""
    k, side = tensor.dim() - 1, tensor.size(0)
    orbits = np.zeros(side**k, dtype=np.int64)
    for row in np.sort(np.indices((side,) * k, dtype=np.int16).reshape(k, -1), axis=0):
        orbits = orbits * side + row
    # Sorted indices encoded as numbers: np.unique sorts them in the order of `_indices`.
    orbit = torch.from_numpy(np.unique(orbits, return_inverse=True)[1].reshape(-1))
    entries = tensor.reshape(-1, tensor.size(-1)).double()
    count = int(orbit.max()) + 1
    if not symmetrize:
        _check_symmetric(tensor, entries, orbit, count)
    sums = entries.new_zeros(count, entries.size(1)).index_add(0, orbit, entries)
    return sums / orbit.bincount().unsqueeze(1)


def _check_symmetric(tensor: Tensor, entries: Tensor, orbit: Tensor, count: int) -> None:
    """Raise a ``ValueError`` with the two most different entries if the tensor is not symmetric up to rounding."""
    where = orbit.unsqueeze(1).expand_as(entries)
    blank = entries.new_zeros(count, entries.size(1))
    most = blank.scatter_reduce(0, where, entries, "amax", include_self=False)
    least = blank.scatter_reduce(0, where, entries, "amin", include_self=False)
    rounding = torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0
    gap = most - least
    if bool((gap <= 100 * rounding * entries.abs().max()).all()):
        return
    group, output = divmod(int(gap.argmax()), gap.size(1))
    rows = (orbit == group).nonzero().flatten()
    names = []
    for row in (rows[entries[rows, output].argmin()], rows[entries[rows, output].argmax()]):
        index = [int(i) for i in np.unravel_index(int(row), tensor.shape[:-1])]
        names.append(f"T{[*index, output]} = {entries[row, output].item():g}")
    raise ValueError(
        f"The tensor is not symmetric in its first {tensor.dim() - 1} indices: {names[0]} but {names[1]}. "
        "Correct the tensor, or pass symmetrize=True to average over all orders of the indices."
    )


def _from_terms(terms: Terms, in_channels: int, k: int) -> Tensor:
    """Return the distinct tensor entries ``[C(F + k, k), d]`` of a polynomial, in the order of :func:`_indices`."""
    if not terms:
        raise ValueError(
            "There are no terms, so the number of outputs is unknown; use {(): 0.0} for the zero polynomial."
        )
    position = {index: row for row, index in enumerate(_indices(in_channels + 1, k))}
    out: Tensor | None = None
    seen: dict[tuple[int, ...], Any] = {}
    for key, value in terms.items():
        index = _index_of(key, in_channels, k)
        if index in seen:
            raise ValueError(
                f"{key} and {seen[index]} are the same term, because factors commute; pass their sum once."
            )
        seen[index] = key
        coefficient = torch.as_tensor(value, dtype=torch.float64).detach()
        if coefficient.dim() > 1 or coefficient.numel() == 0:
            raise ValueError(
                f"the coefficient of {key} has shape {tuple(coefficient.shape)}, but must be a number or a vector [d]."
            )
        if out is None:
            out = coefficient.new_zeros(len(position), coefficient.numel())
        if coefficient.numel() != out.size(1):
            raise ValueError(
                f"the coefficient of {key} has {coefficient.numel()} entries, but those before it have {out.size(1)}; "
                "pass one number for each output."
            )
        out[position[index]] = coefficient
    assert out is not None
    return out


def _index_of(key: Any, in_channels: int, k: int) -> tuple[int, ...]:
    """Return the sorted tensor index of a term: its features, then the index of the constant."""
    try:
        features = sorted(operator.index(feature) for feature in key)
    except TypeError:
        raise TypeError(
            f"The term {key!r} must be a tuple of feature indices, one for each factor: (0, 1) is x_i[0] x_j[1], (0,) "
            "is x_i[0], () is the constant."
        ) from None
    if features and not 0 <= features[0] <= features[-1] < in_channels:
        raise ValueError(f"The term {key} has a feature outside 0 ... {in_channels - 1} (in_channels={in_channels}).")
    if len(features) > k:
        raise ValueError(
            f"The term {key} has {len(features)} factors, but there are only k={k} vectors, each in at most one factor."
        )
    return (*features, *(in_channels,) * (k - len(features)))


# ---- directions whose k-th powers are a well-conditioned basis of the symmetric tensors of order k --------------


def _indices(variables: int, order: int) -> list[tuple[int, ...]]:
    """Return the sorted indices of the distinct entries of a symmetric tensor, such as (0, 0), (0, 1), (1, 1)."""
    return list(combinations_with_replacement(range(variables), order))


def _multiplicities(variables: int, order: int) -> Array:
    """Return how often each distinct entry appears in the full tensor (a multinomial coefficient)."""
    counts = [[index.count(i) for i in range(variables)] for index in _indices(variables, order)]
    return np.array([math.factorial(order) / math.prod(map(math.factorial, row)) for row in counts])


def _powers(directions: Array, order: int) -> Array:
    """Compute the tensors ``w o ... o w`` of ``[R, variables]`` directions, scaled to the norm of the full tensor."""
    variables = directions.shape[1]
    counts = np.array([[index.count(i) for i in range(variables)] for index in _indices(variables, order)])
    out = np.sqrt(_multiplicities(variables, order))[:, None].repeat(len(directions), 1)
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
    pivots = qr(_powers(candidates, order), mode="r", pivoting=True)[1]
    chosen = candidates[pivots[:count]]
    chosen.flags.writeable = False  # it is cached and shared
    return chosen, float(np.linalg.svd(_powers(chosen, order), compute_uv=False)[-1])
