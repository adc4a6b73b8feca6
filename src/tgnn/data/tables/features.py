"""Encoding of the columns of a table as a feature matrix, and the record of it for new data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tgnn.data.tables.encodings import (
    Encoding,
    check_column_type,
    infer_encoding,
    names_of,
    number_matrix,
    one_hot,
    token_matrix,
    width_of,
)
from tgnn.data.tables.schema import Schema, Standardize
from tgnn.data.tables.standardize import Moments, standardized
from tgnn.data.tables.table_file import Table
from tgnn.data.tensors import torch_csr
from tgnn.data.validation.report import subject

SPARSE, WIDE = 0.1, 32
"""A matrix is stored sparse if at most this fraction of its entries is not 0 and it has at least this many columns."""
_CELLS = 1 << 20
"""Number of cells of numeric columns that are encoded at once. A column at a time would be slow for wide tables."""


@dataclass
class Features:
    """Encoded feature columns.

    Args:
        rows: Number of rows.
        encodings: Encoding of each column that is used.
        blocks: Feature matrices of these columns, dense or sparse, one after the other.
    """

    rows: int
    encodings: list[Encoding] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Number of columns of the feature matrix."""
        return sum(block.shape[1] for block in self.blocks)

    def sizes(self) -> np.ndarray:
        """Return the largest absolute value of each feature. Categories and tokens are at most 1."""
        sizes = (np.ones(b.shape[1]) if scipy.sparse.issparse(b) else np.abs(b).max(0, initial=0) for b in self.blocks)
        return np.concatenate([np.empty(0), *sizes])

    def describe(self) -> str:
        """List the columns by type, for the report."""
        kinds: dict[str, list[str]] = {}
        for encoding in self.encodings:
            width = "" if width_of(encoding) == 1 else f" ({width_of(encoding):,})"
            kinds.setdefault(encoding["kind"], []).append(f"{encoding['column']}{width}")
        return "; ".join(
            f"{kind}: {', '.join(columns[:8])}" + (f" and {len(columns) - 8:,} more" if len(columns) > 8 else "")
            for kind, columns in kinds.items()
        )

    def names(self) -> list[str]:
        """Return the names of the columns of the feature matrix."""
        return [name for encoding in self.encodings for name in names_of(encoding)]

    def is_sparse(self) -> bool:
        """Whether the feature matrix should be stored as a sparse matrix."""
        entries = sum(int(b.nnz if scipy.sparse.issparse(b) else np.count_nonzero(b)) for b in self.blocks)
        return self.width >= WIDE and entries <= SPARSE * self.rows * self.width

    def matrix(self, sparse: bool = False) -> Tensor | None:
        """Return the feature matrix ``[rows, width]``, or ``None`` if there are no features."""
        if not self.blocks:
            return None
        if sparse:
            return torch_csr(scipy.sparse.hstack([scipy.sparse.csr_matrix(b) for b in self.blocks], format="csr"))
        dense = [b.toarray() if scipy.sparse.issparse(b) else b for b in self.blocks]
        return torch.from_numpy(np.concatenate(dense, axis=1, out=np.empty((self.rows, self.width), np.float32)))


def encode(table: Table, schema: Schema) -> Features:
    """Infer the type of each feature column and encode it."""
    found = (infer_encoding(table, column, kind, schema) for column, kind in table.roles.features.items())
    return apply(table, [one for one in found if one is not None], schema.fill, schema.standardize)


def apply(
    table: Table,
    encodings: Sequence[Encoding],
    fill: float | str | None = None,
    standardize: Standardize = False,
    solution: str = "or set a fill value in schema.yaml (fill: mean)",
) -> Features:
    """Encode columns with known encodings.

    Args:
        table: The rows. Missing columns and unknown values are reported.
        encodings: Encodings made by :func:`encode`.
        fill: Value for missing numbers of columns whose encoding has none.
        standardize: Which numeric columns to standardize. Columns whose encoding has a mean are standardized with it.
        solution: Advice at the end of the error about missing numbers.
    """
    absent = [encoding["column"] for encoding in encodings if encoding["column"] not in table.series]
    if absent:
        text = subject("column", absent, "of the training data is", "of the training data are", limit=20)
        table.fail("missing-column", f"{text} missing")
    for encoding in encodings:
        check_column_type(table, encoding)
    features = Features(table.frame.height)
    missing: dict[str, np.ndarray] = {}
    for group in _groups(encodings, table.frame.height):
        kind = group[0]["kind"]
        if kind == "numeric":
            block, group = _encode_numbers(table, group, fill, standardize, missing)
        else:
            (encoding,) = group
            block = one_hot(table, encoding) if kind == "categorical" else token_matrix(table, encoding)
        features.encodings += group
        features.blocks.append(block)
    if missing:
        text = f"{subject('column', missing, 'has', 'have')} a missing number; add it, {solution}"
        table.error("missing-feature", text, np.any(list(missing.values()), axis=0))
    return features


def _groups(encodings: Sequence[Encoding], rows: int) -> Iterator[list[Encoding]]:
    """Yield adjacent columns of numbers together, and every other column alone."""
    at_once = max(1, _CELLS // max(1, rows))
    for scalar, columns in groupby(encodings, key=lambda encoding: encoding.get("width") == 1):
        group = list(columns)
        size = at_once if scalar else 1
        yield from (group[begin : begin + size] for begin in range(0, len(group), size))


def _encode_numbers(
    table: Table,
    encodings: Sequence[Encoding],
    fill: float | str | None,
    standardize: Standardize,
    missing: dict[str, np.ndarray],
) -> tuple[np.ndarray, list[Encoding]]:
    """Encode scalar columns, or one column of lists. Add a mask of the missing numbers that have no fill value.

    The fill value is recorded even if no number is missing here, because numbers may be missing in new data. Filled
    numbers count in the mean and standard deviation.
    """
    columns = [number_matrix(table, encoding) for encoding in encodings]
    block = columns[0] if len(columns) == 1 else np.concatenate(columns).reshape(len(columns), -1).T
    gaps = np.isnan(block)
    num_gaps = gaps.sum(0)
    fills = _fill_values(block, num_gaps, fill)
    moments = Moments(block.shape[1])
    if standardize:
        moments.update(block)
        if isinstance(fill, (int, float)):
            moments.update_constant(float(fill), num_gaps)
    mean, deviation, changed = moments.scales(standardize)
    encoded = []
    for i, encoding in enumerate(encodings):
        own = slice(None) if len(encodings) == 1 else slice(i, i + 1)
        if changed[own].any():
            encoding = encoding | {"mean": mean[own].tolist(), "deviation": deviation[own].tolist()}
        if "fill" not in encoding and not np.isnan(fills[own]).any():
            values = fills[own].tolist()
            encoding = encoding | {"fill": values if fill == "mean" and len(values) > 1 else values[0]}
        fills[own] = encoding.get("fill", 0.0)
        if num_gaps[own].any() and "fill" in encoding:
            value = encoding["fill"]
            value = "the mean of each entry" if isinstance(value, list) else f"{value:.10g}"
            text = f"column {encoding['column']!r} has a missing number, filled with {value}"
            table.note("filled-number", text, gaps[:, own].any(1))
        elif num_gaps[own].any():
            missing[encoding["column"]] = gaps[:, own].any(1)
        encoded.append(encoding)
    return standardized(np.where(gaps, fills, block), encoded), encoded


def _fill_values(block: np.ndarray, num_gaps: np.ndarray, fill: float | str | None) -> np.ndarray:
    """Return the value for missing numbers of each column: a constant or the mean, NaN if there is none."""
    fills = np.full(block.shape[1], np.nan if fill is None or fill == "mean" else float(fill))
    if fill == "mean":
        known = num_gaps < len(block)
        fills[known] = np.nanmean(block[:, known], axis=0)
    return fills
