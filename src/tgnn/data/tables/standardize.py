"""Columns of numbers brought to mean 0 and deviation 1, so that an income can be learned from as well as a share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tgnn.data.tables.schema import Standardize
from tgnn.data.validation.report import Finding, named
from tgnn.data.validation.value_checks import LARGE

_FAR = 10.0
"""Deviations from the mean: a number that is further away may stand for one that is missing."""
_MOST = float(np.finfo(np.float32).max)
"""What is beyond is infinite in float32."""


class Moments:
    """Mean, deviation and size of the numbers of a column, block by block (Chan et al. 1983); of a list, each entry's.

    Args:
        width: Numbers in a row.

    Example:
        >>> moments = Moments(1)
        >>> for block in ([20000.0, 30000.0], [40000.0, float("nan")]):
        ...     moments.see(np.array(block).reshape(-1, 1))
        >>> moments.standard("large")
        {'mean': [30000.0], 'deviation': [8164.9...]}
    """

    def __init__(self, width: int) -> None:
        self.count, self.mean, self.squares = np.zeros((3, width))
        """``squares`` of what is between the numbers and their mean, added up."""
        self.zeros = np.zeros(width)
        self.least, self.most = np.full(width, np.inf), np.full(width, -np.inf)

    def see(self, rows: np.ndarray) -> None:
        """Takes more numbers; what is missing or infinite is passed over.

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

    def see_same(self, value: float, count: np.ndarray) -> None:
        """Takes one number many times.

        Args:
            value: The number.
            count: How often, in each entry.
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
        """What an encoding keeps of the mean, or of each entry's, to fill in; nothing where an entry has no number."""
        means = self.mean.tolist()
        return {"fill": means if len(means) > 1 else means[0]} if self.count.all() else {}

    def standard(self, how: Standardize) -> dict[str, list[float]]:
        """What an encoding keeps: ``mean`` and ``deviation`` of each entry; nothing where the column stays as it is.

        Where most numbers are 0 they stay 0, and the others are only divided: sparse rows stay sparse.

        Args:
            how: ``"large"``: only entries with a number beyond what products and steps of usual size can take.
        """
        size = np.where(self.count > 0, np.maximum(np.abs(self.least), np.abs(self.most)), 0.0)
        changed = (self.count > 0) & ((size > LARGE) if how == "large" else bool(how))
        if not changed.any():
            return {}
        mean = np.where(changed & (2 * self.zeros <= self.count), self.mean, 0.0)
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1) + (self.mean - mean) ** 2)
        deviation = np.where(changed & (deviation > 1e-12 * size), deviation, 1.0)
        return {"mean": mean.tolist(), "deviation": deviation.tolist()}


def moments_of(rows: np.ndarray, gaps: np.ndarray, fill: float | str | None) -> Moments:
    """Of a column that is in memory; a number that is filled in counts.

    Args:
        rows: ``[N, width]``, NaN where nothing is.
        gaps: How many are missing, in each entry.
        fill: What is taken for them.
    """
    moments = Moments(rows.shape[1])
    moments.see(rows)
    if isinstance(fill, (int, float)):
        moments.see_same(float(fill), gaps)
    return moments


def standardized(block: np.ndarray, encoding: Mapping[str, Any]) -> np.ndarray:
    """The numbers as the encoding has them, float32.

    Args:
        block: ``[N, width]``.
        encoding: Of its column.

    Example:
        >>> standardized(np.array([[10.0], [30.0]]), {"mean": [20.0], "deviation": [10.0]}).tolist()
        [[-1.0], [1.0]]
    """
    if "deviation" in encoding:
        block = np.where(np.abs(block) > _MOST, np.inf, block)
        block = (block - np.array(encoding["mean"])) / np.array(encoding["deviation"])
    with np.errstate(over="ignore"):  # infinite features are told where features are checked
        return block.astype(np.float32)


def to_scale(known: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """By what to multiply features, and what to add, so that columns of one scale have another.

    Args:
        known: Encodings of the columns, with the scale that is wanted.
        found: Of the same columns, with the scale that they have.

    Example:
        >>> age = {"column": "age", "kind": "numeric", "width": 1}
        >>> to_scale([age | {"mean": [40.0], "deviation": [10.0]}], [age | {"mean": [50.0], "deviation": [20.0]}])
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


def tell_standard(sizes: Iterable[tuple[Mapping[str, Any], np.ndarray]], file: str, how: Standardize) -> list[Finding]:
    """Which columns were changed and how to keep them: a warning, but where it was asked for.

    Args:
        sizes: Encodings, and the largest number of each entry after that, with no sign.
        file: The table.
        how: What the schema says.
    """
    changed = {one["column"]: size[np.array(one["mean"]) != 0] for one, size in sizes if "deviation" in one}
    if not changed:
        return []
    text = f"{named(changed)}: brought to mean 0 and deviation 1 (schema.yaml: standardize: false for as stored)"
    found = [Finding("note" if how is True else "warning", "standardized", text, file)]
    far = {column: float(size.max()) for column, size in changed.items() if _FAR < size.max(initial=0) < np.inf}
    if far:
        text = (
            f"{named(far)}: a number is {max(far.values()):.0f} deviations from the mean, which makes the others "
            "alike: if it stands for one that is missing, leave it empty (schema.yaml: fill: mean); if not, take "
            "logarithms"
        )
        found.append(Finding("warning", "far-feature", text, file))
    return found
