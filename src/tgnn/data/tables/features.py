"""Encoding of the columns of a table as a feature matrix, and the record of it for new data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tgnn.data.tables.encoders import Encoding, check_column_types, infer_encoding, numbers, one_hot, token_matrix
from tgnn.data.tables.schema import ColumnType, Schema, Standardize
from tgnn.data.tables.standardize import column_moments, standardized
from tgnn.data.tables.table_file import TableData
from tgnn.data.tensors import torch_csr
from tgnn.data.validation.report import ValidationReport, quoted

SPARSE, WIDE = 0.1, 32
"""A matrix is stored sparse if at most this fraction of its entries is not 0 and it has at least this many columns."""


@dataclass
class Features:
    """Encoded feature columns.

    Args:
        rows: Number of rows.
        encodings: Encoding of each column that is used.
        blocks: Feature matrix of each of these columns.
    """

    rows: int
    encodings: list[Encoding] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Number of columns of the feature matrix."""
        return sum(block.shape[1] for block in self.blocks)

    def max_abs(self) -> Iterator[tuple[Encoding, np.ndarray]]:
        """Yield the largest absolute value of each entry of the numeric columns."""
        for encoding, block in zip(self.encodings, self.blocks):
            if encoding["kind"] == "numeric":
                yield encoding, np.abs(block).max(0, initial=0)

    def describe(self) -> str:
        """List the columns by type, for the report."""
        kinds: dict[str, list[str]] = {}
        for encoding, block in zip(self.encodings, self.blocks):
            width = "" if block.shape[1] == 1 else f" ({block.shape[1]:,})"
            kinds.setdefault(encoding["kind"], []).append(f"{encoding['column']}{width}")
        return "; ".join(f"{kind}: {', '.join(columns[:8])}{_more(columns, 8)}" for kind, columns in kinds.items())

    def names(self) -> list[str]:
        """Return the names of the columns of the feature matrix."""
        return [name for encoding in self.encodings for name in _names(encoding)]

    def is_sparse(self) -> bool:
        """Whether the feature matrix should be stored as a sparse matrix."""
        entries = sum(int(b.nnz if scipy.sparse.issparse(b) else np.count_nonzero(b)) for b in self.blocks)
        return self.width >= WIDE and entries <= SPARSE * self.rows * self.width

    def matrix(self, sparse: bool = False) -> Tensor | None:
        """Return the feature matrix ``[rows, width]``, or ``None`` if there are no features."""
        if not self.blocks:
            return None
        if sparse:
            return torch_csr(scipy.sparse.hstack([scipy.sparse.csr_matrix(b) for b in self._merged()], format="csr"))
        dense = [b.toarray() if scipy.sparse.issparse(b) else b for b in self.blocks]
        return torch.from_numpy(np.concatenate(dense, axis=1, dtype=np.float32))

    def _merged(self) -> Iterator[Any]:
        """Yield the blocks, with adjacent dense blocks merged, so that thousands of columns are few matrices."""
        dense: list[np.ndarray] = []
        for block in [*self.blocks, None]:
            if block is not None and not scipy.sparse.issparse(block):
                dense.append(block)
                continue
            if dense:
                yield np.concatenate(dense, axis=1)
            if block is not None:
                yield block
            dense = []


def encode(
    table: TableData, kinds: Mapping[str, ColumnType | None], schema: Schema, part: str, report: ValidationReport
) -> Features:
    """Infer the type of each column and encode it.

    Args:
        table: The rows.
        kinds: The columns, with the type that the schema sets for them.
        schema: Reading options.
        part: ``"nodes"`` or ``"edges"``, the section of the schema to name in messages.
        report: Collects errors and warnings.
    """
    encodings = []
    for column, kind in kinds.items():
        encoding = infer_encoding(table, column, kind, schema, part, report)
        if encoding is not None:
            encodings.append(encoding)
    return apply(table, encodings, report, schema.fill, part, schema.standardize)


def apply(
    table: TableData,
    encodings: Sequence[Encoding],
    report: ValidationReport,
    fill: float | str | None = None,
    part: str = "nodes",
    standardize: Standardize = False,
    solution: str = "or set a fill value in schema.yaml (fill: mean)",
) -> Features:
    """Encode columns with known encodings.

    Args:
        table: The rows.
        encodings: Encodings made by :func:`encode`.
        report: Collects errors and warnings, such as missing columns and unknown values.
        fill: Value for missing numbers of columns whose encoding has none.
        part: ``"nodes"`` or ``"edges"``, the section of the schema to name in messages.
        standardize: Which numeric columns to standardize. Columns whose encoding has a mean are standardized with it.
        solution: Advice at the end of the error about missing numbers.
    """
    absent = [encoding["column"] for encoding in encodings if encoding["column"] not in table.frame.columns]
    if absent:
        plural = len(absent) > 1
        text = f"column{'s' * plural} {quoted(absent, 20)} of the training data {'are' if plural else 'is'} missing"
        report.fail(table.places.finding("error", "missing-column", text))
    check_column_types(table, encodings, report)
    features = Features(table.frame.height)
    missing: dict[str, np.ndarray] = {}
    for encoding in encodings:
        values = table.frame[encoding["column"]]
        if encoding["kind"] == "categorical":
            block = one_hot(table, values, encoding, report)
        elif encoding["kind"] == "tokens":
            block = token_matrix(table, values, encoding, report)
        else:
            block = numbers(table, values, encoding, part, report)
            gaps = np.isnan(block)
            encoding = _with_fill(block, gaps, encoding, fill, standardize)
            if gaps.any() and "fill" in encoding:
                fills = encoding["fill"]
                value = "the mean of each entry" if isinstance(fills, list) else f"{fills:.10g}"
                text = f"column {encoding['column']!r} has a missing number, filled with {value}"
                report.add(table.places.finding("note", "filled-number", text, gaps.any(1)))
            elif gaps.any():
                missing[encoding["column"]] = gaps.any(1)
            block = standardized(np.where(gaps, encoding.get("fill", 0.0), block), encoding)
        features.encodings.append(encoding)
        features.blocks.append(block)
    if missing:
        plural = len(missing) > 1
        text = (
            f"column{'s' * plural} {quoted(missing)} {'have' if plural else 'has'} a missing number; add it, {solution}"
        )
        report.add(table.places.finding("error", "missing-feature", text, np.any(list(missing.values()), axis=0)))
    return features


def _with_fill(
    block: np.ndarray, gaps: np.ndarray, encoding: Encoding, fill: float | str | None, standardize: Standardize
) -> Encoding:
    """Return the encoding with its fill value, mean and standard deviation.

    The fill value is recorded even if no number is missing here, because numbers may be missing in new data. Filled
    numbers count in the mean and standard deviation.
    """
    known = encoding.get("fill", fill)
    if standardize:
        encoding = encoding | column_moments(block, gaps.sum(0), known).scale(standardize)
    if "fill" in encoding or known is None or (known == "mean" and gaps.all(0).any()):
        return encoding
    fills = np.nanmean(block, axis=0).tolist() if known == "mean" else [float(known)]
    return encoding | {"fill": fills if len(fills) > 1 else fills[0]}


def _more(columns: list[str], shown: int) -> str:
    return f" and {len(columns) - shown:,} more" if len(columns) > shown else ""


def _names(encoding: Encoding) -> list[str]:
    column = encoding["column"]
    if encoding["kind"] in ("categorical", "tokens"):
        return [f"{column}={word}" for word in encoding["vocabulary"]]
    return [column] if encoding["width"] == 1 else [f"{column}[{i}]" for i in range(encoding["width"])]
