"""Theorem 1: every permutation-invariant multilinear polynomial is a CP layer."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tgnn.nn import CPAggregation
from tgnn.theory.coefficients import Terms, from_tensor, from_terms
from tgnn.theory.directions import multiplicities, powers, spanning_directions
from tgnn.theory.layer import linear_layer

LARGEST_RANK = 1500
"""Maximum rank; a larger one would take too long to compute."""

ACCURACY = 1e-8
"""Maximum error, relative to the values of the polynomial on normally distributed inputs."""


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
        entries = _check_finite(from_terms(polynomial, in_channels, k))
    else:
        tensor = _checked_tensor(torch.as_tensor(polynomial).detach().cpu(), in_channels, k)
        in_channels, k = tensor.size(0) - 1, tensor.dim() - 1
        _check_size(in_channels, k)
        entries = from_tensor(_check_finite(tensor), symmetrize)
    directions, least = spanning_directions(in_channels + 1, k)
    error = k * math.sqrt(len(directions)) * float(np.finfo(np.float64).eps) / least
    if error > ACCURACY:
        raise ValueError(
            f"k={k} with in_channels={in_channels} has an error of about {error:.0e}, above the maximum of "
            f"{ACCURACY:.0e}; use a smaller k (up to 30 is accurate)."
        )
    # Both sides in isometric coordinates: an entry is weighted by how often it appears in the full tensor.
    weights = np.sqrt(multiplicities(in_channels + 1, k))[:, None]
    M = np.linalg.solve(powers(directions, k), weights * entries.numpy())
    return linear_layer(torch.from_numpy(directions.T.copy()), torch.from_numpy(M.T.copy()))


def _check_finite(coefficients: Tensor) -> Tensor:
    if not bool(coefficients.isfinite().all()):
        raise ValueError("A coefficient is NaN or infinite, but each must be a finite number.")
    return coefficients


def _check_size(in_channels: int, k: int) -> None:
    for name, value in (("in_channels", in_channels), ("k", k)):
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1.")
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
