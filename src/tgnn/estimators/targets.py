"""Validation of the targets ``y``, and the hold-out of a validation set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor


def to_column(y: Any, X: Any) -> np.ndarray:
    """Return the targets, a list, array or tensor of any type, as a 1D array with one entry for each example."""
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    elif not hasattr(y, "dtype"):  # NumPy would turn a NaN among strings into the string 'nan'
        y = _from_objects(np.array(y if isinstance(y, (list, tuple)) else list(y), dtype=object))
    column: np.ndarray = column_or_1d(y, warn=True)
    check_consistent_length(X, column)
    return column


def is_missing(y: np.ndarray, minus_one: bool) -> np.ndarray:
    """Return a mask of the unlabeled examples: ``None``, NaN and, if ``minus_one``, -1."""
    missing = np.array(y != y, dtype=bool)  # NaN differs from itself
    if y.dtype == object:
        missing |= np.array([value is None for value in y], dtype=bool)
    if minus_one and y.dtype.kind in "ifO":
        missing |= np.array(y == -1, dtype=bool)
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


def check_mask(mask: Any, size: int, name: str) -> np.ndarray:
    """Return a mask as a boolean array, or raise a ``ValueError`` if its type or size is wrong."""
    array = mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (size,):
        raise ValueError(f"{name} must be a boolean array of shape [{size}], got {array.dtype} {list(array.shape)}")
    return array


def check_sample_weight(sample_weight: Any, size: int) -> np.ndarray:
    """Return the weights of the examples as float32, or raise a ``ValueError`` if their number or a value is wrong."""
    weight = sample_weight.detach().cpu().numpy() if isinstance(sample_weight, Tensor) else np.asarray(sample_weight)
    if weight.shape != (size,) or weight.dtype.kind not in "biuf":
        raise ValueError(
            f"sample_weight must hold one number for each of the {size} examples, "
            f"got {weight.dtype} {list(weight.shape)}"
        )
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must be finite and not negative, with at least one weight above 0")
    return weight.astype(np.float32)


def class_weight_list(class_weight: Mapping[Any, float], classes: np.ndarray) -> tuple[float, ...]:
    """Return the weight of each class; 1 for classes that are not in the mapping, as in scikit-learn."""
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight contains {unknown[0]!r}, but y has the classes {classes.tolist()}")
    return tuple(float(class_weight.get(label, 1.0)) for label in classes.tolist())


def draw_holdout(strata: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Draw a stratified validation set. At least one example of each class is left for training.

    scikit-learn's ``train_test_split`` and ``StratifiedShuffleSplit`` are not used, because they raise an error for a
    class with a single example, and if fewer examples than classes are held out, such as 10 % of 70 examples of 10
    classes. Both are common for nodes with few labels.

    Args:
        strata: Class of each example. Use a constant array for a regression.
        fraction: Fraction of the examples to hold out, at least 0 and less than 1. 0 holds out none.
        seed: Random seed.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"validation_fraction is {fraction}, but must be at least 0 and less than 1")
    held_out = np.zeros(len(strata), dtype=bool)
    if fraction == 0:
        return held_out
    random = np.random.RandomState(seed)
    order = random.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]  # class after class, shuffled within each class
    first_of_class = np.unique(strata[order], return_index=True)[1]
    candidates = np.delete(order, first_of_class)
    count = min(max(1, round(fraction * len(strata))), len(candidates))
    if count == 0:
        classes = f" of {len(first_of_class)} classes" if len(first_of_class) > 1 else ""
        raise ValueError(
            f"{len(strata)} labeled examples{classes} are too few to hold out a validation set: label more examples, "
            "or set validation_fraction=0, which selects the epoch on the training set"
        )
    step = len(candidates) / count  # equal steps through the sorted classes give each its proportion
    held_out[candidates[((np.arange(count) + random.random_sample()) * step).astype(np.int64)]] = True
    return held_out
