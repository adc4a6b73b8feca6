"""Numeric columns: their statistics, collected block by block, and their standardization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tgnn.data.tables.schema import ColumnType, Schema, Standardize
from tgnn.data.validation.checks import LARGE
from tgnn.data.validation.report import Reporter, subject

Encoding = dict[str, Any]
"""JSON values. All columns have ``column`` and ``kind``. Numeric columns have ``width`` and may have ``fill``, ``mean``
and ``deviation``. Categorical columns have ``vocabulary``; token columns also have ``separator``."""
MISSING = ("na", "n/a", "nan", "null", "none", "?")
"""Lower-case strings that mean a missing number."""
_COMMA = r"^\s*[+-]?\d+,[\d,]*\d(\.\d*)?\s*$"
_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*$"
FEW = 10
"""Columns of at most this many rows are not checked for unique or consecutive values, which may be coincidence."""
_FAR = 10.0
"""A number this many standard deviations from the mean may mean that the value is missing, such as -999."""
_MOST = float(np.finfo(np.float32).max)
"""The largest float32. Larger numbers are infinite."""


def is_list(values: pl.Series) -> bool:
    """Whether the cells of a column are lists."""
    return isinstance(values.dtype, pl.List | pl.Array)


def list_width(values: pl.Series) -> int:
    """Return the length of the first non-empty list (0 if there is none), or 1 for a column of scalars."""
    if not is_list(values):
        return 1
    lengths = values.drop_nulls().cast(pl.List(values.dtype.inner)).list.len()  # type: ignore[attr-defined]
    return int(lengths.filter(lengths > 0).head(1).sum())


def as_numbers(values: pl.Series) -> pl.Series:
    """Convert to float64. Other strings than numbers become null. A comma separates thousands, as in ``1,000.5``.

    Commas are kept, and their numbers null, if one of them is a decimal comma, as in ``1,5``.
    """
    if values.dtype == pl.String and bool(values.str.contains(_COMMA).any()):
        with_comma = values.filter(values.str.contains(_COMMA).fill_null(False))
        if bool(with_comma.str.contains(_THOUSANDS).all()):
            values = values.str.replace_all(",", "")
    return values.cast(pl.Float64, strict=False)


def is_missing(values: pl.Series) -> pl.Series:
    """Return a mask of the cells that are empty or mean a missing number."""
    if values.dtype != pl.String:
        return values.is_null()
    return values.is_null() | values.str.to_lowercase().is_in(MISSING)


class NumericColumn:
    """Statistics of a feature column that may be numeric: counts, mean, standard deviation and largest number.

    The mean and the squares are updated block by block (Chan et al., 1983).
    """

    def __init__(self, name: str, kind: ColumnType | None) -> None:
        self.name, self.kind = name, kind
        self.rows = 0
        self.width = 0
        """Number of features. 0: all cells are empty."""
        self.unsupported = False
        """Whether the column has a type that is never numeric, such as a date."""
        self._present = self._numbers = 0
        """Number of cells that are not missing, and of those that are numbers."""
        self._counts_up, self._last = True, pl.Series(dtype=pl.Float64)
        self._count, self._mean, self._squares, self._zeros, self._largest = np.zeros((5, 1))
        """Statistics of each feature. ``_squares`` is the sum of squared differences from the mean."""

    def update(self, values: pl.Series) -> None:
        """Add the next block of rows."""
        if not (is_list(values) or values.dtype in (pl.String, pl.Boolean) or values.dtype.is_numeric()):
            self.unsupported |= values.null_count() < len(values)
            return
        missing = is_missing(values)
        self.rows += len(values)
        self._present += len(values) - int(missing.sum())
        if is_list(values):
            cells = values.drop_nulls().explode()
            self._numbers += values.count() if cells.dtype.is_numeric() else 0
            self._counts_up, numbers = False, as_numbers(cells)
        else:
            numbers = as_numbers(values)
            steps = pl.concat([self._last, numbers]).diff(null_behavior="drop")
            self._counts_up = self._counts_up and bool((steps == 1).all(ignore_nulls=False))
            self._last, numbers = numbers[-1:], numbers.filter(~missing)
            self._numbers += numbers.count()
        if not self.width and values.count():
            self.width = list_width(values)
            self._count, self._mean, self._squares, self._zeros, self._largest = np.zeros((5, max(self.width, 1)))
        if self.width and len(numbers) % self.width == 0:  # lists of different lengths are reported by the encoder
            rows = numbers.fill_null(np.nan).to_numpy().reshape(-1, self.width)
            known = np.abs(rows) <= _MOST
            count = known.sum(0)
            mean = np.where(known, rows, 0.0).sum(0) / np.maximum(count, 1)
            squares = np.where(known, rows - mean, 0.0) ** 2
            self._merge(count, mean, squares.sum(0), (known & (rows == 0)).sum(0))
            self._largest = np.maximum(self._largest, np.where(known, np.abs(rows), 0.0).max(0, initial=0))

    def _merge(self, count: np.ndarray, mean: np.ndarray, squares: np.ndarray | float, zeros: np.ndarray) -> None:
        total, apart = np.maximum(self._count + count, 1), mean - self._mean
        self._squares = self._squares + squares + apart**2 * self._count * count / total
        self._mean = self._mean + apart * (count / total)
        self._count, self._zeros = self._count + count, self._zeros + zeros

    @property
    def is_numeric(self) -> bool:
        """Whether at least half of the cells are numbers. The others are then errors, not categories."""
        if self.unsupported or self.kind in ("categorical", "tokens"):
            return False
        return self.kind == "numeric" or 2 * self._numbers >= self._present

    def encoding(self, table: Reporter, schema: Schema) -> Encoding:
        """Return the encoding: fill value, mean and standard deviation.

        A column of consecutive integers is reported, because it is probably an index. Filled values are included in the
        mean and the standard deviation. A column of mostly zeros is not centered, so that sparse rows stay sparse. It
        is divided by the root mean square of its nonzero numbers, so columns of 0 and 1 do not change.
        """
        if self._counts_up and self.rows > FEW:
            hint = schema_hint(table, self.name, "ignore")
            table.warning(
                "feature-like-ids",
                f"column {self.name!r} contains consecutive integers; if it is not a feature, {hint}",
            )
        encoding: Encoding = {"column": self.name, "kind": "numeric", "width": max(self.width, 1)}
        if schema.fill is not None:
            encoding["filled"] = bool((self._count < self.rows).any())
        if schema.fill == "mean" and self._count.all():
            encoding["fill"] = self._mean.tolist() if self.width > 1 else float(self._mean[0])
        elif isinstance(schema.fill, (int, float)):
            fill, gaps = float(schema.fill), self.rows - self._count
            encoding["fill"] = fill
            self._merge(gaps, np.full_like(self._mean, fill), 0.0, gaps * (fill == 0))
            self._largest = np.where(gaps > 0, np.maximum(self._largest, abs(fill)), self._largest)
        changed = (self._count > 0) & (self._largest > LARGE if schema.standardize == "large" else schema.standardize)
        if changed.any():
            is_sparse = 2 * self._zeros > self._count
            mean = np.where(changed & ~is_sparse, self._mean, 0.0)
            squares = self._squares + self._count * (self._mean - mean) ** 2
            deviation = np.sqrt(squares / np.maximum(self._count - is_sparse * self._zeros, 1))
            constant = deviation <= 1e-12 * self._largest  # such as 1, which a model can sum over neighbors
            mean = np.where(constant, 0.0, mean)
            deviation = np.where(constant, np.where(self._largest > LARGE, self._largest, 1.0), deviation)
            deviation = np.where(changed, deviation, 1.0)
            encoding |= {"mean": mean.tolist(), "deviation": deviation.tolist()}
        return encoding


def schema_hint(table: Reporter, column: str, kind: str) -> str:
    """Return how to set the type of a column. A section of the schema has the name of the file."""
    return f"set its type in schema.yaml ({table.name.lower().partition('.')[0]}: features: {column}: {kind})"


# ---- standardization -------------------------------------------------------------------------------------------


def width_of(encoding: Encoding) -> int:
    """Return the number of columns of the feature matrix that a table column becomes."""
    return int(encoding["width"]) if encoding["kind"] == "numeric" else len(encoding["vocabulary"])


def scale_of(encodings: Sequence[Encoding]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each feature: 0 and 1 if it is not standardized."""
    means: list[float] = []
    deviations: list[float] = []
    for encoding in encodings:
        means += encoding.get("mean") or [0.0] * width_of(encoding)
        deviations += encoding.get("deviation") or [1.0] * width_of(encoding)
    return np.array(means), np.array(deviations)


def standardized(block: np.ndarray, encodings: Sequence[Encoding]) -> np.ndarray:
    """Standardize numbers with the mean and standard deviation of their encodings, as float32."""
    if any("deviation" in encoding for encoding in encodings):
        mean, deviation = scale_of(encodings)
        block = (np.where(np.abs(block) > _MOST, np.inf, block) - mean) / deviation
    with np.errstate(over="ignore"):  # infinite features are reported by check_features
        return block.astype(np.float32)


def rescaling(known: Sequence[Encoding], found: Sequence[Encoding]) -> tuple[np.ndarray, np.ndarray]:
    """Compute the factor and the offset that convert standardized features to the mean and deviation of ``known``.

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
        (table.warning if how == "large" else table.note)("standardized", text)
    if far:
        text = (
            f"{subject('column', far, 'has', 'have')} a number {max(far.values()):.0f} standard deviations from the "
            "mean; if it means a missing value, leave the cell empty and set fill: mean in schema.yaml, else use "
            "logarithms"
        )
        table.warning("far-feature", text)
