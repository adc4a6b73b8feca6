"""Coefficients of a permutation-invariant multilinear polynomial, given as a tensor or by its terms."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgnn.theory.directions import indices

Terms = Mapping[tuple[int, ...], "float | Sequence[float] | Tensor"]


def from_tensor(tensor: Tensor, symmetrize: bool) -> Tensor:
    """Return the distinct entries of a tensor that is symmetric in all modes but the last.

    Shapes:
        - **input:** ``(F + 1,) * k + (d,)``
        - **output:** ``[C(F + k, k), d]``, in the order of :func:`~tgnn.theory.directions.indices`

    Example:
        >>> from_tensor(torch.tensor([[[1.0], [2.0]], [[2.0], [3.0]]]), symmetrize=False).flatten().tolist()
        [1.0, 2.0, 3.0]
    """
    k, side = tensor.dim() - 1, tensor.size(0)
    orbits = np.zeros(side**k, dtype=np.int64)
    for row in np.sort(np.indices((side,) * k, dtype=np.int16).reshape(k, -1), axis=0):
        orbits = orbits * side + row
    # Sorted indices encoded as numbers: np.unique sorts them in the order of `indices`.
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


def from_terms(terms: Terms, in_channels: int, k: int) -> Tensor:
    """Return the distinct tensor entries of a polynomial given by its terms, see :func:`cp_from_polynomial`.

    Shapes:
        - **output:** ``[C(F + k, k), d]``, in the order of :func:`~tgnn.theory.directions.indices`

    Example:
        >>> from_terms({(): 3.0, (0,): 2.0}, in_channels=1, k=2).flatten().tolist()  # of x_1 x_2, x_1, 1
        [0.0, 2.0, 3.0]
    """
    if not terms:
        raise ValueError(
            "There are no terms, so the number of outputs is unknown; use {(): 0.0} for the zero polynomial."
        )
    position = {index: row for row, index in enumerate(indices(in_channels + 1, k))}
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
