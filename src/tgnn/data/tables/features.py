"""Columns to feature matrices, and how it was done, so that new data can be encoded the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tgnn.data.readers.sparse import torch_csr
from tgnn.data.tables.encoders import Encoding, check_kinds, guess_kind, numbers, one_hot, token_matrix
from tgnn.data.tables.schema import Kind, Schema, Standardize
from tgnn.data.tables.standardize import moments_of, standardized
from tgnn.data.tables.table_file import Table
from tgnn.data.validation.report import Report, named

SPARSE, WIDE = 0.1, 32
"""A matrix is stored sparse if it has at most this share of entries, and at least so many columns."""


@dataclass
class Features:
    """Encoded columns.

    Args:
        rows: How many.
        encodings: One for each column that is used: ``column``, ``kind`` and what that kind needs.
        blocks: The matrix of each.
    """

    rows: int
    encodings: list[Encoding] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)

    @property
    def width(self) -> int:
        return sum(block.shape[1] for block in self.blocks)

    def sizes(self) -> Iterator[tuple[Encoding, np.ndarray]]:
        """The largest number of each entry of columns of numbers."""
        for encoding, block in zip(self.encodings, self.blocks):
            if encoding["kind"] == "numeric":
                yield encoding, np.abs(block).max(0, initial=0)

    def told(self) -> str:
        """In words, for a report."""
        kinds: dict[str, list[str]] = {}
        for encoding, block in zip(self.encodings, self.blocks):
            width = "" if block.shape[1] == 1 else f" ({block.shape[1]:,})"
            kinds.setdefault(encoding["kind"], []).append(f"{encoding['column']}{width}")
        return "; ".join(f"{kind}: {', '.join(columns[:8])}{_more(columns, 8)}" for kind, columns in kinds.items())

    def names(self) -> list[str]:
        """Of the columns of the matrix."""
        return [name for encoding in self.encodings for name in _names(encoding)]

    def is_sparse(self) -> bool:
        """Whether so few entries are not 0 that it is better stored so."""
        entries = sum(int(b.nnz if scipy.sparse.issparse(b) else np.count_nonzero(b)) for b in self.blocks)
        return self.width >= WIDE and entries <= SPARSE * self.rows * self.width

    def matrix(self, sparse: bool = False) -> Tensor | None:
        """All columns side by side, ``[rows, width]``; ``None``: there are none."""
        if not self.blocks:
            return None
        if sparse:
            return torch_csr(scipy.sparse.hstack([scipy.sparse.csr_matrix(b) for b in self._merged()], format="csr"))
        dense = [b.toarray() if scipy.sparse.issparse(b) else b for b in self.blocks]
        return torch.from_numpy(np.concatenate(dense, axis=1, dtype=np.float32))

    def _merged(self) -> Iterator[Any]:
        """Dense blocks that are neighbours as one: thousands of columns are not to be thousands of matrices."""
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


def encode(table: Table, kinds: Mapping[str, Kind | None], schema: Schema, part: str, report: Report) -> Features:
    """Decides what each column is, and encodes it.

    Args:
        table: The rows.
        kinds: The columns, with what the schema says of them.
        schema: For the rest of what it says.
        part: ``"nodes"`` or ``"edges"``, for the way out of an error.
        report: Takes what is odd.
    """
    encodings = []
    for column, kind in kinds.items():
        encoding = guess_kind(table, column, kind, schema, part, report)
        if encoding is not None:
            encodings.append(encoding)
    return apply(table, encodings, report, schema.fill, part, schema.standardize)


def apply(
    table: Table,
    encodings: Sequence[Encoding],
    report: Report,
    fill: float | str | None = None,
    part: str = "nodes",
    standardize: Standardize = False,
    way_out: str = "or say what to take (schema.yaml: fill: mean)",
) -> Features:
    """Encodes the columns as recorded.

    Args:
        table: The rows.
        encodings: As :func:`encode` made them.
        report: Takes what is odd: columns and values that were not there then.
        fill: What to take for a missing number where the encoding does not say.
        part: As above.
        way_out: What else to do where a number is missing.
        standardize: Which columns of numbers are to be brought to mean 0 and deviation 1 that the encodings do not say.
    """
    absent = [encoding["column"] for encoding in encodings if encoding["column"] not in table.frame.columns]
    if absent:
        what, them = ("column", "is missing, and the features were made with it")
        if len(absent) > 1:
            what, them = ("columns", "are missing, and the features were made with them")
        text = f"the {what} {named(absent, 20)} {them}"
        report.fail(table.places.finding("error", "missing-column", text))
    check_kinds(table, encodings, report)
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
                taken = "the mean of each entry" if isinstance(fills, list) else f"{fills:.10g}"
                text = f"{encoding['column']!r} has no number: {taken} is taken for it"
                report.add(table.places.finding("note", "filled-number", text, gaps.any(1)))
            elif gaps.any():
                missing[encoding["column"]] = gaps.any(1)
            block = standardized(np.where(gaps, encoding.get("fill", 0.0), block), encoding)
        features.encodings.append(encoding)
        features.blocks.append(block)
    if missing:
        text = f"a number is missing in {named(missing)}: complete it, {way_out}"
        report.add(table.places.finding("error", "missing-feature", text, np.any(list(missing.values()), axis=0)))
    return features


def _with_fill(
    block: np.ndarray, gaps: np.ndarray, encoding: Encoding, fill: float | str | None, standardize: Standardize
) -> Encoding:
    """The encoding with what to take for a missing number, where that is known, even if nothing is missing here: in new
    data something may be. So with mean and deviation, of which a number that is filled in is a part.
    """
    known = encoding.get("fill", fill)
    if standardize:
        encoding = encoding | moments_of(block, gaps.sum(0), known).standard(standardize)
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
