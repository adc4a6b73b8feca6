"""Validation and conversion of the targets ``y``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor


def to_column(y: Any, X: Any) -> np.ndarray:
    """Return the targets as a 1D array with one entry for each example.

    Args:
        y: List, array or tensor of any type, ``[N]``.
        X: The examples, whose number must match.

    Example:
        >>> to_column(["a", None, float("nan")], range(3))
        array(['a', None, nan], dtype=object)
    """
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    elif not hasattr(y, "dtype"):  # NumPy would turn a NaN among strings into the string 'nan'
        y = _from_objects(np.array(y if isinstance(y, (list, tuple)) else list(y), dtype=object))
    column: np.ndarray = column_or_1d(y, warn=True)
    check_consistent_length(X, column)
    return column


def is_missing(y: np.ndarray, minus_one: bool) -> np.ndarray:
    """Return a mask of the unlabeled examples.

    Args:
        y: Targets. ``None`` and NaN mean unlabeled.
        minus_one: Whether -1 means unlabeled, too.

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


def check_labels(y: np.ndarray) -> np.ndarray:
    """Return class labels as an array of strings or integers, or raise a ``ValueError``."""
    y = _from_objects(y)
    if y.dtype == object and y.size:
        types = sorted({type(value).__name__ for value in y})
        raise ValueError(f"y must contain only strings or only numbers, got {', '.join(types)}")
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError("Input y contains infinity.")
    if y.size:
        check_classification_targets(y)
    return y


def check_numbers(y: np.ndarray) -> np.ndarray:
    """Return regression targets as float64, or raise a ``ValueError``."""
    if y.dtype.kind in "USmMc":
        raise ValueError(f"y must contain numbers for a regression, got {y.dtype}")
    try:
        numbers = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must contain numbers for a regression: {error}") from error
    if np.isinf(numbers).any():
        raise ValueError("Input y contains infinity.")
    return numbers


def _from_objects(y: np.ndarray) -> np.ndarray:
    """Convert an object array of only strings, only booleans or only numbers to that type."""
    if y.dtype != object or y.size == 0:
        return y
    for types in ((str,), (bool, np.bool_), (int, float, np.number)):
        if all(isinstance(value, types) for value in y.flat):
            return np.array(y.tolist())
    return y
