"""Standardization of numeric columns to mean 0 and standard deviation 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tgnn.data.tables.encodings import Encoding, width_of
from tgnn.data.tables.schema import Standardize
from tgnn.data.validation.checks import LARGE
from tgnn.data.validation.report import Reporter, subject

_FAR = 10.0
"""A number this many standard deviations from the mean may be a placeholder for a missing number."""
_MOST = float(np.finfo(np.float32).max)
"""The largest float32. Larger numbers are infinite."""


class Moments:
    """Running mean, standard deviation and range of numeric columns, updated block by block (Chan et al., 1983).

    Example:
        >>> moments = Moments(1)
        >>> for block in ([20000.0, 30000.0], [40000.0, float("nan")]):
        ...     moments.update(np.array(block).reshape(-1, 1))
        >>> moments.scale("large")
        {'mean': [30000.0], 'deviation': [8164.9...]}
    """

    def __init__(self, width: int) -> None:
        self.count, self.mean, self.squares = np.zeros((3, width))
        """``squares`` is the sum of squared differences from the mean."""
        self.zeros = np.zeros(width)
        self.least, self.most = np.full(width, np.inf), np.full(width, -np.inf)

    def update(self, rows: np.ndarray) -> None:
        """Add a block of rows ``[N, width]``. Missing and infinite numbers are skipped."""
        known = np.abs(rows) <= _MOST
        values = np.where(known, rows, 0.0)
        count = known.sum(0).astype(np.float64)
        mean = values.sum(0) / np.maximum(count, 1)
        self._merge(count, mean, (np.where(known, rows - mean, 0.0) ** 2).sum(0), (known & (rows == 0)).sum(0))
        self.least = np.minimum(self.least, np.where(known, rows, np.inf).min(0, initial=np.inf))
        self.most = np.maximum(self.most, np.where(known, rows, -np.inf).max(0, initial=-np.inf))

    def update_constant(self, value: float, count: np.ndarray) -> None:
        """Add one number ``count`` times to each column."""
        self._merge(count.astype(np.float64), np.full_like(self.mean, value), 0.0, count * (value == 0))
        self.least = np.where(count > 0, np.minimum(self.least, value), self.least)
        self.most = np.where(count > 0, np.maximum(self.most, value), self.most)

    def _merge(self, count: np.ndarray, mean: np.ndarray, squares: np.ndarray | float, zeros: np.ndarray) -> None:
        total, apart = np.maximum(self.count + count, 1), mean - self.mean
        self.squares += squares + apart**2 * self.count * count / total
        self.mean += apart * count / total
        self.count, self.zeros = self.count + count, self.zeros + zeros

    def fill(self) -> dict[str, float | list[float]]:
        """Return the mean as the ``fill`` value of an encoding, or nothing if an entry has no numbers."""
        means = self.mean.tolist()
        return {"fill": means if len(means) > 1 else means[0]} if self.count.all() else {}

    def scale(self, how: Standardize) -> dict[str, list[float]]:
        """Return ``mean`` and ``deviation`` of an encoding, or nothing if the column is not standardized."""
        mean, deviation, changed = self.scales(how)
        return {"mean": mean.tolist(), "deviation": deviation.tolist()} if changed.any() else {}

    def scales(self, how: Standardize) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and standard deviation of each column, and a mask of the columns to standardize.

        Other columns have mean 0 and standard deviation 1. A column of mostly zeros is only divided, not shifted, so
        that sparse rows stay sparse.
        """
        size = np.where(self.count > 0, np.maximum(np.abs(self.least), np.abs(self.most)), 0.0)
        changed = (self.count > 0) & ((size > LARGE) if how == "large" else bool(how))
        mean = np.where(changed & (2 * self.zeros <= self.count), self.mean, 0.0)
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1) + (self.mean - mean) ** 2)
        return mean, np.where(changed & (deviation > 1e-12 * size), deviation, 1.0), changed


def scale_of(encodings: Sequence[Encoding]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each feature: 0 and 1 if it is not standardized."""
    means: list[float] = []
    deviations: list[float] = []
    for encoding in encodings:
        means += encoding.get("mean") or [0.0] * width_of(encoding)
        deviations += encoding.get("deviation") or [1.0] * width_of(encoding)
    return np.array(means), np.array(deviations)


def standardized(block: np.ndarray, encodings: Sequence[Encoding]) -> np.ndarray:
    """Standardize numbers with the mean and standard deviation of their encodings, as float32.

    Example:
        >>> age = {"column": "age", "kind": "numeric", "width": 1, "mean": [20.0], "deviation": [10.0]}
        >>> standardized(np.array([[10.0], [30.0]]), [age]).tolist()
        [[-1.0], [1.0]]
    """
    if any("deviation" in encoding for encoding in encodings):
        mean, deviation = scale_of(encodings)
        block = (np.where(np.abs(block) > _MOST, np.inf, block) - mean) / deviation
    with np.errstate(over="ignore"):  # infinite features are reported by check_features
        return block.astype(np.float32)


def rescaling(known: Sequence[Encoding], found: Sequence[Encoding]) -> tuple[np.ndarray, np.ndarray]:
    """Compute the factor and the offset that convert standardized features to another mean and standard deviation.

    Args:
        known: Encodings of the columns with the wanted mean and standard deviation.
        found: Encodings of the same columns with their present mean and standard deviation.

    Example:
        >>> age = {"column": "age", "kind": "numeric", "width": 1}
        >>> rescaling([age | {"mean": [40.0], "deviation": [10.0]}], [age | {"mean": [50.0], "deviation": [20.0]}])
        (array([2.]), array([1.]))
    """
    (mean, deviation), (other, others) = scale_of(known), scale_of(found)
    return others / deviation, (other - mean) / deviation


def report_standardized(table: Reporter, encodings: Sequence[Encoding], sizes: np.ndarray, how: Standardize) -> None:
    """Report the columns that were standardized: a warning, or a note if the schema asked for it (``how``).

    ``sizes`` has the largest absolute value of each feature after standardization.
    """
    changed: list[str] = []
    far: dict[str, float] = {}
    begin = 0
    for encoding in encodings:
        end = begin + width_of(encoding)
        if "deviation" in encoding:
            changed.append(encoding["column"])
            size = sizes[begin:end][np.array(encoding["mean"]) != 0].max(initial=0)
            if _FAR < size < np.inf:
                far[encoding["column"]] = float(size)
        begin = end
    if changed:
        text = (
            f"{subject('column', changed, 'was', 'were')} standardized to mean 0 and standard deviation 1 "
            "(set standardize: false in schema.yaml to keep the values)"
        )
        (table.note if how is True else table.warning)("standardized", text)
    if far:
        text = (
            f"{subject('column', far, 'has', 'have')} a number {max(far.values()):.0f} standard deviations from the "
            "mean; if it means a missing value, leave the cell empty and set fill: mean in schema.yaml, else use "
            "logarithms"
        )
        table.warning("far-feature", text)
