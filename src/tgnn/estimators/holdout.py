"""Stratified hold-out of validation examples."""

from __future__ import annotations

import numpy as np


def draw_holdout(strata: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Draw a stratified validation set. At least one example of each class is left for training.

    scikit-learn's ``train_test_split`` and ``StratifiedShuffleSplit`` are not used, because they raise an error for a
    class with a single example, and if fewer examples than classes are held out, such as 10 % of 70 examples of 10
    classes. Both are common for nodes with few labels.

    Args:
        strata: Class of each example. Use a constant array for a regression.
        fraction: Fraction of the examples to hold out, at least 0 and less than 1. 0 holds out none.
        seed: Random seed.

    Shapes:
        - **output:** boolean ``[N]``, true for held-out examples

    Example:
        >>> held_out = draw_holdout(np.array([0] * 80 + [1] * 20), 0.1, seed=0)
        >>> int(held_out[:80].sum()), int(held_out[80:].sum())
        (8, 2)
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
