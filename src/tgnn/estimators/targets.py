"""Targets as users have them: which are known, and what they are to a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor


def as_column(y: Any, X: Any) -> np.ndarray:
    """Targets as one column, as many as there are examples.

    Args:
        y: List or array, ``[N]``; anything may be in it.
        X: What they are the targets of.

    Example:
        >>> as_column(["a", None, float("nan")], range(3))
        array(['a', None, nan], dtype=object)
    """
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    elif not hasattr(y, "dtype"):  # NumPy on its own would make the text 'nan' of NaN among strings
        y = _plain(np.array(y if isinstance(y, (list, tuple)) else list(y), dtype=object))
    column: np.ndarray = column_or_1d(y, warn=True)
    check_consistent_length(X, column)
    return column


def is_missing(y: np.ndarray, minus_one: bool) -> np.ndarray:
    """Which targets are not known: ``None``, NaN, and -1 where that is no label.

    Example:
        >>> is_missing(np.array([0.0, -1.0, np.nan]), minus_one=True).tolist()
        [False, True, True]
    """
    if y.dtype.kind == "f":
        missing: np.ndarray = np.isnan(y)
    elif y.dtype == object:
        missing = np.array(
            [value is None or (isinstance(value, (float, np.floating)) and value != value) for value in y], dtype=bool
        )
    else:
        missing = np.zeros(len(y), dtype=bool)
    if minus_one and y.dtype.kind in "ifO":
        missing = missing | np.array(y == -1, dtype=bool)
    return missing


def as_labels(y: np.ndarray) -> np.ndarray:
    """Labels that can be told apart: text, or numbers that are whole."""
    y = _plain(y)
    if y.dtype == object and y.size:
        kinds = sorted({type(value).__name__ for value in y})
        raise ValueError(f"y must hold text only or numbers only, got {', '.join(kinds)}")
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError("Input y contains infinity.")
    if y.size:
        check_classification_targets(y)
    return y


def as_numbers(y: np.ndarray) -> np.ndarray:
    """Targets of a regression."""
    if y.dtype.kind in "USmMc":
        raise ValueError(f"y must hold numbers for a regression, got {y.dtype}")
    try:
        numbers = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers for a regression: {error}") from error
    if np.isinf(numbers).any():
        raise ValueError("Input y contains infinity.")
    return numbers


def _plain(y: np.ndarray) -> np.ndarray:
    """An array of objects that are all text, or all numbers, as an array of such."""
    if y.dtype != object or y.size == 0:
        return y
    for kinds in ((str,), (bool, np.bool_), (int, float, np.number)):
        if all(isinstance(value, kinds) for value in y.flat):
            return np.array(y.tolist())
    return y
