"""Standardization of numeric columns to mean 0 and standard deviation 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tgnn.data.tables.schema import Standardize
from tgnn.data.validation.report import Finding, quoted
from tgnn.data.validation.value_checks import LARGE

_FAR = 10.0
"""A number this many standard deviations from the mean may be a placeholder for a missing number."""
_MOST = float(np.finfo(np.float32).max)
"""The largest float32. Larger numbers are infinite."""


class Moments:
    """Running mean, standard deviation and range of a numeric column, updated block by block (Chan et al., 1983).

    Columns of lists have one mean and standard deviation per entry.

    Args:
        width: Number of entries in a row.

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
        """Add a block of rows. Missing and infinite numbers are skipped.

        Args:
            rows: ``[N, width]``.
        """
        known = np.abs(rows) <= _MOST
        values = np.where(known, rows, 0.0)
        count = known.sum(0).astype(np.float64)
        mean = values.sum(0) / np.maximum(count, 1)
        self._merge(count, mean, (np.where(known, rows - mean, 0.0) ** 2).sum(0), (known & (rows == 0)).sum(0))
        self.least = np.minimum(self.least, np.where(known, rows, np.inf).min(0, initial=np.inf))
        self.most = np.maximum(self.most, np.where(known, rows, -np.inf).max(0, initial=-np.inf))

    def update_constant(self, value: float, count: np.ndarray) -> None:
        """Add one number several times.

        Args:
            value: The number.
            count: How often to add it to each entry, ``[width]``.
        """
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
        """Return ``mean`` and ``deviation`` of an encoding, or nothing if the column is not standardized.

        A column of mostly zeros is only divided, not shifted, so that sparse rows stay sparse.

        Args:
            how: Which entries to standardize. ``"large"``: those with an absolute value above
                :data:`~tgnn.data.validation.value_checks.LARGE`.
        """
        size = np.where(self.count > 0, np.maximum(np.abs(self.least), np.abs(self.most)), 0.0)
        changed = (self.count > 0) & ((size > LARGE) if how == "large" else bool(how))
        if not changed.any():
            return {}
        mean = np.where(changed & (2 * self.zeros <= self.count), self.mean, 0.0)
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1) + (self.mean - mean) ** 2)
        deviation = np.where(changed & (deviation > 1e-12 * size), deviation, 1.0)
        return {"mean": mean.tolist(), "deviation": deviation.tolist()}


def column_moments(rows: np.ndarray, gaps: np.ndarray, fill: float | str | None) -> Moments:
    """Compute the moments of a column in memory. Filled numbers count.

    Args:
        rows: ``[N, width]``; missing numbers are NaN.
        gaps: Number of missing numbers of each entry.
        fill: Fill value of the missing numbers.
    """
    moments = Moments(rows.shape[1])
    moments.update(rows)
    if isinstance(fill, (int, float)):
        moments.update_constant(float(fill), gaps)
    return moments


def standardized(block: np.ndarray, encoding: Mapping[str, Any]) -> np.ndarray:
    """Standardize a block of numbers with the mean and standard deviation of its encoding.

    Args:
        block: ``[N, width]``.
        encoding: Encoding of the column.

    Example:
        >>> standardized(np.array([[10.0], [30.0]]), {"mean": [20.0], "deviation": [10.0]}).tolist()
        [[-1.0], [1.0]]
    """
    if "deviation" in encoding:
        block = np.where(np.abs(block) > _MOST, np.inf, block)
        block = (block - np.array(encoding["mean"])) / np.array(encoding["deviation"])
    with np.errstate(over="ignore"):  # infinite features are reported by check_features
        return block.astype(np.float32)


def rescaling(known: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Compute the factor and the offset that convert standardized features to another mean and standard deviation.

    Args:
        known: Encodings of the columns with the wanted mean and standard deviation.
        found: Encodings of the same columns with their present mean and standard deviation.

    Example:
        >>> age = {"column": "age", "kind": "numeric", "width": 1}
        >>> rescaling([age | {"mean": [40.0], "deviation": [10.0]}], [age | {"mean": [50.0], "deviation": [20.0]}])
        (array([2.]), array([1.]))
    """
    (mean, deviation), (other, others) = (_scale_of(encodings) for encodings in (known, found))
    return others / deviation, (other - mean) / deviation


def _scale_of(encodings: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    means: list[float] = []
    deviations: list[float] = []
    for encoding in encodings:
        width = encoding["width"] if encoding["kind"] == "numeric" else len(encoding["vocabulary"])
        means += encoding.get("mean", [0.0] * width)
        deviations += encoding.get("deviation", [1.0] * width)
    return np.array(means), np.array(deviations)


def standardization_findings(
    max_abs: Iterable[tuple[Mapping[str, Any], np.ndarray]], file: str, how: Standardize
) -> list[Finding]:
    """Report the columns that were standardized: a warning, or a note if the schema asked for it.

    Args:
        max_abs: Encodings, and the largest absolute value of each of their entries after standardization.
        file: Name of the table.
        how: The value of ``standardize`` in the schema.
    """
    changed = {one["column"]: size[np.array(one["mean"]) != 0] for one, size in max_abs if "deviation" in one}
    if not changed:
        return []
    plural = len(changed) > 1
    text = (
        f"column{'s' * plural} {quoted(changed)} {'were' if plural else 'was'} standardized to mean 0 and standard "
        "deviation 1 (set standardize: false in schema.yaml to keep the values)"
    )
    found = [Finding("note" if how is True else "warning", "standardized", text, file)]
    far = {column: float(size.max()) for column, size in changed.items() if _FAR < size.max(initial=0) < np.inf}
    if far:
        text = (
            f"column{'s' * (len(far) > 1)} {quoted(far)} {'have' if len(far) > 1 else 'has'} a number "
            f"{max(far.values()):.0f} standard deviations from the mean; if it means a missing value, leave the cell "
            "empty and set fill: mean in schema.yaml, else use logarithms"
        )
        found.append(Finding("warning", "far-feature", text, file))
    return found
